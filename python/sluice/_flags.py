"""Keywords as the flags of the command line, and costs as its JSON."""

from __future__ import annotations

import json
import os
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

# What a number without a unit is measured in.
_UNITS = {
    "memory": "B",
    "bandwidth": "B/s",
    "latency": "s",
    "time_limit": "s",
}
# Costs of `--cost`, which holds for all stages.
_PER_STAGE = ("F", "I", "W", "B", "RECOMPUTE")
_UNIFORM = (*_PER_STAGE, "send", "overlap")


def read(text_or_path: Any, is_text: Callable[[str], bool]) -> Tuple[str, str]:
    """The text of a file, or what is such a text itself, and what errors call it."""
    text = os.fspath(text_or_path)
    if not isinstance(text_or_path, os.PathLike) and is_text(text):
        return text, "the text"
    try:
        with open(text, encoding="utf-8", newline="") as file:
            return file.read(), text
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise ValueError(f"{text}: cannot be read: {why}") from error


def _plain(value: Any) -> Any:
    """numpy's arrays and numbers as Python's."""
    return value.tolist() if hasattr(value, "tolist") else value


def _text(name: str, value: Any) -> str:
    value = _plain(value)
    if isinstance(value, bool):
        value = int(value)  # within a list or a dict, as in {"rslora": True}
    if isinstance(value, Mapping):
        return ",".join(f"{key}={_text(key, item)}" for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return ",".join(_text(f"an item of {name}", item) for item in value)
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**63:
        value = int(value)
    if isinstance(value, (int, float)):
        return f"{value!r}{_UNITS.get(name, '')}"
    if isinstance(value, str):
        return value
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    raise ValueError(
        f"{name} is a {type(value).__name__}; expected a number, a text or a list of these"
    )


def flags(keywords: Mapping[str, Any]) -> List[str]:
    """``{"micro_batches": 8, "recompute": True, "seed": None}`` is ``["--micro-batches=8",
    "--recompute=true"]``: None and False are what was not given."""
    words = []
    for name, value in keywords.items():
        value = _plain(value)
        if value is None or value is False:
            continue
        flag = "--" + name.replace("_", "-")
        if value is True:
            # Without a value, a flag that needs one would take the next word.
            words.append(f"{flag}=true")
            continue
        text = _text(name, value)
        if not text:
            raise ValueError(f"{name}: the value is empty; give one, or leave it out")
        words.append(f"{flag}={text}")
    return words


def _number_or_list(value: Any) -> Any:
    """What JSON takes for a number or an array of numpy's within a list."""
    plain = _plain(value)
    if plain is value:
        raise TypeError(f"{value!r} is a {type(value).__name__}")
    return plain


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def costs(given: Any) -> Tuple[Dict[str, Any], Optional[str]]:
    """Costs as a flag for what holds for all stages, or as the text of a ``--costs`` file."""
    if given is None:
        return {}, None
    if isinstance(given, str):
        return {"cost": given}, None
    if not isinstance(given, Mapping):
        raise ValueError(
            f"costs is a {type(given).__name__}; expected a dict such as "
            '{"F": [1, 1], "I": [1, 1], "W": [1, 1]}, or a text such as "F=1,B=2"'
        )
    plain = {name: _plain(value) for name, value in given.items()}
    if plain and all(name in _UNIFORM and _number(value) for name, value in plain.items()):
        return {"cost": plain}, None
    for name in _PER_STAGE:
        if _number(plain.get(name)):
            raise ValueError(
                f"costs: {name} is {plain[name]!r}; expected a list with a number per stage, since a "
                "number holds for every stage only where all costs are numbers, and of "
                f"{', '.join(_UNIFORM)} alone"
            )
    try:
        return {}, json.dumps(plain, allow_nan=False, default=_number_or_list)
    except (TypeError, ValueError) as error:
        raise ValueError(f"costs: {error}; expected finite numbers and lists of them") from None
