"""Plans: the best partition and schedule of a model."""

from __future__ import annotations

import difflib
import html
import json
import os
from typing import Any, Dict, List, Mapping, Optional, Tuple, Union

from sluice import _core, _flags
from sluice._errors import Infeasible
from sluice._record import Record, Stage
from sluice._timetable import Timetable

# What a plan file has (PLAN.md): in every plan, in one with a schedule, in some; and in each stage.
# A list is one of objects, but for the names of layers.
_RESULT = {
    "model": str,
    "devices": int,
    "lower_bound": float,
    "gap": float,
    "optimal": bool,
    "bottleneck_seconds": float,
    "stages": list,
}
_STEP = {"schedule": str, "step_seconds": float, "bubble": float}
_SOMETIMES = {
    "tokens_per_second": float,
    "partition": str,
    "rejected": list,
    "what_if": list,
    "pareto": list,
}
_STAGE = {
    "stage": int,
    "layer_names": list,
    "forward_seconds": float,
    "backward_seconds": float,
    "peak_bytes": float,
}
_KINDS = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list of objects",
}

# Flags of `sluice plan` that say where and how its answer is printed.
_PRINTING = ("format", "json", "output", "title", "width")


class Plan:
    """How a model is cut into stages, what they cost, and which timetable runs them.

    ``sluice.plan`` makes them, and ``sluice.read_plan`` reads them back. A notebook shows the
    stages and the timetable. Plans can be pickled, and so be sent to other processes.
    """

    def __init__(self, core: Optional[_core.Plan], text: Optional[str] = None) -> None:
        """Of what was planned, or of the text of a plan file."""
        self._core = core
        self._text = core.json() if core is not None else text or ""
        self._data: Dict[str, Any] = json.loads(self._text)
        self._timetable: Optional[Timetable] = None

    @property
    def stages(self) -> List[Stage]:
        """[stage] its layers, rank, seconds, bytes and recomputation (see ``sluice.Stage``)."""
        return [Stage(stage) for stage in self._data["stages"]]

    @property
    def schedule(self) -> Optional[str]:
        """The schedule's name; "auto" for an order made for these costs; None where a graph was
        cut for its bottleneck alone."""
        schedule = self._data.get("schedule")
        return None if schedule is None else str(schedule)

    @property
    def step_seconds(self) -> Optional[float]:
        """The predicted seconds of one step; None where a graph was cut for its bottleneck alone."""
        seconds = self._data.get("step_seconds")
        return None if seconds is None else float(seconds)

    @property
    def bottleneck_seconds(self) -> float:
        """The most seconds that a rank, or an edge between ranks, takes for one micro-batch."""
        return float(self._data["bottleneck_seconds"])

    @property
    def bubble(self) -> Optional[float]:
        """The idle share of the step; None without a schedule."""
        bubble = self._data.get("bubble")
        return None if bubble is None else float(bubble)

    @property
    def tokens_per_second(self) -> Optional[float]:
        """Of all replicas; None for a graph of operations, whose micro-batches are not known."""
        tokens = self._data.get("tokens_per_second")
        return None if tokens is None else float(tokens)

    @property
    def lower_bound(self) -> float:
        """Seconds of the objective that no plan over what was tried can beat: this is proved."""
        return float(self._data["lower_bound"])

    @property
    def gap(self) -> float:
        """How far the plan is above ``lower_bound``: 0.01 is 1 %; infinite for a bound of 0."""
        gap = self._data["gap"]
        return float("inf") if gap is None else float(gap)

    @property
    def optimal(self) -> bool:
        """Whether the plan is proved to be the best."""
        return bool(self._data["optimal"])

    @property
    def partition(self) -> Optional[str]:
        """The layers of each stage, such as "0-5,6-11"; None for a graph of operations."""
        partition = self._data.get("partition")
        return None if partition is None else str(partition)

    @property
    def rejected(self) -> List[Record]:
        """What else was tried, the best first: records with ``what`` and ``why``."""
        return [Record(each) for each in self._data.get("rejected", [])]

    @property
    def what_if(self) -> List[Record]:
        """With ``what_if=True``: what more or fewer devices, more memory or bandwidth would
        change: records with ``what``, ``step_seconds``, ``peak_bytes`` and ``plan``, or ``what``
        and ``why``; of the objective "bottleneck" with ``bottleneck_seconds``, too."""
        return [Record(each) for each in self._data.get("what_if", [])]

    @property
    def pareto(self) -> List[Record]:
        """With ``pareto=True``: the fastest plan for each amount of memory: records with
        ``step_seconds``, ``peak_bytes`` and ``plan``; of the objective "bottleneck" with
        ``bottleneck_seconds``, too."""
        return [Record(each) for each in self._data.get("pareto", [])]

    @property
    def completed(self) -> bool:
        """False where ``time_limit`` was over before the bytes of a run were counted: then
        ``peak_bytes`` are the layers' own, a little less. A plan that was read does not say."""
        return self._core is None or self._core.completed

    @property
    def costs(self) -> str:
        """Where the seconds come from, for people; empty for a plan that was read."""
        return "" if self._core is None else self._core.costs

    @property
    def timetable(self) -> Optional[Timetable]:
        """One step, with one row per rank, in seconds; None where a graph was cut for its
        bottleneck alone, which has no schedule. That of a plan that was read has its stages'
        seconds where the file has them (``"costs"``), and F = I = W = 1 elsewhere."""
        if self._timetable is None:
            if self._core is not None and self._core.has_timetable:
                self._timetable = Timetable(self._core.timetable())
            elif self._core is None and self.schedule is not None:
                self._timetable = Timetable(_core.plan_table(self._text, "the plan"))
        return self._timetable

    def to_svg(self) -> Optional[str]:
        """A picture of one step, with its layers and its memory, as ``sluice plan --format svg``
        prints it; None where a graph was cut for its bottleneck alone. Of a plan that was read,
        the timetable's."""
        if self._core is None:
            return None if self.timetable is None else self.timetable.to_svg()
        return self._core.svg() if self._core.has_timetable else None

    def to_json(self) -> str:
        """The plan file, as ``sluice plan --json`` prints it and ``sluice train --plan`` reads it."""
        return self._text

    def to_dict(self) -> Dict[str, Any]:
        """The fields of the plan file."""
        data: Dict[str, Any] = json.loads(self._text)
        return data

    def __reduce__(self) -> Tuple[Any, ...]:
        return (read_plan, (self._text,))

    def __repr__(self) -> str:
        took = (
            f"bottleneck {self.bottleneck_seconds:.4g} s"
            if self.step_seconds is None
            else f"{self.schedule}, step {self.step_seconds:.4g} s"
        )
        return (
            f"<Plan {self._data['model']} on {self._data['devices']} devices: "
            f"{len(self._data['stages'])} stages, {took}, gap {self.gap:.1%}>"
        )

    def _repr_html_(self) -> str:
        titles = ["stage", "rank", "layers", "forward", "backward", "memory", "recompute"]
        rows = []
        for stage in self.stages:
            names = stage.layer_names
            layers = names[0] if len(names) == 1 else f"{names[0]} ... {names[-1]} ({len(names)})"
            cells = [
                str(stage.stage),
                str(stage.get("rank", "")),
                layers,
                f"{stage.forward_seconds * 1e3:.4g} ms",
                f"{stage.backward_seconds * 1e3:.4g} ms",
                f"{stage.peak_bytes / 2**30:.3g} GiB",
                str(stage.get("recompute", "")),
            ]
            rows.append("".join(f"<td>{html.escape(cell)}</td>" for cell in cells))
        head = "".join(f"<th>{title}</th>" for title in titles)
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        picture = self.timetable._repr_html_() if self.timetable is not None else ""
        return f"<p>{html.escape(repr(self)[1:-1])}</p>{table}{picture}"


def read_plan(text_or_path: Union[str, "os.PathLike[str]"]) -> Plan:
    """The plan in a file of ``sluice plan -o plan.json``, or of ``Plan.to_json``.

    Args:
        text_or_path: the text of the file (it begins with a brace), or its path.

    Raises:
        ValueError: it cannot be read, or is no plan; names the file and the field.
    """
    text, name = _flags.read(text_or_path, lambda text: text.lstrip().startswith("{"))
    try:
        data = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name}: {error}") from error
    if not isinstance(data, dict):
        raise ValueError(f"{name}: {_short(data)}; expected an object {{...}}, a plan of sluice plan")
    has_step = "schedule" in data or "step_seconds" in data
    _check_fields(data, {**_RESULT, **(_STEP if has_step else {})}, f"{name}: field '")
    _check_fields(data, {n: k for n, k in _SOMETIMES.items() if n in data}, f"{name}: field '")
    if not data["stages"]:
        raise ValueError(f"{name}: field 'stages' is []; expected at least one stage")
    for number, stage in enumerate(data["stages"]):
        _check_fields(stage, _STAGE, f"{name}: field 'stages[{number}].")
    return Plan(None, text)


def _no_constant(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON; expected a number")


def _short(value: Any) -> str:
    """A JSON value as a message quotes it."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else text[:37] + "..."


def _is(kind: type, field: str, value: Any) -> bool:
    """Whether a JSON value is of a kind."""
    if kind is float:
        null = field == "gap" and value is None  # above a bound of 0
        return null or (isinstance(value, (int, float)) and not isinstance(value, bool))
    if field == "layer_names":
        return isinstance(value, list) and bool(value) and all(isinstance(n, str) for n in value)
    if kind is list:
        return isinstance(value, list) and all(isinstance(item, dict) for item in value)
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _check_fields(data: Mapping[str, Any], fields: Mapping[str, type], where: str) -> None:
    """Raises ValueError where a field is missing, or of another kind."""
    for field, kind in fields.items():
        if field not in data:
            raise ValueError(f"{where}{field}' is missing; expected a plan of sluice plan")
        if not _is(kind, field, data[field]):
            expected = "a list of names" if field == "layer_names" else _KINDS[kind]
            raise ValueError(f"{where}{field}' is {_short(data[field])}; expected {expected}")


def _check(flags: Mapping[str, Any]) -> None:
    """Raises ValueError for keywords that there are not."""
    known = [name.replace("-", "_") for name in _core.plan_flags()]
    known = [name for name in known if name not in (*_PRINTING, "help")]
    for name in flags:
        if name in _PRINTING:
            raise ValueError(
                f"{name} is for the command line; the plan that is returned has to_json() and to_svg()"
            )
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean '{near[0]}'?" if near else f"there are {', '.join(known)}"
            raise ValueError(f"sluice.plan has no keyword '{name}'; {hint}")


def plan(model: Union[str, "os.PathLike[str]"], *, devices: int, **flags: Any) -> Plan:
    """The best partition and schedule of a model on some devices, with a proven bound.

    The search runs without the interpreter's lock, and Ctrl-C ends it.

    Args:
        model: a preset ("gpt2", "llama-3.1-8b", ...), a Hugging Face ``config.json`` or the folder
            that has one, a ``profile.json`` of ``sluice profile``, or a PipeDream ``graph.txt``.
        devices: how many, all replicas and stages together.
        **flags: every flag of ``sluice plan`` (``sluice plan --help``), with underscores:

            - what runs it: ``device`` ("h100", ... or a path), ``cluster`` (a path), ``memory``
              (bytes or "80GiB"), ``bandwidth`` (bytes per second or "12GB/s"), ``latency`` (seconds
              or "5us");
            - what a step is: ``global_batch``, ``micro_batches``, ``micro_batch_size``, ``seq``,
              ``dtype`` ("fp32" or "bf16"), ``optimizer``, ``lora`` (a text or a dict), ``freeze``;
            - what may be chosen: ``schedule``, ``chunks``, ``recompute``, ``data_parallel``,
              ``tensor_parallel`` (a number or "auto"), ``zero``, ``partition`` ("0-5,6-11");
            - what is best: ``objective`` ("step" or "bottleneck"), ``time_limit`` (seconds or
              "10s"), ``gap``, ``what_if=True``, ``pareto=True``;
            - the shape of a preset: ``layers``, ``dim``, ``heads``, ``vocab``.

    Raises:
        ValueError: a keyword or a file is wrong; ``device="cpu"``, which is measured with kernels
            that this package is built without.
        Infeasible: nothing fits into memory, or nothing was found in the time.
    """
    _check(flags)
    keywords = {"devices": devices, **flags}
    try:
        return Plan(_core.plan(os.fspath(model), _flags.flags(keywords)))
    except Infeasible as error:
        error.question = {"model": os.fspath(model), **keywords}
        raise
