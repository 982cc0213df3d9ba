"""The program `sluice`, as a process that a Python program gives commands to."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import threading
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from sluice import _core
from sluice._errors import from_exit_code

__all__ = ["Interrupts", "Program", "find"]

_PREFIX = "sluice: "


def find() -> str:
    """The path of the program: ``SLUICE_BINARY``, what is installed beside this Python, or what is
    on the path.

    Raises:
        ModuleNotFoundError: there is none, or it is of another version than this package.
    """
    given = os.environ.get("SLUICE_BINARY")
    beside = os.path.join(sysconfig.get_path("scripts"), "sluice")
    path = given or (beside if os.access(beside, os.X_OK) else shutil.which("sluice"))
    if path is None:
        raise ModuleNotFoundError(
            "training needs the program sluice, which is not installed: pip install 'sluice[train]',"
            " or set SLUICE_BINARY to its path"
        )
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    except OSError as error:
        raise ModuleNotFoundError(f"{path} cannot be started: {error.strerror}") from error
    found = done.stdout.split("\n")[0].split()
    if len(found) < 2 or found[1] != _core.version:
        raise ModuleNotFoundError(
            f"{path} is {' '.join(found) or 'not sluice'}; this package is sluice {_core.version}, "
            "and needs the program of the same version"
        )
    return path


class Program:
    """One process of ``sluice train --commands``; see tools/train/commands/README.md.

    What it prints for people on stderr goes to ``sys.stderr``, but for the line with which it ends
    after an error: that becomes an exception.
    """

    def __init__(self, words: Sequence[str], pass_fds: Tuple[int, ...] = ()) -> None:
        path = find()
        # A socket, unlike a pipe, can be ended where processes that were forked have copies of it.
        self._commands, taken = socket.socketpair()
        # In a session of its own, so that a terminal's Ctrl-C reaches this process alone, which
        # then decides.
        with taken:
            self._process = subprocess.Popen(
                [path, "train", "--commands", *words],
                bufsize=0,  # a buffer's lock would stay locked in a process that is forked meanwhile
                stdin=taken,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=pass_fds,
                start_new_session=True,
            )
        self._writing = threading.RLock()  # a handler of the user's may stop what is being sent
        self._unread = b""  # of stdout
        self._error = ""  # the last line on stderr, not shown yet
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stderr is not None
        stderr = self._process.stderr.fileno()
        unread = b""
        while True:
            read = os.read(stderr, 1 << 16)
            *lines, unread = (unread + read).split(b"\n")
            if not read and unread:
                lines.append(unread)
            for line in lines:
                if self._error:
                    print(self._error, file=sys.stderr, flush=True)
                self._error = line.decode("utf-8", "replace")
            if not read:
                return

    def command(self, **fields: Any) -> None:
        """Sends a command."""
        unsent = (json.dumps(fields) + "\n").encode()
        with self._writing:
            try:
                while unsent:
                    unsent = unsent[self._commands.send(unsent) :]
            except OSError:
                pass  # it has ended, and lines() says why

    def stop(self) -> None:
        """Asks for the end of what the last command asked for, after the step that is being taken."""
        self.command(do="stop")

    def lines(self) -> Iterator[Dict[str, Any]]:
        """Its next answers. Raises what it ended with, where it has ended."""
        assert self._process.stdout is not None
        stdout = self._process.stdout.fileno()
        while True:
            line, newline, rest = self._unread.partition(b"\n")
            if newline:
                self._unread = rest
                yield json.loads(line)
                continue
            # Not readline(), which loses what it has of a line when a signal's handler raises.
            read = os.read(stdout, 1 << 16)
            if not read:
                raise self._end()
            self._unread += read

    def _end(self) -> BaseException:
        code = self._process.wait()
        self._listener.join()
        message, self._error = self._error, ""
        if message.startswith(_PREFIX):
            message = message[len(_PREFIX) :]
        if not message:
            message = (
                f"sluice was ended by signal {-code}"
                if code < 0
                else f"sluice has ended with exit code {code}; another rank may say why"
            )
        if code < 0:
            return RuntimeError(message)
        return from_exit_code(code, message)

    def close(self, patience: float = 30.0) -> None:
        """Ends it: after its last answer, unless that takes too long."""
        process = self._process
        try:
            self._commands.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # it has ended
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._listener.join()
        if self._error:
            print(self._error, file=sys.stderr, flush=True)
            self._error = ""
        self._commands.close()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()

    def kill(self) -> None:
        """Ends it at once."""
        self._process.kill()

    @property
    def pid(self) -> int:
        return self._process.pid


class Interrupts:
    """What Ctrl-C does while an answer of a program is waited for.

    Python's own handler raises KeyboardInterrupt between any two instructions: also where an answer
    has been read and is not kept yet. Within a ``with`` block of this, the first Ctrl-C asks the
    program to end what it does, and the second one ends the program; the end of the block raises
    KeyboardInterrupt. A handler that the user has set stays as it is.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._handles = False
        self.count = 0  # of those that code of the user has not dealt with
        self.raises = False  # as Python's own does, for code of the user

    def __enter__(self) -> "Interrupts":
        if threading.current_thread() is threading.main_thread():
            if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
                signal.signal(signal.SIGINT, self._handle)
                self._handles = True
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if self._handles:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if kind is None and self.count > 0:
            raise KeyboardInterrupt

    def _handle(self, *_: Any) -> None:
        if self.raises:
            self.raises = False
            raise KeyboardInterrupt  # counted where it gets out of that code
        self.count += 1
        if self.count == 1:
            self._program.stop()
        else:
            self._program.kill()
