"""Programs with a time-out; none of them outlives this one."""
import os
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

GRACE = 5  # seconds between asking a program to end and ending it


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

    def why(self):
        """One line: how it ended, and the last line that it printed."""
        lines = [line for line in (self.err or self.out).splitlines() if line.strip()]
        said = f": {lines[-1].strip()}" if lines else ""
        if self.timed_out:
            return f"not done after {self.seconds:.0f} s{said}"
        how = f"signal {-self.code}" if self.code < 0 else f"exit {self.code}"
        return f"{how}{said}"


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


def start(command, env=None, cwd=None):
    return subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True, cwd=cwd,
                            env={**os.environ, **(env or {})})


def finish(process, timeout):
    began = time.monotonic()
    try:
        out, err = process.communicate(timeout=max(timeout, 0.1))
        return Outcome(process.returncode, out, err, time.monotonic() - began)
    except subprocess.TimeoutExpired:
        _end(process)
        out, err = process.communicate()
        return Outcome(process.returncode, out, err, time.monotonic() - began, timed_out=True)
    except BaseException:
        _end(process)
        raise


def run(command, timeout, env=None, cwd=None):
    """A program that does not exist is an outcome too."""
    try:
        process = start(command, env, cwd)
    except OSError as error:
        return Outcome(127, "", f"{command[0]}: {error.strerror}", 0.0)
    return finish(process, timeout)


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
