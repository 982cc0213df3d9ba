"""The same bits for any schedule, number of stages, recomputation and transport, on one GPU."""
from dataclasses import dataclass

from gpu_check import training

MODEL = ["--model", "char-gpt", "--layers", "12", "--dim", "128", "--heads", "2", "--seq", "64", "--micro-batch-size", "2",
         "--steps", "3", "--eval-micro-batches", "1", "--timeout", "60s", "--no-pin"]
MICRO_BATCHES = 8


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
    graphs: bool = False
    norm: str = "layer"
    attention: str = "sluice"

    @property
    def needs_gpu(self):
        return self.graphs or self.attention != "sluice"

    @property
    def name(self):
        parts = [self.schedule, f"p{self.stages}"]
        parts += [f"v{self.chunks}"] if self.chunks > 1 else []
        parts += [self.dtype] + ([self.recompute] if self.recompute != "none" else [])
        parts += ["ahead"] if self.ahead else []
        parts += [f"x{self.replicas}", f"zero{self.zero}"] if self.replicas > 1 else []
        parts += ["rms"] if self.norm == "rms" else []
        parts += [self.attention] if self.attention != "sluice" else []
        parts += ["graphs"] if self.graphs else []
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
        return (self.dtype, self.groups, self.norm, self.attention)

    def flags(self):
        flags = [*MODEL, "--schedule", self.schedule, "--stages", str(self.stages), "--dtype", self.dtype, "--recompute",
                 self.recompute, "--norm", self.norm, "--attention", self.attention, "--micro-batches", str(MICRO_BATCHES // self.replicas)]
        if self.schedule != "chimera":
            flags += ["--sum-groups", str(self.groups)]
        if self.ahead:
            flags += ["--recompute-ahead"]
        if self.chunks > 1:
            flags += ["--chunks", str(self.chunks)]
        if self.replicas > 1:
            flags += ["--data-parallel", str(self.replicas), "--zero", str(self.zero)]
        return flags + (["--cuda-graphs"] if self.graphs else [])


def reference_flags(dtype, groups, norm, attention):
    return [*MODEL, "--schedule", "gpipe", "--stages", "1", "--dtype", dtype, "--norm", norm, "--attention", attention,
            "--micro-batches", str(MICRO_BATCHES), "--sum-groups", str(groups)]


def configurations():
    """Several processes first: they find the most errors, and the time may end."""
    found = [Configuration("1f1b", stages, dtype=dtype, processes=True)
             for stages, dtype in ((2, "fp32"), (3, "bf16"), (4, "fp32"))]
    found += [Configuration("zbv", 2, 2, "bf16", processes=True), Configuration("interleaved", 2, 2, processes=True),
              Configuration("gpipe", 2, dtype="bf16", recompute="full", processes=True),
              Configuration("1f1b", 2, recompute="full", ahead=True, processes=True),
              Configuration("1f1b", 2, replicas=2, processes=True),
              Configuration("1f1b", 1, dtype="bf16", replicas=2, zero=1, processes=True),
              Configuration("1f1b", 2, dtype="bf16", norm="rms", processes=True),
              Configuration("1f1b", 2, dtype="bf16", processes=True, graphs=True),
              Configuration("1f1b", 2, dtype="bf16", processes=True, attention="cudnn"),
              Configuration("zbv", 2, 2, "bf16", recompute="full", attention="cudnn"),
              Configuration("1f1b", 4, dtype="bf16", recompute="selective", attention="cudnn"),
              Configuration("1f1b", 2, dtype="bf16", graphs=True, attention="cudnn"),
              Configuration("zb-h1", 2, graphs=True), Configuration("zbv", 2, 2, "bf16", recompute="full", graphs=True),
              Configuration("1f1b", 4, dtype="bf16", recompute="full", ahead=True)]
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


def difference(result, reference):
    for step, (mine, theirs) in enumerate(zip(result["losses"], reference["losses"]), 1):
        if mine != theirs:
            return f"the loss of step {step} is {mine}, one stage's {theirs}"
    if result["hash"] != reference["hash"]:
        return f"the weights are {result['hash']}, one stage's {reference['hash']}"
    return ""


def bitwise(kit, clock, wanted=None):
    """Bits of many ways to cut the same training, in one process and as processes over NCCL."""
    references, equal, notes, not_run = {}, 0, [], 0
    wanted = configurations() if wanted is None else wanted
    wanted = [configuration for configuration in wanted if kit.device == "cuda" or not configuration.needs_gpu]
    for configuration in wanted:
        if clock.left() < 5:
            not_run += 1
            continue
        try:
            key = configuration.reference()
            if key not in references:
                references[key] = training.one_process(kit, reference_flags(*key), clock.left())
            if configuration.processes:
                result = training.many_processes(kit, configuration.flags(), configuration.ranks, min(90, clock.left()))
            else:
                result = training.one_process(kit, configuration.flags(), min(60, clock.left()))
            wrong = difference(result, references[key])
        except training.Failed as failure:
            wrong = str(failure)
        equal += not wrong
        notes += [f"{configuration.name}: {wrong}"] if wrong else []
    if not_run:
        notes.append(f"{not_run} configurations were not run: time was up")
    return {"ok": equal == len(wanted), "equal": equal, "configurations": len(wanted), "not_run": not_run, "notes": notes,
            "summary": f"{equal} of {len(wanted)} configurations have the bits of one stage"}
