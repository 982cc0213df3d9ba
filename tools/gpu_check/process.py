"""Programs with a time-out; none of them outlives this one."""
import contextlib
import os
import shutil
import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

GRACE = 5  # seconds between asking a program to end and ending it
TAIL = 8  # last lines of stderr that are kept of a program that failed


class Stopped(BaseException):
    """This command was told to end; no exception of a part may hide that."""


class Running:
    """The programs that run now. Once stopped, none can be started."""

    def __init__(self):
        self._lock = threading.RLock()  # a signal's handler may come while its thread has it
        self._processes = set()
        self.stopped = False

    def add(self, start):
        with self._lock:
            if self.stopped:
                raise Stopped
            process = start()
            self._processes.add(process)
            return process

    def remove(self, process):
        with self._lock:
            self._processes.discard(process)

    def stop(self):
        self.stopped = True
        with self._lock:
            for process in self._processes:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)


RUNNING = Running()


@dataclass
class Outcome:
    code: int  # negative: the signal that ended it
    out: str
    err: str
    seconds: float
    timed_out: bool = False

    @property
    def ok(self):
        return self.code == 0 and not self.timed_out

    def tail(self):
        return [line.strip()[:300] for line in self.err.splitlines() if line.strip()][-TAIL:]

    def how(self):
        if self.timed_out:
            return f"not done after {self.seconds:.0f} s"
        return f"signal {-self.code}" if self.code < 0 else f"exit {self.code}"

    def why(self):
        """One line: how it ended, and the last line that it printed."""
        lines = [line.strip() for line in (self.err or self.out).splitlines() if line.strip()]
        return ": ".join([self.how(), *lines[-1:]])


class Reader(threading.Thread):
    """Takes lines from a pipe as they come, so that none is lost with the program."""

    def __init__(self, pipe, on_line=None):
        super().__init__(daemon=True)
        self._pipe = pipe
        self._on_line = on_line
        self._lines = []
        self.start()

    def run(self):
        with contextlib.suppress(ValueError, OSError):  # closed below, while a grandchild still holds the other end
            for line in self._pipe:
                self._lines.append(line)
                if self._on_line:
                    self._on_line(line.rstrip("\n"))

    def finish(self):
        self.join(GRACE)
        if not self.is_alive():
            self._pipe.close()
        return "".join(self._lines)


def _end(process):
    """Ends the program and its children; each program runs in its own process group."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        try:
            process.wait(GRACE)
        except subprocess.TimeoutExpired:
            continue


def _dies_with_us(command):
    """A prefix by which the program is killed when this one is, however it is: it would hold the GPU."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", "--", *command] if setpriv and shutil.which(str(command[0])) else command


def start(command, env=None, cwd=None):
    words = [str(word) for word in _dies_with_us(command)]
    return RUNNING.add(lambda: subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
        start_new_session=True, cwd=cwd, env={**os.environ, **(env or {})}))


def finish(process, timeout, on_line=None):
    """`on_line` is called with each line of stdout as it comes, by another thread."""
    began, timed_out = time.monotonic(), False
    out, err = Reader(process.stdout, on_line), Reader(process.stderr)
    try:
        process.wait(max(timeout, 0.1))
    except subprocess.TimeoutExpired:
        timed_out = True
        _end(process)
    except BaseException:
        _end(process)
        raise
    finally:
        RUNNING.remove(process)
    outcome = Outcome(process.returncode, out.finish(), err.finish(), time.monotonic() - began, timed_out)
    if RUNNING.stopped:
        raise Stopped
    return outcome


def run(command, timeout, env=None, cwd=None, on_line=None):
    """A program that does not exist is an outcome too."""
    try:
        process = start(command, env, cwd)
    except OSError as error:
        return Outcome(127, "", f"{command[0]}: {error.strerror}", 0.0)
    return finish(process, timeout, on_line)


def line_buffered(command):
    """Programs that print into a pipe keep their lines back until they end, unless they are told not to."""
    stdbuf = shutil.which("stdbuf")
    return [stdbuf, "-oL", *command] if stdbuf else command


def run_together(commands, timeout):
    """Programs that need each other: [(command, env)]. If one fails, the others have GRACE seconds to report why."""
    processes = []
    try:
        for command, env in commands:
            processes.append(start(command, env))
        with ThreadPoolExecutor(len(processes)) as readers:
            outcomes = [readers.submit(finish, process, timeout) for process in processes]
            end = None
            while not all(outcome.done() for outcome in outcomes):
                if end is None and any(process.poll() not in (None, 0) for process in processes):
                    end = time.monotonic() + GRACE
                if end is not None and time.monotonic() > end:
                    for process in processes:
                        if process.poll() is None:
                            _end(process)
                time.sleep(0.02)
            return [outcome.result() for outcome in outcomes]
    finally:
        for process in processes:
            if process.poll() is None:
                _end(process)
            RUNNING.remove(process)


def each(items, task, jobs, clock):
    """Runs `task` on every item, `jobs` at a time, as long as the clock has time; returns the items that were not reached."""
    def attempt(item):
        if clock.is_up():
            return True
        task(item)
        return False

    with ThreadPoolExecutor(max(1, jobs)) as pool:
        results = [pool.submit(attempt, item) for item in items]
        return [item for item, result in zip(items, results) if result.result()]
