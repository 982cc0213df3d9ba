"""Makes the way between two processes of this machine slow, from outside."""
import ctypes
import errno
import os
import socket
import threading


class SlowEdge:
    """What two processes send to each other over TCP moves at a small rate, on all connections that they ever make: Linux paces it."""

    SO_MAX_PACING_RATE = 47
    PIDFD_GETFD = 438

    def __init__(self, first, second, rate=2_000_000):
        self.pids = (first, second)
        self.rate = rate  # bytes per second
        self.seen = set()
        self.slowed = 0
        self.ends = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    @classmethod
    def is_possible(cls):
        """Whether this machine lets a process have copies of another's sockets."""
        libc = ctypes.CDLL(None, use_errno=True)
        try:
            handle = os.pidfd_open(os.getpid())
        except OSError:
            return False
        copy = libc.syscall(cls.PIDFD_GETFD, handle, 2, 0)
        os.close(handle)
        if copy >= 0:
            os.close(copy)
        return copy >= 0

    def sockets(self, pid):
        """Yields copies of the process's connected sockets that have not been seen yet."""
        libc = ctypes.CDLL(None, use_errno=True)
        handle = os.pidfd_open(pid)
        try:
            for entry in os.scandir(f'/proc/{pid}/fd'):
                try:
                    name = os.readlink(entry.path)
                except OSError:
                    continue
                if not name.startswith('socket:'):
                    continue
                fd = libc.syscall(self.PIDFD_GETFD, handle, int(entry.name), 0)
                if fd < 0 and ctypes.get_errno() == errno.EBADF:
                    continue  # it has just been closed
                if fd < 0:
                    raise OSError(ctypes.get_errno(), 'pidfd_getfd')
                with socket.socket(fileno=fd) as copy:
                    if copy.family != socket.AF_INET:
                        continue
                    try:
                        yield (name, copy, copy.getsockname(), copy.getpeername())
                    except OSError:
                        continue  # it listens
        finally:
            os.close(handle)

    def slow_down(self):
        ends = [{own: peer for _, _, own, peer in self.sockets(pid)} for pid in self.pids]
        for here, there in ((0, 1), (1, 0)):
            for name, copy, own, peer in self.sockets(self.pids[here]):
                if peer in ends[there] and name not in self.seen:
                    copy.setsockopt(socket.SOL_SOCKET, self.SO_MAX_PACING_RATE, self.rate)
                    self.seen.add(name)
                    self.slowed += 1

    def run(self):
        while not self.ends.wait(0.05):
            try:
                self.slow_down()
            except (ProcessLookupError, FileNotFoundError):
                return

    def close(self):
        self.ends.set()
        self.thread.join()
