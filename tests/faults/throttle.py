"""Makes a process of this machine slow, from outside."""
import os
import pathlib
import signal
import threading
import time


def children(pid):
    """The processes that a process has started and that it has not waited for, in the order in which it started them."""
    listed = pathlib.Path(f'/proc/{pid}/task/{pid}/children').read_text(encoding='ascii')
    return [int(child) for child in listed.split()]


class Throttle:
    """A process that is stopped for 6 ms after every `running` seconds, as one is stopped whose core has other work."""

    def __init__(self, pid, running):
        self.ends = threading.Event()
        self.thread = threading.Thread(target=self.run, args=(pid, running))
        self.thread.start()

    def run(self, pid, running):
        try:
            while not self.ends.is_set():
                os.kill(pid, signal.SIGSTOP)
                self.ends.wait(0.006)
                os.kill(pid, signal.SIGCONT)
                time.sleep(running)
        except ProcessLookupError:
            pass

    def close(self):
        self.ends.set()
        self.thread.join()
