"""Objects of the command line's JSON, whose fields are attributes too."""

from __future__ import annotations

from typing import Any, Dict, List, Optional


class Record(Dict[str, Any]):
    """A JSON object: ``record["stage"]`` and ``record.stage`` are the same."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(
                f"{type(self).__name__} has no field '{name}'; there are {', '.join(self)}"
            ) from None

    def __dir__(self) -> List[str]:
        return [*super().__dir__(), *self]


class Action(Record):
    """One action of a timetable.

    Fields:
        op: "F", "B", "I" (input gradient), "W" (weight gradient), "SEND_F", ...
        stage: which stage it belongs to.
        micro_batch: which micro-batch; None where there is none, as of "REDUCE_GRAD".
        start, end: when it runs, in the unit of the costs; of a plan in seconds.
    """

    op: str
    stage: int
    micro_batch: Optional[int]
    start: float
    end: float


class Defect(Record):
    """One thing that is wrong with a timetable.

    Fields:
        rank: which row; -1 where it is about none.
        position: which action of the row; -1 where one is absent.
        action: as in the CSV, such as "2B3".
        message: what was found, and what was expected.
    """

    rank: int
    position: int
    action: str
    message: str


class Stage(Record):
    """One stage of a plan, as ``sluice plan --json`` has it.

    Fields:
        stage, rank: its number, and the rank that runs it.
        first_layer, last_layer: both inclusive; None on a graph with branches.
        layer_names: the layers, or the nodes of a graph.
        replicas: ranks that take its micro-batches in turn.
        forward_seconds, backward_seconds: of one micro-batch on one device.
        parameter_bytes: weights, gradients and the optimizer's state.
        activation_bytes_per_micro_batch: held from the start of F to the end of B.
        send_bytes: to the next stage, per micro-batch.
        peak_bytes: of its rank, with all stages that it holds.
        recompute: "none", "selective" or "full".
        device, first_device, last_device: only for a cluster of different devices: the kind that its
            rank holds, and which of the cluster's these are, both inclusive.
    """

    stage: int
    rank: int
    first_layer: Optional[int]
    last_layer: Optional[int]
    layer_names: List[str]
    replicas: int
    forward_seconds: float
    backward_seconds: float
    parameter_bytes: float
    activation_bytes_per_micro_batch: float
    send_bytes: float
    peak_bytes: float
    in_flight: int
    recompute: str
    device: str
    first_device: int
    last_device: int


class CatalogueEntry(Record):
    """One schedule that there is, as ``sluice schedule list --json`` has it.

    Fields:
        name: what ``sluice.schedule`` takes.
        summary: one line for people.
        needs: what it asks of ranks p, micro-batches m and chunks v.
        bubble: the idle share of the makespan, as a formula for equal stages.
        memory: the most (stage, micro-batch) activations of rank r, as a formula.
        source: the paper.
    """

    name: str
    summary: str
    needs: str
    bubble: str
    memory: str
    weights: str
    source: str
    updates: str
    synchronous: bool
    splits_backward: bool
    default_chunks: int
    takes_chunks: bool
    takes_group: bool
    takes_costs: bool
