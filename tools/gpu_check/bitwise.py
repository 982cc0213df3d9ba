"""The same bits for any schedule, number of stages, recomputation and transport, on one GPU."""
import collections
import threading
import time
from dataclasses import dataclass

from gpu_check import process, training

MODELS = {"gpt": ["--model", "char-gpt", "--layers", "12", "--dim", "128", "--heads", "2"],
          # Grouped queries, norms of heads, rotary positions, a gated MLP.
          "qwen3": ["--model", "qwen3-0.6b", "--layers", "4", "--vocab", "256"]}
RUN = ["--seq", "64", "--micro-batch-size", "2", "--steps", "3", "--eval-micro-batches", "1", "--timeout", "60s", "--no-pin"]
MICRO_BATCHES = 8
ONE_LIMIT, MANY_LIMIT = 60, 90  # seconds of a run in one process, in several


@dataclass(frozen=True)
class Configuration:
    schedule: str
    stages: int
    chunks: int = 1
    dtype: str = "fp32"
    recompute: str = "none"
    ahead: bool = False  # recomputed before the backward, not within it
    replicas: int = 1
    zero: int = 0
    processes: bool = False  # one process per rank, over NCCL
    graphs: bool = True  # where there is a GPU
    norm: str = "layer"  # of the gpt
    attention: str = "sluice"
    model: str = "gpt"

    @property
    def needs_gpu(self):
        return not self.graphs or self.attention != "sluice"

    @property
    def name(self):
        parts = ([self.model] if self.model != "gpt" else []) + [self.schedule, f"p{self.stages}"]
        parts += [f"v{self.chunks}"] if self.chunks > 1 else []
        parts += [self.dtype] + ([self.recompute] if self.recompute != "none" else [])
        parts += ["ahead"] if self.ahead else []
        parts += [f"x{self.replicas}", f"zero{self.zero}"] if self.replicas > 1 else []
        parts += ["rms"] if self.norm == "rms" else []
        parts += [self.attention] if self.attention != "sluice" else []
        parts += ["no graphs"] if not self.graphs else []
        return " ".join(parts + (["processes"] if self.processes else []))

    @property
    def ranks(self):
        return self.stages * self.replicas

    @property
    def groups(self):
        """Groups of micro-batches, on which the bits may depend. ZeRO-2 sums every micro-batch separately, and each of
        chimera's two copies of the model sums its own."""
        if self.schedule == "chimera":
            return 2
        return MICRO_BATCHES if self.zero == 2 else self.replicas

    def reference(self):
        """The run that must give the same bits: one stage, in one process."""
        return (self.dtype, self.groups, self.norm, self.attention, self.model)

    def flags(self):
        flags = [*model_flags(self.model, self.norm), "--schedule", self.schedule, "--stages", str(self.stages), "--dtype",
                 self.dtype, "--recompute", self.recompute, "--attention", self.attention, "--micro-batches",
                 str(MICRO_BATCHES // self.replicas)]
        if self.schedule != "chimera":
            flags += ["--sum-groups", str(self.groups)]
        if self.ahead:
            flags += ["--recompute-ahead"]
        if self.chunks > 1:
            flags += ["--chunks", str(self.chunks)]
        if self.replicas > 1:
            flags += ["--data-parallel", str(self.replicas), "--zero", str(self.zero)]
        return flags + ([] if self.graphs else ["--no-cuda-graphs"])


def model_flags(model, norm):
    return [*MODELS[model], *RUN, *(["--norm", norm] if model == "gpt" else [])]


def reference_flags(dtype, groups, norm, attention, model="gpt"):
    return [*model_flags(model, norm), "--schedule", "gpipe", "--stages", "1", "--dtype", dtype, "--attention", attention,
            "--micro-batches", str(MICRO_BATCHES), "--sum-groups", str(groups)]


def first_configurations():
    """Few that have everything once, since the time may end. One process first: it tells most about the others' errors."""
    return [Configuration("1f1b", 2, dtype="bf16"), Configuration("1f1b", 2, dtype="bf16", processes=True),
            Configuration("zbv", 2, 2, "bf16", recompute="full", graphs=False),
            Configuration("1f1b", 4, dtype="bf16", recompute="selective", attention="cudnn", model="qwen3"),
            Configuration("zbv", 2, 2, "bf16", processes=True),
            Configuration("1f1b", 2, dtype="bf16", norm="rms", processes=True),
            Configuration("1f1b", 1, dtype="bf16", replicas=2, zero=1, processes=True),
            Configuration("1f1b", 2, dtype="fp32", processes=True),
            Configuration("1f1b", 4, dtype="bf16", recompute="full", ahead=True),
            Configuration("chimera", 2, 2, "bf16"), Configuration("1f1b", 2, replicas=2, zero=2),
            Configuration("interleaved", 2, 3)]


def further_configurations():
    """Several processes first: they find the most errors."""
    found = [Configuration("1f1b", stages, dtype=dtype, processes=True) for stages, dtype in ((3, "bf16"), (4, "fp32"))]
    found += [Configuration("interleaved", 2, 2, processes=True),
              Configuration("gpipe", 2, dtype="bf16", recompute="full", processes=True),
              Configuration("1f1b", 2, recompute="full", ahead=True, processes=True),
              Configuration("1f1b", 2, replicas=2, processes=True),
              Configuration("1f1b", 2, dtype="bf16", processes=True, graphs=False),
              Configuration("1f1b", 2, dtype="bf16", model="qwen3"),
              Configuration("1f1b", 4, dtype="bf16", recompute="selective", attention="cudnn"),
              Configuration("1f1b", 2, dtype="bf16", processes=True, attention="cudnn"),
              Configuration("zbv", 2, 2, "bf16", recompute="full", attention="cudnn"),
              Configuration("1f1b", 2, dtype="bf16", graphs=False, attention="cudnn"),
              Configuration("zb-h1", 2, graphs=False), Configuration("zb-h1", 4, model="qwen3"),
              Configuration("zbv", 2, 2, "bf16", recompute="full", attention="cudnn", model="qwen3")]
    plain = ("gpipe", "1f1b", "eager-1f1b", "zb-h1", "zb-h2", "zb-2p")
    chunked = (("interleaved", 2), ("interleaved", 3), ("interleaved-zb", 2), ("bfs", 2), ("zbv", 2), ("v-half", 2),
               ("v-min", 2), ("dualpipev", 2), ("hanayo", 2))
    for dtype in ("bf16", "fp32"):
        found += [Configuration(schedule, stages, dtype=dtype) for schedule in plain for stages in (2, 4)]
        found += [Configuration(schedule, 2, chunks, dtype) for schedule, chunks in chunked]
        found += [Configuration("chimera", 2, 2, dtype), Configuration("1f1b", 3, dtype=dtype),
                  Configuration("1f1b", 2, dtype=dtype, recompute="full"),
                  Configuration("1f1b", 2, dtype=dtype, recompute="selective"),
                  Configuration("1f1b", 3, dtype=dtype, norm="rms"),
                  Configuration("zbv", 2, 2, dtype, recompute="full", norm="rms"),
                  Configuration("1f1b", 2, dtype=dtype, replicas=2)]
        found += [Configuration("1f1b", 2, dtype=dtype, replicas=2, zero=zero) for zero in (1, 2)]
    return found


def configurations():
    """All of them, each once."""
    return list(dict.fromkeys([*first_configurations(), *further_configurations()]))


def difference(result, reference):
    for step, (mine, theirs) in enumerate(zip(result["losses"], reference["losses"]), 1):
        if mine != theirs:
            return f"the loss of step {step} is {mine}, one stage's {theirs}"
    if result["hash"] != reference["hash"]:
        return f"the weights are {result['hash']}, one stage's {reference['hash']}"
    return ""


class References:
    """The runs that others must have the bits of, each made when it is first asked for, and once."""

    def __init__(self, kit, rows, clock):
        self._kit, self._rows, self._clock = kit, rows, clock
        self._locks = collections.defaultdict(threading.Lock)
        self._made = {}

    def get(self, key):
        with self._locks[key]:
            if key not in self._made:
                self._made[key] = self._make(key)
        if isinstance(self._made[key], training.Failed):
            raise self._made[key]
        return self._made[key]

    def _make(self, key):
        name = " ".join(["reference", *map(str, key)])
        known = self._rows.known(name)
        if known:
            return known
        try:
            result = training.one_process(self._kit, reference_flags(*key), min(ONE_LIMIT, self._clock.left()))
        except training.Failed as failure:
            return training.Failed(f"reference: {failure}", failure.tails, failure.timed_out)
        self._rows.put(name, {"complete": True, "losses": result["losses"], "hash": result["hash"]})
        return result


def run(kit, clock, configuration):
    if configuration.processes:
        return training.many_processes(kit, configuration.flags(), configuration.ranks, min(MANY_LIMIT, clock.left()))
    return training.one_process(kit, configuration.flags(), min(ONE_LIMIT, clock.left()))


def compare(kit, clock, references, configuration):
    """The configuration's row."""
    began, tails, cut = time.monotonic(), [], False
    try:
        wrong = difference(run(kit, clock, configuration), references.get(configuration.reference()))
    except training.Failed as failure:
        wrong, tails, cut = str(failure), failure.tails, failure.timed_out and clock.is_up()
    row = {"complete": not cut, "equal": not wrong, "seconds": round(time.monotonic() - began, 1)}
    return {**row, "error": wrong, "stderr": tails} if wrong else row


def bitwise(kit, clock, rows, wanted=None):
    """Bits of many ways to cut the same training, in one process and as processes over NCCL."""
    wanted = configurations() if wanted is None else wanted
    wanted = [configuration for configuration in wanted if kit.device == "cuda" or not configuration.needs_gpu]
    references, results, cut = References(kit, rows, clock), {}, []

    def task(configuration):
        row = rows.known(configuration.name)
        if row is None:
            row = compare(kit, clock, references, configuration)
            rows.put(configuration.name, row, f"{configuration.name}: {row['error']}" if row.get("error") else "")
        if not row["complete"]:
            cut.append(configuration.name)
        results[configuration.name] = row

    # Processes that share a GPU take turns on it, each for milliseconds, and NCCL's kernels wait for each other: with other
    # programs beside them, two processes over NCCL took 45 s in place of 4 (H200). So they come last, one run at a time.
    alone = [configuration for configuration in wanted if configuration.processes]
    together = [configuration for configuration in wanted if not configuration.processes]
    missed = process.each(together, task, kit.jobs, clock) + process.each(alone, task, 1, clock)
    not_reached = cut + [configuration.name for configuration in missed]
    equal = sum(row["equal"] for row in results.values())
    notes = [f"{name}: {row['error']}" for name, row in results.items() if row.get("error")]
    return {"ok": equal == len(results) - len(cut), "equal": equal, "configurations": len(wanted),
            "not_reached": not_reached, "notes": notes,
            "summary": f"{equal} of {len(wanted)} configurations have the bits of one stage"}
