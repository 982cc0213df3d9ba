"""Data that a Python program has, as what `sluice train --data` reads."""

from __future__ import annotations

import json
import os
import struct
import threading
from typing import Any, BinaryIO, Callable, Mapping, Optional, Sequence, Tuple, Union

__all__ = ["InputFunction", "Source", "said", "source_of"]

# tokens [size, seq + 1], or (inputs [size, ...], targets [size, ...]).
InputFunction = Callable[[int], Any]

# What PyTorch and Hugging Face call a target that does not count, and what sluice does.
_IGNORED = -100
_NO_TARGET = -1

# llm.c's files of tokens: the magic, the version, and the largest token of each width.
_WIDTHS = ((20240520, 1, "uint16", 2**16), (20240801, 7, "uint32", 2**32))

# What records may have, and what a dict of columns has as its keys.
_COLUMNS = ("text", "prompt", "completion", "messages")
_SHOWN_KEYS = 8

_QUESTION = struct.Struct("<6q")
_DESCRIPTION, _MICRO_BATCH = 0, 1
_FUNCTIONS = ("the input function", "eval_fn")  # by split


def _numpy() -> Any:
    try:
        import numpy
    except ImportError as error:
        raise ModuleNotFoundError("data of arrays needs numpy: pip install numpy") from error
    return numpy


class Source:
    """Where a run's data come from: ``path`` is the value of ``--data``."""

    path = ""
    fds: Tuple[int, ...] = ()  # that the program inherits

    def started(self) -> None:
        """The program has been started."""

    @property
    def error(self) -> Optional[BaseException]:
        """What an input function has raised."""
        return None

    @property
    def failure(self) -> str:
        """The same in words, with the micro-batch that was asked for."""
        return ""

    def close(self) -> None:
        """The program has ended."""


class _Path(Source):
    def __init__(self, path: Union[str, "os.PathLike[str]"]) -> None:
        self.path = os.fspath(path)


class _Asked(Source):
    """Answers the program's questions on a thread, over two pipes."""

    def __init__(
        self, train: InputFunction, validation: Optional[InputFunction], micro_batches: int
    ) -> None:
        self._functions = (train, validation)
        self._micro_batches = micro_batches
        self._error: Optional[BaseException] = None
        self._failure = ""
        questions, to_write = os.pipe()
        to_read, answers = os.pipe()
        self.fds = (to_read, to_write)
        self.path = f"fd:{to_read},{to_write}"
        self._questions = os.fdopen(questions, "rb", buffering=0)
        self._answers = os.fdopen(answers, "wb", buffering=0)
        self._documents = False
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def started(self) -> None:
        for fd in self.fds:
            os.close(fd)
        self.fds = ()
        self._thread.start()

    @property
    def error(self) -> Optional[BaseException]:
        return self._error

    @property
    def failure(self) -> str:
        return self._failure

    def close(self) -> None:
        for fd in self.fds:
            os.close(fd)
        self.fds = ()
        if self._thread.ident is not None:
            self._thread.join()  # it has read the end of the questions
        self._questions.close()
        self._answers.close()

    def _serve(self) -> None:
        while True:
            question = _read(self._questions, _QUESTION.size)
            if len(question) < _QUESTION.size:
                return
            asked = _QUESTION.unpack(question)
            try:
                answer = self._answer(*asked)
                size = len(answer)
            except BaseException as error:  # pylint: disable=broad-except
                _, split, index, *_ = asked
                failure = (
                    f"micro-batch {index} could not be had from {_FUNCTIONS[split]} "
                    f"({type(error).__name__}: {error})"
                )
                if self._error is None:  # raised again where the run is waited for
                    self._error, self._failure = error, failure
                answer = failure.encode()
                size = -len(answer)
            try:
                _write(self._answers, struct.pack("<q", size) + answer)
            except BrokenPipeError:
                return

    def _answer(
        self, ask: int, split: int, index: int, size: int, values: int, tokens: int
    ) -> bytes:
        if ask == _DESCRIPTION:
            # Where the function gives targets, some of them may not count.
            self._documents = bool(tokens) and isinstance(self._functions[0](0), tuple)
            described = {"documents": self._documents, "validation": self._micro_batches}
            return json.dumps(described).encode()
        function = self._functions[split]
        assert function is not None
        return _bytes_of(function(index), size, values, bool(tokens), self._documents)


def _read(file: BinaryIO, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = file.read(size - len(data))
        if not more:
            break
        data += more
    return data


def _write(file: BinaryIO, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


def _bytes_of(batch: Any, size: int, values: int, tokens: bool, documents: bool) -> bytes:
    numpy = _numpy()
    pair = isinstance(batch, tuple)
    if pair and len(batch) != 2:
        raise ValueError(f"the input function returned {len(batch)} arrays; expected 2")
    if pair != (documents or not tokens):
        raise ValueError(
            "the input function returned "
            + ("inputs and targets" if pair else "one array")
            + "; expected "
            + ("inputs and labels" if not tokens else "the same as for micro-batch 0")
        )
    if not pair:
        whole = _array(batch, "tokens", (size, values + 1), numpy.integer)
        return _ids(whole[:, :-1]) + _ids(whole[:, 1:])
    if not tokens:
        images = _array(numpy.reshape(_host(batch[0]), (size, -1)), "images", (size, values), None)
        labels = _array(batch[1], "labels", (size,), numpy.integer)
        return bytes(numpy.ascontiguousarray(images, dtype="<f4").tobytes()) + _ids(labels)
    inputs = _array(batch[0], "inputs", (size, values), numpy.integer)
    targets = _array(batch[1], "targets", (size, values), numpy.integer)
    return _ids(inputs) + _ids(numpy.where(targets == _IGNORED, _NO_TARGET, targets))


def _host(values: Any) -> Any:
    """A tensor of PyTorch that is on a GPU, or needs gradients, as one that numpy can read."""
    return values.detach().cpu() if hasattr(values, "detach") else values


def _array(values: Any, what: str, shape: Tuple[int, ...], kind: Any) -> Any:
    numpy = _numpy()
    array = numpy.asarray(_host(values))
    if array.shape != shape:
        raise ValueError(
            f"the input function returned {what} of shape {list(array.shape)}; "
            f"expected {list(shape)}"
        )
    if kind is not None and not numpy.issubdtype(array.dtype, kind):
        raise ValueError(f"the input function returned {what} of {array.dtype}; expected integers")
    return array


def _ids(array: Any) -> bytes:
    numpy = _numpy()
    if array.size > 0 and (array.min() < -(2**31) or array.max() >= 2**31):
        raise ValueError("the input function returned ids beyond 32 bits")
    return bytes(numpy.ascontiguousarray(array, dtype="<i4").tobytes())


def _token_file(tokens: Any, path: str) -> None:
    """A file of tokens whose header says how wide they are."""
    numpy = _numpy()
    least, most = (int(tokens.min()), int(tokens.max())) if tokens.size > 0 else (0, 0)
    if tokens.size == 0 or least < 0 or most >= 2**32:
        raise ValueError(
            f"data: an array of {tokens.size} tokens from {least} to {most}; expected at least one, "
            "and tokens from 0 on"
        )
    magic, version, width, _ = next(each for each in _WIDTHS if most < each[3])
    header = numpy.zeros(256, dtype="<i4")
    header[:3] = (magic, version, tokens.size)
    with open(path, "wb") as file:
        file.write(header.tobytes())
        file.write(numpy.ascontiguousarray(tokens).astype(numpy.dtype(width).newbyteorder("<")))


def said(given: Any) -> str:
    """What was given, as errors say it: its type, and its keys if it has any."""
    what = f"a {type(given).__name__}"
    if not hasattr(given, "keys"):
        return what
    keys = [repr(key) for key in given.keys()]
    if not keys:
        return f"{what} without keys"
    more = f" and {len(keys) - _SHOWN_KEYS} more" if len(keys) > _SHOWN_KEYS else ""
    noun = "key" if len(keys) == 1 else "keys"
    return f"{what} with the {noun} {', '.join(keys[:_SHOWN_KEYS])}{more}"


def _refuse_keys(data: Any) -> None:
    """Refuses a dict and a table of pandas', of which a loop sees the keys and not the values."""
    if not hasattr(data, "keys"):
        return
    keys = list(data.keys())
    column = next((key for key in keys if key in _COLUMNS), None)
    advice = ""
    if column is not None:
        advice = f"; of columns make a list of records, such as [{{{column!r}: ...}}, ...]"
    elif keys:
        advice = f"; give one of them, such as data[{keys[0]!r}]"
    raise ValueError(
        f"data is {said(data)}; expected a path, a row of tokens, or a list or an iterable of texts or "
        f"records{advice}"
    )


def _line_file(documents: Sequence[Any], path: str) -> None:
    """JSON lines of texts, or of records as the command line reads them."""
    with open(path, "w", encoding="utf-8") as file:
        for number, document in enumerate(documents):
            if isinstance(document, str):
                document = {"text": document}
            if not isinstance(document, Mapping):
                raise ValueError(
                    f"data: item {number} is a {type(document).__name__}; expected a text, or a dict "
                    "with 'text', with 'prompt' and 'completion', or with 'messages'"
                )
            file.write(json.dumps(dict(document), ensure_ascii=False) + "\n")


def source_of(
    data: Any,
    eval_fn: Optional[InputFunction],
    eval_micro_batches: int,
    folder: str,
) -> Source:
    """What the program reads for ``data``; files that it needs are written to ``folder``.

    Raises:
        ValueError: it is nothing that can be trained on.
    """
    if callable(data):
        if (eval_fn is None) != (eval_micro_batches == 0):
            raise ValueError("eval_fn and eval_micro_batches are given together or not at all")
        return _Asked(data, eval_fn, eval_micro_batches)
    if eval_fn is not None:
        raise ValueError("eval_fn goes with an input function; give validation for other data")
    if isinstance(data, (str, os.PathLike)):
        return _Path(data)
    if hasattr(data, "shape") and hasattr(data, "dtype"):  # a datasets.Dataset has a shape alone
        numpy = _numpy()
        tokens = numpy.asarray(_host(data))
        if tokens.ndim != 1 or not numpy.issubdtype(tokens.dtype, numpy.integer):
            raise ValueError(
                f"data: an array of shape {list(tokens.shape)} of {tokens.dtype}; "
                "expected one row of tokens"
            )
        path = os.path.join(folder, "tokens.bin")
        _token_file(tokens, path)
        return _Path(path)
    _refuse_keys(data)
    if hasattr(data, "__iter__"):
        path = os.path.join(folder, "documents.jsonl")
        _line_file(data, path)
        return _Path(path)
    raise ValueError(
        f"data is a {type(data).__name__}; expected a path, a row of tokens, texts or records, or "
        "an input function"
    )
