"""What the package raises, by the exit codes of the command line."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Optional

__all__ = ["Infeasible", "Invalid", "Lost", "from_exit_code"]

_BAD_INPUT = 2
_NO_PLAN = 3
_INVALID_TIMETABLE = 4
_PEER_LOST = 5
_OUT_OF_MEMORY = 6

# "--micro-batches", "-m/--micro-batches"; what is quoted was given.
_FLAG = re.compile(r"(?<!['\w-])(?:-[a-z]/)?--([a-z][a-z0-9-]*[a-z0-9])")
# A flag that has only a letter where the message names its value.
_LETTERS = {"-p": "ranks", "-m": "micro_batches", "-v": "chunks"}
# Advice for the command line.
_COMMAND = re.compile(r"(, as in: sluice [a-z].*|(;|(?<=\?)) see 'sluice [a-z ]*--help')$")


class Infeasible(Exception):
    """No timetable or plan keeps the limits, or none was found in the time.

    Attributes:
        question: what was asked: the keywords that were given.
        chunks, peak_activations: of a timetable that holds more than the limit: its stages per rank
            and the most (stage, micro-batch) activations of any rank; 0 where there is none.
        exit_code: 3, as of the command line.
    """

    exit_code = _NO_PLAN

    def __init__(self, message: str, question: Optional[Mapping[str, Any]] = None) -> None:
        super().__init__(message)
        self.question: Dict[str, Any] = dict(question or {})
        self.chunks = 0
        self.peak_activations = 0


class Invalid(Exception):
    """A timetable is not sound, so it cannot be simulated, drawn or run.

    Attributes:
        defects: everything that is wrong with it, as ``Timetable.check()`` returns it.
        exit_code: 4, as of the command line.
    """

    exit_code = _INVALID_TIMETABLE

    def __init__(self, message: str, defects: Optional[List[Any]] = None) -> None:
        super().__init__(message)
        self.defects: List[Any] = list(defects or [])


class Lost(ConnectionError):
    """Another rank of the run, or a device, was lost.

    Attributes:
        exit_code: 5, as of the command line.
    """

    exit_code = _PEER_LOST


def _in_python(message: str) -> str:
    """The message with keywords in the place of flags."""
    message = _COMMAND.sub("", message)
    message = _FLAG.sub(lambda match: match.group(1).replace("-", "_"), message)
    return re.sub(r"(?<!\S)-[pmv]\b", lambda match: _LETTERS[match.group(0)], message)


def from_exit_code(code: int, message: str, chunks: int = 0, peak: int = 0) -> BaseException:
    """The exception for an exit code of the command line; ``chunks`` and ``peak`` of a timetable
    that does not fit."""
    message = _in_python(message)
    if code == _NO_PLAN:
        error = Infeasible(message)
        error.chunks, error.peak_activations = chunks, peak
        return error
    if code == _INVALID_TIMETABLE:
        return Invalid(message)
    if code == _PEER_LOST:
        return Lost(message)
    if code == _OUT_OF_MEMORY:
        return MemoryError(message)
    return ValueError(message)
