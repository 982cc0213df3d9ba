"""Timetables: generated, searched for, read, checked, simulated, drawn and written."""

from __future__ import annotations

import base64
import html
import json
import os
from typing import (
    TYPE_CHECKING,
    Any,
    Dict,
    Iterator,
    List,
    Literal,
    Mapping,
    Optional,
    Sequence,
    Tuple,
    Union,
    overload,
)

from sluice import _core, _flags
from sluice._errors import Infeasible, Invalid
from sluice._record import Action, CatalogueEntry, Defect

if TYPE_CHECKING:
    import numpy

Costs = Union[Mapping[str, Any], str, None]
Path = Union[str, "os.PathLike[str]"]


class Timetable:
    """Who computes what, and when: one row of actions per rank, simulated.

    ``sluice.schedule``, ``sluice.read_csv`` and ``Plan.timetable`` make them; nothing changes one.
    Times are in the unit of the costs (without costs F = I = W = 1), those of a plan in seconds.
    A notebook draws a timetable. One that is not sound (``check()``) has no times and no messages:
    whatever needs them raises ``sluice.Invalid``.
    """

    def __init__(self, core: _core.Timetable) -> None:
        self._core = core
        self._numbers: Optional[Dict[str, Any]] = None

    def _sound(self) -> _core.Timetable:
        if not self._core.sound:
            defects = self.check()
            raise Invalid(
                f"{self.name}: not a sound timetable: {_count(len(defects), 'defect')}, the first: "
                f"{_say(defects[0])}",
                defects,
            )
        return self._core

    def _simulated(self) -> Dict[str, Any]:
        if self._numbers is None:
            self._numbers = json.loads(self._sound().json(False))
        return self._numbers

    @property
    def name(self) -> str:
        """The schedule's name, or the file that it was read from."""
        return self._core.name

    @property
    def ranks(self) -> int:
        """How many ranks (devices) there are."""
        return self._core.ranks

    @property
    def stages(self) -> int:
        """How many stages there are, on all ranks."""
        return self._core.stages

    @property
    def micro_batches(self) -> int:
        """How many micro-batches a step has."""
        return self._core.micro_batches

    @property
    def makespan(self) -> float:
        """When the last rank ends, in the unit of the costs."""
        return float(self._simulated()["makespan"])

    @property
    def bubble(self) -> float:
        """The idle share: 1 - sum of work / (ranks * makespan)."""
        return float(self._simulated()["bubble"])

    @property
    def span_bubble(self) -> float:
        """As ``bubble``, with the longest time from a rank's first start to its last end instead of
        the makespan: what the zero-bubble papers print."""
        return float(self._simulated()["span_bubble"])

    @property
    def lower_bound(self) -> float:
        """No timetable for these costs and limits has a smaller makespan: this is proved."""
        return float(self._simulated()["lower_bound"])

    @property
    def gap(self) -> float:
        """makespan / lower_bound - 1; 0 where nothing faster exists, infinite for a bound of 0."""
        gap = self._simulated()["gap"]
        return float("inf") if gap is None else float(gap)

    @property
    def peak_activations(self) -> List[int]:
        """[rank] the most (stage, micro-batch) pairs that it holds, from the start of F to the end
        of B (of W, where the backward is split)."""
        return list(self._simulated()["peak_activations"])

    @property
    def peak_bytes(self) -> Optional[List[float]]:
        """[rank] the most bytes of activations that it holds; None where the costs have no bytes."""
        peak = self._simulated().get("peak_bytes")
        return None if peak is None else list(peak)

    @property
    def work(self) -> List[float]:
        """[rank] how long it is busy, in the unit of the costs."""
        return list(self._simulated()["work"])

    @property
    def critical_path(self) -> List[Action]:
        """The chain of actions, from a start at time 0 to the makespan, that nothing but faster
        actions could shorten."""
        return [Action(action) for action in self._simulated()["critical_path"]]

    @property
    def rank_actions(self) -> List[List[Action]]:
        """[rank][position] every action, in the order of the row, with its times."""
        rows = json.loads(self._sound().json(True))["rank_actions"]
        return [[Action(action) for action in row] for row in rows]

    def to_numpy(self) -> "numpy.ndarray[Any, numpy.dtype[numpy.void]]":
        """All actions as one structured array, [actions], rank by rank in the order of their rows.

        Fields: rank, op ("F", "B", "I", "W", ...), stage, micro_batch (-1: none), start, end.
        """
        import numpy

        packed = numpy.frombuffer(
            self._sound().actions(),
            dtype=[
                ("rank", "i4"),
                ("op", "i4"),
                ("stage", "i4"),
                ("micro_batch", "i4"),
                ("start", "f8"),
                ("end", "f8"),
            ],
        )
        names = numpy.array(_core.op_names())
        array = numpy.empty(
            packed.shape,
            dtype=[
                ("rank", "i4"),
                ("op", names.dtype),
                ("stage", "i4"),
                ("micro_batch", "i4"),
                ("start", "f8"),
                ("end", "f8"),
            ],
        )
        for field in ("rank", "stage", "micro_batch", "start", "end"):
            array[field] = packed[field]
        array["op"] = names[packed["op"]]
        return array

    def check(self) -> List[Defect]:
        """Everything that is wrong with the timetable; [] is the proof that it is sound.

        Sound: every (stage, micro-batch) has its F and its B, or I and W, exactly once, after what
        they need; no order of messages leads to a deadlock; gradients are summed in one order.
        """
        return [Defect(defect) for defect in json.loads(self._core.defects())["defects"]]

    def to_csv(
        self,
        format: Literal["compute_only", "comms"] = "compute_only",
        *,
        torch: str = "2.15",
        max_active_stages: int = 0,
    ) -> str:
        """The timetable as a CSV text that PyTorch's ``_load_csv`` reads.

        Args:
            format: "compute_only", or "comms" for ``format="compute_comms"``: with every send,
                receive and reduction, as PyTorch's runtime executes them; only of a sound one
                whose stages have one rank each.
            torch: with "comms", which PyTorch is to run it: "2.15" or "2.8".
            max_active_stages: with "comms", how many of a rank's stages FSDP gathers at once; adds
                UNSHARD and RESHARD. 0: parameters are not sharded.
        """
        if format in ("compute_only", "csv"):
            return self._core.csv()
        if format == "comms":
            if max_active_stages < 0:
                raise ValueError(f"max_active_stages is {max_active_stages}; expected at least 0")
            return self._sound().comms_csv(str(torch), int(max_active_stages))
        raise ValueError(f"format is {format!r}; expected 'compute_only' or 'comms'")

    def to_svg(self) -> str:
        """A picture, as SVG."""
        return self._sound().svg()

    def to_html(self) -> str:
        """One HTML page without links to others: zoom, a card per action, memory over time."""
        return self._sound().html()

    def to_trace(self) -> str:
        """A trace for Chrome and Perfetto, as JSON; one unit of the costs is a second."""
        return self._sound().trace()

    def to_json(self, actions: bool = False) -> str:
        """What ``sluice schedule show --json`` prints; with ``actions`` when each one runs."""
        return self._sound().json(actions)

    def to_text(self, columns: int = 100, unicode: bool = True) -> str:
        """A drawing of at most ``columns`` characters a line."""
        if not 40 <= columns <= 10000:
            raise ValueError(f"columns is {columns}; expected 40 to 10000")
        return self._sound().text(columns, unicode)

    def __copy__(self) -> "Timetable":
        return self  # nothing changes one

    def __deepcopy__(self, _: Any) -> "Timetable":
        return self

    def __reduce__(self) -> Tuple[Any, ...]:
        # A CSV says neither the costs, nor the placement, nor which ranks share a stage.
        return (_restored, (self._core.state(),))

    def __str__(self) -> str:
        return self.to_text() if self._core.sound else repr(self)

    def __repr__(self) -> str:
        size = ", ".join(
            (
                _count(self.ranks, "rank"),
                _count(self.stages, "stage"),
                _count(self.micro_batches, "micro-batch", "micro-batches"),
            )
        )
        if not self._core.sound:
            return f"<Timetable {self.name}: {size}, {_count(len(self.check()), 'defect')}>"
        return (
            f"<Timetable {self.name}: {size}, makespan {self.makespan:.10g}, "
            f"bubble {self.bubble:.1%}, gap {self.gap:.1%}>"
        )

    def _repr_svg_(self) -> Optional[str]:
        return self.to_svg() if self._core.sound else None

    def _repr_html_(self) -> str:
        """The picture, with its numbers, as wide as the page allows."""
        if not self._core.sound:
            items = "".join(f"<li>{html.escape(_say(defect))}</li>" for defect in self.check()[:20])
            return f"<p>{html.escape(repr(self))}</p><ul>{items}</ul>"
        # An image of its own, since the styles of an SVG within a page hold for all of the page.
        picture = base64.b64encode(self.to_svg().encode()).decode()
        return (
            f'<img style="max-width:100%" alt="{html.escape(repr(self)[1:-1])}" '
            f'src="data:image/svg+xml;base64,{picture}">'
        )


def _count(number: int, one: str, more: str = "") -> str:
    return f"{number} {one if number == 1 else more or one + 's'}"


def _restored(state: str) -> Timetable:
    """A timetable that was pickled."""
    return Timetable(_core.restore(state))


def _say(defect: Defect) -> str:
    """As ``sluice schedule check`` prints it."""
    where = [f"rank {defect.rank}"] if defect.rank >= 0 else []
    where += [f"position {defect.position}"] if defect.position >= 0 else []
    where += [defect.action] if defect.action else []
    return f"{', '.join(where)}: {defect.message}" if where else defect.message


def _ask(name: str, keywords: Dict[str, Any], costs: Costs, one_of_several: bool) -> Timetable:
    flag, text = _flags.costs(costs)
    try:
        return Timetable(
            _core.schedule(name, _flags.flags({**keywords, **flag}), text, one_of_several)
        )
    except Infeasible as error:
        error.question = {"name": name, **keywords, "costs": costs}
        raise


def schedule(
    name: str,
    *,
    ranks: Optional[int] = None,
    micro_batches: Optional[int] = None,
    chunks: Union[int, Literal["auto"], None] = None,
    costs: Costs = None,
    memory_limit: Optional[int] = None,
    group: Optional[int] = None,
    update_every: Optional[int] = None,
    recompute: bool = False,
    placement: Optional[Literal["looped", "v", "bidirectional"]] = None,
    stage_replicas: Union[Sequence[int], str, None] = None,
    time_limit: Union[float, str, None] = None,
) -> Timetable:
    """A schedule of the catalogue, or "auto": the best that is found, with a proven bound.

    Args:
        name: "1f1b", "zb-h1", "auto", ...; ``sluice.schedules()`` lists them.
        ranks: devices of the pipeline.
        micro_batches: micro-batches per step.
        chunks: stages per rank; None: as the schedule usually has them. For "auto" also "auto":
            stages may be cut, and the best number of parts is found.
        costs: a dict of durations and bytes: F, I, W, B, RECOMPUTE, activation_bytes,
            weight_grad_bytes, checkpoint_bytes [per stage], send, send_bytes, bandwidth [per edge]
            or one number, rank_speed, device_memory [per rank], overlap. Lists, and what is in them,
            may be numpy's. Where all are numbers, and of F, I, W, B, RECOMPUTE, send and overlap, as
            in {"F": 1, "B": 2}, they hold for every stage; so do those of a text, "F=1,B=2". Beside
            any other field, those of stages are lists. B = I + W unless given; B alone means
            I = W = B / 2. Without costs, F = I = W = 1.
        memory_limit: the most (stage, micro-batch) activations that a rank may hold.
        group: interleaved schedules: micro-batches that go through a chunk together.
        update_every: pipedream-2bw: micro-batches per update.
        recompute: drop activations after each forward, and rebuild them ahead of its backward.
        placement: on which ranks "auto" puts stages: "looped" or "v" (chunks alternate in direction).
        stage_replicas: [stage] how many ranks share it, instead of ``ranks``.
        time_limit: seconds that "auto" may search; None: a fixed amount of work, whose answer does
            not depend on the machine.

    Raises:
        ValueError: what was asked for makes no sense, or the schedule cannot have this size.
        Infeasible: no timetable keeps the limits.
    """
    keywords = {
        "ranks": ranks,
        "micro_batches": micro_batches,
        "chunks": chunks,
        "memory_limit": memory_limit,
        "group": group,
        "update_every": update_every,
        "recompute": recompute,
        "placement": placement,
        "stage_replicas": stage_replicas,
        "time_limit": time_limit,
    }
    return _ask(name, keywords, costs, False)


def read_csv(
    text_or_path: Path,
    *,
    placement: Optional[Literal["looped", "v", "bidirectional"]] = None,
    costs: Costs = None,
    recompute: bool = False,
    memory_limit: Optional[int] = None,
) -> Timetable:
    """The timetable in a CSV of PyTorch's, or of ``Timetable.to_csv``.

    It may be unsound, which ``Timetable.check()`` tells.

    Args:
        text_or_path: the text of the file (it has a line end or a comma), or its path.
        placement: on which ranks stages are; None: found from the actions.
        costs, recompute, memory_limit: as for ``sluice.schedule``.

    Raises:
        ValueError: it cannot be read; names the line, the column and the cell.
        Infeasible: a rank holds more activations than ``memory_limit``.
    """
    text, name = _flags.read(text_or_path, lambda text: "\n" in text or "," in text)
    flag, costs_text = _flags.costs(costs)
    keywords = {"placement": placement, "recompute": recompute, "memory_limit": memory_limit}
    try:
        return Timetable(_core.table(text, name, _flags.flags({**keywords, **flag}), costs_text))
    except Infeasible as error:
        error.question = {"name": name, **keywords, "costs": costs}
        raise


class Comparison(Sequence[Timetable]):
    """Several timetables for one question, in the order of their names.

    A list of the timetables that fit, which prints, and shows in a notebook, as a table. The table
    also has the schedules that do not fit.

    Attributes:
        does_not_fit: {name: which rank holds too much, or why no timetable fits}.
        skipped: {name: why it cannot be had here}, those of ``does_not_fit`` included.
    """

    def __init__(
        self,
        rows: Sequence[Union[Timetable, Tuple[str, Infeasible]]],
        skipped: Optional[Mapping[str, str]] = None,
    ) -> None:
        self._rows = list(rows)
        self._tables = [row for row in self._rows if isinstance(row, Timetable)]
        self.does_not_fit = {row[0]: str(row[1]) for row in self._rows if isinstance(row, tuple)}
        self.skipped: Dict[str, str] = {**(skipped or {}), **self.does_not_fit}

    @overload
    def __getitem__(self, index: int) -> Timetable: ...
    @overload
    def __getitem__(self, index: slice) -> List[Timetable]: ...
    def __getitem__(self, index: Union[int, slice]) -> Union[Timetable, List[Timetable]]:
        return self._tables[index]

    def __len__(self) -> int:
        return len(self._tables)

    def __iter__(self) -> Iterator[Timetable]:
        return iter(self._tables)

    def __str__(self) -> str:
        return _core.comparison(
            [
                row._sound()
                if isinstance(row, Timetable)
                else (row[0], row[1].chunks, row[1].peak_activations)
                for row in self._rows
            ]
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        def cell(text: Any, tag: str = "td") -> str:
            return f"<{tag}>{html.escape(str(text))}</{tag}>"

        titles = ["schedule", "makespan", "bubble", "span bubble", "bound", "gap", "peak"]

        def line(row: Union[Timetable, Tuple[str, Infeasible]]) -> str:
            if isinstance(row, tuple):
                peak = row[1].peak_activations or "-"
                return f'{cell(row[0])}<td colspan="5">does not fit</td>{cell(peak)}'
            numbers = (
                row.name,
                f"{row.makespan:.6g}",
                f"{row.bubble:.1%}",
                f"{row.span_bubble:.1%}",
                f"{row.lower_bound:.6g}",
                f"{row.gap:.1%}",
                max(row.peak_activations),
            )
            return "".join(map(cell, numbers))

        head = "".join(cell(title, "th") for title in titles)
        body = "".join(f"<tr>{line(row)}</tr>" for row in self._rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def compare(
    names: Optional[Sequence[str]] = None,
    *,
    ranks: int,
    micro_batches: int,
    chunks: Union[int, Literal["auto"], None] = None,
    costs: Costs = None,
    memory_limit: Optional[int] = None,
    group: Optional[int] = None,
    update_every: Optional[int] = None,
    recompute: bool = False,
    placement: Optional[Literal["looped", "v", "bidirectional"]] = None,
    time_limit: Union[float, str, None] = None,
) -> Comparison:
    """Several schedules for the same ranks, micro-batches and costs.

    Args:
        names: which; None: the whole catalogue and "auto", without those that this size or these
            limits do not allow (``Comparison.skipped`` says why).
        ranks, micro_batches, costs, memory_limit, recompute, placement: as for ``sluice.schedule``.
            What none of the schedules takes is refused.
        chunks, group, update_every: likewise; a schedule that has no choice of them takes its own,
            and chunks="auto" is for "auto" alone.
        time_limit: likewise, for "auto" alone.

    Raises:
        ValueError: as ``sluice.schedule``, for a schedule that was named; without names where none
            can be had.
        Infeasible: none of the schedules fits. One that does not is no error.
    """
    keywords = {
        "ranks": ranks,
        "micro_batches": micro_batches,
        "chunks": chunks,
        "memory_limit": memory_limit,
        "group": group,
        "update_every": update_every,
        "recompute": recompute,
        "placement": placement,
    }
    # What only auto takes: the others have nothing to search for.
    searching: Dict[str, Any] = {"time_limit": time_limit}
    if chunks == "auto":
        searching["chunks"] = keywords.pop("chunks")
    asked = [names] if isinstance(names, str) else None if names is None else list(names)
    if asked == []:
        raise ValueError("names is empty; name a schedule, or leave names out for all of them")
    # What is wrong with the question is no fault of the schedules that cannot be had.
    flag, text = _flags.costs(costs)
    _core.check_compared(asked or [], _flags.flags({**keywords, **searching, **flag}), text)
    rows: List[Union[Timetable, Tuple[str, Infeasible]]] = []
    skipped: Dict[str, str] = {}
    first: Optional[Exception] = None
    for name in [entry.name for entry in schedules()] if asked is None else asked:
        try:
            own = {**keywords, **searching} if name == "auto" else keywords
            rows.append(_ask(name, own, costs, True))
        except Infeasible as error:
            rows.append((name, error))
            first = first or error
        except ValueError as error:
            if asked is not None:
                raise
            skipped[name] = str(error)
            first = first or error
    if first is not None and not any(isinstance(row, Timetable) for row in rows):
        raise first
    return Comparison(rows, skipped)


def schedules() -> List[CatalogueEntry]:
    """The catalogue: every schedule that ``sluice.schedule`` knows, and "auto", with what it needs,
    its bubble and memory as formulas, and its paper."""
    return [CatalogueEntry(entry) for entry in json.loads(_core.catalogue())]
