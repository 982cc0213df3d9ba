"""The parts that measure training."""
import dataclasses
import json
import statistics
from pathlib import Path

from gpu_check import process, training
from gpu_check.kit import Skip


@dataclasses.dataclass(frozen=True)
class Kind:
    """What is the same for all models of a kind."""
    sizes: tuple  # those that are typed as flags; the preset has its own of the others
    peer: bool  # whether torch_peer.py trains it


KINDS = {
    "gpt2": Kind(sizes=("layers", "dim", "heads", "vocab", "seq"), peer=True),
    "qwen3": Kind(sizes=("layers", "vocab", "seq"), peer=False),
}
# Sizes of GPT-2 (124M, 1.5B), with the vocabulary that the peer uses: a multiple of 64. "ways": "all" that are measured
# beside each other, or, of a model that is slow to start, "ends": what has everything, and nothing. "own_vocab": the
# vocabulary that the model has; with it, what people train is measured, too. "adapter": so is an adapter's training.
MODELS = {
    "gpt2": {"kind": "gpt2", "ways": "all", "layers": 12, "dim": 768, "heads": 12, "vocab": 50304, "seq": 1024,
             "own_vocab": 50257, "micro_batch": 16, "micro_batches": 4, "target_mfu": 0.45},
    "gpt2-xl": {"kind": "gpt2", "ways": "ends", "layers": 48, "dim": 1600, "heads": 25, "vocab": 50304, "seq": 1024,
                "micro_batch": 8, "micro_batches": 4, "target_mfu": 0.50},
    "qwen3-0.6b": {"kind": "qwen3", "ways": "all", "layers": 28, "dim": 1024, "attention": 2048, "block": 15_728_640,
                   "vocab": 151_936, "seq": 1024, "adapter": True, "micro_batch": 16, "micro_batches": 4, "target_mfu": 0.47},
}
# What a CPU is done with at once, to try this command where there is no GPU.
TINY = {"layers": 2, "dim": 32, "heads": 2, "vocab": 256, "seq": 32, "micro_batch": 1, "micro_batches": 2}
STEPS = 8
ROOFLINE_LIMIT = 10  # seconds
RUN_LIMIT = 120  # of one run of sluice
TUNE_LIMIT = 60  # of measuring the algorithms of its products
PEER_LIMIT = 240  # torch.compile takes most of them


def shape_of(kit, model, **changed):
    return {**MODELS[model], **(TINY if kit.device == "cpu" else changed)}


def kind_of(shape):
    return KINDS[shape["kind"]]


def step_flops(shape):
    """6 FLOPs per matmul parameter and token, half for causal attention: as torch_peer.py counts."""
    block = shape.get("block", 12 * shape["dim"]**2)  # parameters of its matrices
    attention = shape.get("attention", shape["dim"])  # values of a token's queries
    per_token = 6 * (shape["layers"] * (block + shape["seq"] * attention) + shape["vocab"] * shape["dim"])
    return per_token * step_tokens(shape)


def step_tokens(shape):
    return shape["micro_batch"] * shape["micro_batches"] * shape["seq"]


def speed(kit, shape, seconds):
    peak = kit.peak_flops()
    return {"step_seconds": seconds, "tokens_per_second": step_tokens(shape) / seconds,
            "mfu": step_flops(shape) / seconds / peak if peak else None}


def sluice_flags(model, shape, count=1, steps=STEPS + training.WARM_UP):
    flags = ["--model", model, "--stages", str(count), "--schedule", "1f1b", "--dtype", "bf16", "--steps",
             str(steps), "--micro-batch-size", str(shape["micro_batch"]), "--micro-batches",
             str(shape["micro_batches"]), "--eval-micro-batches", "1", "--timeout", "120s",
             "--bytes"]  # only the time of a step matters, not what is learnt
    return flags + size_flags(shape)


def size_flags(shape):
    return [word for key in kind_of(shape).sizes for word in (f"--{key}", str(shape[key]))]


# Of a run's flags, those that say what its kernels are.
OF_KERNELS = {"--attention": 1, "--no-cuda-graphs": 0, "--lora": 1, "--pack": 0}


def expected_step(kit, model, shape, flags):
    """What `sluice roofline` expects of a step that is trained with `flags`, in seconds; None where it knows no such GPU."""
    if not kit.kind():
        return None
    words = [word for at, flag in enumerate(flags) if flag in OF_KERNELS for word in flags[at:at + 1 + OF_KERNELS[flag]]]
    batch = ["--micro-batch-size", str(shape["micro_batch"]), "--micro-batches", str(shape["micro_batches"])]
    outcome = process.run([kit.sluice, "roofline", model, "--device", kit.kind().lower(), *batch, *size_flags(shape), *words,
                           "--json"], ROOFLINE_LIMIT)
    return json.loads(outcome.out)["expected_seconds"] if outcome.ok else None


def describe(name, result):
    expected = f" ({1e3 * result['expected_seconds']:.1f} expected)" if result.get("expected_seconds") else ""
    mfu = "" if result["mfu"] is None else f", MFU {100 * result['mfu']:.1f} %"
    return f"{name}: {1e3 * result['step_seconds']:.1f} ms a step{expected}, {result['tokens_per_second']:,.0f} tokens/s{mfu}"


class Steps:
    """The steps of one run, each of which is in the file before the next one ends."""

    def __init__(self, kit, rows, name, shape, expected=None):
        """`expected`: the seconds of a step, where they are known."""
        self._kit, self._rows, self.name, self._shape = kit, rows, name, shape
        self._expected = {"expected_seconds": expected} if expected else {}
        self._seconds = []

    def add(self, seconds):
        self._seconds.append(seconds)
        self._rows.put(self.name, self._row(complete=False))

    def _row(self, **more):
        """The median leaves out the warm-up, so it is there from the first step after it."""
        measured = speed(self._kit, self._shape, training.median_step(self._seconds)) if self._is_warm() else {}
        return {**measured, **self._expected, "seconds": self._seconds, **more}

    def _is_warm(self):
        return len(self._seconds) > training.WARM_UP

    def done(self, **more):
        row = self._row(complete=True, **more)
        self._rows.put(self.name, row, describe(self.name, row) if self._is_warm() else f"{self.name}: ok")
        return row

    def failed(self, failure):
        """Keeps what was measured until then."""
        row = self._row(complete=not failure.timed_out, error=str(failure), stderr=failure.tails)
        steps = f"; {describe('until then', row)}" if self._is_warm() else ""
        self._rows.put(self.name, row, f"{self.name}: {failure}{steps}")
        return row


def measure_sluice(kit, clock, rows, name, shape, flags, limit=RUN_LIMIT, data=None, expected=None):
    """The row of a run of sluice in one process; it has an "error" where the run failed. `expected`: as of Steps."""
    known = rows.known(name)
    if known:
        return known
    steps = Steps(kit, rows, name, shape, expected)
    try:
        result = training.one_process(kit, flags, min(limit, clock.left()), lambda step: steps.add(step["step_seconds"]), data)
        return steps.done(arena_bytes=result["arena_bytes"])
    except training.Failed as failure:
        return steps.failed(failure)


def peer_command(kit, shape):
    asked = process.run([kit.python, "-c", "import torch; print(torch.cuda.is_available())"], 60)
    if not asked.ok or (asked.out.strip() != "True" and kit.device != "cpu"):
        raise Skip(f"{kit.python} has no PyTorch that sees a GPU (SLUICE_PYTHON names another Python)")
    command = [kit.python, Path(__file__).with_name("torch_peer.py"), "--device", kit.device, "--steps", str(STEPS),
               "--warmup", str(training.WARM_UP), "--micro-batch", str(shape["micro_batch"]), "--micro-batches",
               str(shape["micro_batches"]), "--data", kit.text()]
    return command + size_flags(shape) + (["--eager"] if kit.device == "cpu" else [])


def measure_peer(kit, clock, rows, name, shape):
    known = rows.known(name)
    if known:
        return known
    command, steps = peer_command(kit, shape), Steps(kit, rows, name, shape)
    read = training.steps_to(lambda step: steps.add(step["step_seconds"]))
    # Without this, modules beside the script would be found before PyTorch's own.
    outcome = process.run(command, min(PEER_LIMIT, clock.left()), env={"PYTHONSAFEPATH": "1"}, on_line=read)
    found = [line for line in training.lines(outcome.out) if "step_s_median" in line]
    if not outcome.ok or not found:
        return steps.failed(training.Failed(outcome.why(), [outcome.tail()], outcome.timed_out))
    return steps.done(peer=found[-1]["peer"], compiled=found[-1]["compiled"])


def variants(kit, shape, tuned):
    """{what: flags} of the runs of sluice that are measured beside each other; `tuned` is a file of algorithms, or None."""
    if kit.device != "cuda":
        return {"sluice": []}
    with_tuned = {", tuned": ["--algorithms", str(tuned)]} if tuned else {}
    ways = {"": [], ", no CUDA graphs": ["--no-cuda-graphs"], **with_tuned}
    cudnn = ["--attention", "cudnn"]
    ways[", cuDNN's attention"] = cudnn
    ways.update({f"{name}, cuDNN's attention": [*flags, *cudnn] for name, flags in with_tuned.items()})
    if shape["ways"] == "ends":
        last = list(ways)[-1]
        ways = {last: ways[last], "": []}
    return {f"sluice{name}": flags for name, flags in ways.items()}


OWN_VOCABULARY, DOCUMENTS, ADAPTER = "sluice, its own vocabulary", "sluice, packed documents", "sluice, LoRA 16"
# No other program is compared with these, and of documents and adapters the MFU counts more than is computed.
APART = (OWN_VOCABULARY, DOCUMENTS, ADAPTER)


def runs_apart(kit, clock, rows, model, shape):
    """{what: what measures it} of runs like those that people make."""
    def measure(name, measured, more=(), of_kernels=(), data=None):
        flags = [*sluice_flags(model, measured), *more]
        return lambda: measure_sluice(kit, clock, rows, name, measured, flags, data=data,
                                      expected=expected_step(kit, model, measured, [*flags, *of_kernels]))

    if kit.device != "cuda":
        return {}
    runs = {}
    if "own_vocab" in shape:
        runs[OWN_VOCABULARY] = measure(OWN_VOCABULARY, {**shape, "vocab": shape["own_vocab"]})
        runs[DOCUMENTS] = measure(DOCUMENTS, shape, of_kernels=["--pack"], data=kit.documents())
    if shape.get("adapter"):
        runs[ADAPTER] = measure(ADAPTER, shape, more=["--lora", "r=16,alpha=32"])
    return runs


def tune(kit, clock, rows, model, shape):
    """The file of the fastest algorithms of the model's products, of which two blocks have all, or None; and its row."""
    file = kit.scratch / f"{model}.algorithms"
    words = [kit.sluice, "profile", model, "--device", kit.device, "--dtype", "bf16", "--micro-batch-size",
             str(shape["micro_batch"]), *size_flags({**shape, "layers": 2}), "--repetitions", "1", "--tune", str(file)]
    outcome = process.run(words, min(TUNE_LIMIT, clock.left()))
    if not outcome.ok:
        row = {"complete": not outcome.timed_out, "error": outcome.why(), "stderr": [outcome.tail()]}
        rows.put("algorithms", row, f"algorithms: {outcome.why()}")
        return None, row
    products = json.loads(file.read_text())["products"]
    gains = {f"{one['m']} x {one['k']} x {one['n']}{' + c' if one['adds'] else ''}, {one['epilogue']}":
             round(one["first_seconds"] / one["seconds"], 3) for one in products}
    faster = sum(gain > 1 for gain in gains.values())
    row = {"complete": True, "gains": gains}
    rows.put("algorithms", row, f"algorithms: {faster} of {len(products)} products have a faster one than cuBLASLt's first")
    return file, row


def compare_with_peer(kit, clock, rows, model, shape=None):
    shape = shape or shape_of(kit, model)
    results, notes, not_reached = {}, [], []
    flags = sluice_flags(model, shape)
    tuned = None
    if kit.device == "cuda":
        tuned, row = tune(kit, clock, rows, model, shape)
        results.update({} if tuned else {"algorithms": row})
    runs = {name: lambda name=name, more=more: measure_sluice(kit, clock, rows, name, shape, [*flags, *more],
                                                              expected=expected_step(kit, model, shape, more))
            for name, more in variants(kit, shape, tuned).items()}
    runs.update(runs_apart(kit, clock, rows, model, shape))
    if kind_of(shape).peer:
        runs["PyTorch"] = lambda: measure_peer(kit, clock, rows, "PyTorch", shape)
    for name, run in runs.items():
        if clock.is_up():
            not_reached.append(name)
            continue
        try:
            results[name] = run()
        except Skip as why:
            notes.append(f"{name}: {why}")
            continue
        if not results[name]["complete"] and clock.is_up():
            not_reached.append(name)
    return judge(results, notes, not_reached, shape)


def judge(results, notes, not_reached, shape):
    wrong = [f"{name}: {row['error']}" for name, row in results.items() if row.get("error") and name not in not_reached]
    speeds = {name: row["step_seconds"] for name, row in results.items() if "step_seconds" in row}
    compared = [name for name in results if name != "PyTorch" and name not in APART]
    mine = [speeds[name] for name in compared if name in speeds]
    best = max((results[name].get("mfu") or 0 for name in compared), default=0)
    words = [f"{1e3 * min(mine):.1f} ms a step"] if mine else []
    words += [f"MFU {100 * best:.1f} % (target: {100 * shape['target_mfu']:.0f} %)"] if best else []
    times = speeds["PyTorch"] / min(mine) if "PyTorch" in speeds and mine else None
    words += [f"{times:.2f} times PyTorch's speed"] if times else []
    # A peer that fails says nothing about sluice.
    return {"ok": not [why for why in wrong if not why.startswith("PyTorch")], "target_mfu": shape["target_mfu"],
            "met": best >= shape["target_mfu"], "times_peer": times, "notes": notes + wrong, "not_reached": not_reached,
            "summary": ", ".join(words) or "no speed was measured"}


def train_gpt2(kit, clock, rows, shape=None):
    """GPT-2 124M at T 1024 in bf16, beside PyTorch (torch.compile, SDPA)."""
    return compare_with_peer(kit, clock, rows, "gpt2", shape)


def train_gpt2_xl(kit, clock, rows, shape=None):
    """GPT-2 1.5B at T 1024 in bf16, beside PyTorch (torch.compile, SDPA)."""
    return compare_with_peer(kit, clock, rows, "gpt2-xl", shape)


def train_qwen3(kit, clock, rows, shape=None):
    """Qwen3-0.6B at T 1024 in bf16."""
    return compare_with_peer(kit, clock, rows, "qwen3-0.6b", shape)


# The categories of a trace that are actions of a timetable.
ACTIONS = ("F", "B", "I", "W", "RECOMPUTE")


def idle_between_actions(trace):
    """Median seconds between the end of a rank's action and the start of its next one in the same step."""
    spans = {}
    for event in json.loads(trace)["traceEvents"]:
        if event.get("ph") == "X" and event.get("cat") in ACTIONS:
            key = event["tid"], event["args"]["step"]
            spans.setdefault(key, []).append((event["ts"], event["ts"] + event["dur"]))
    gaps = []
    for of_step in spans.values():
        of_step.sort()
        gaps += [after[0] - before[1] for before, after in zip(of_step, of_step[1:])]
    return statistics.median(gaps) / 1e6 if gaps else None


def stage_runs(kit, shape, trace):
    """{name: flags}, the one that the others are compared with first."""
    runs = {"1 stage": [*sluice_flags("gpt2", shape, 1), "--trace", str(trace)]}
    if kit.device == "cuda":
        runs["1 stage, no CUDA graphs"] = [*sluice_flags("gpt2", shape, 1), "--no-cuda-graphs"]
    return {**runs, **{f"{count} stages": sluice_flags("gpt2", shape, count) for count in (2, 4) if count <= shape["layers"]}}


def stages(kit, clock, rows, shape=None):
    """1 stage against 2 and 4 on one GPU: the cost of the pipeline itself, since the whole model is on one device."""
    shape = shape or shape_of(kit, "gpt2", micro_batch=8, micro_batches=16)
    trace = kit.scratch / "trace.json"
    results, notes, not_reached, idle = {}, [], [], None
    for name, flags in stage_runs(kit, shape, trace).items():
        if clock.is_up():
            not_reached.append(name)
            continue
        row = results[name] = measure_sluice(kit, clock, rows, name, shape, flags)
        if not row["complete"] and clock.is_up():
            not_reached.append(name)
        elif row.get("error"):
            notes.append(f"{name}: {row['error']}")
        if trace.is_file() and idle is None and "error" not in row:
            idle = idle_between_actions(trace.read_text())
            notes.append(f"idle between actions: {1e6 * (idle or 0):.1f} us (target: below 5)")
    ratios = ratios_of(results)
    notes += [f"{name}: {ratio:.3f} of 1 stage's time" for name, ratio in ratios.items() if name != "1 stage"]
    worst = max((ratio for name, ratio in ratios.items() if "stages" in name), default=None)
    return {"ok": not any(row.get("error") and name not in not_reached for name, row in results.items()),
            "ratios": ratios, "idle_between_actions": idle, "notes": notes, "not_reached": not_reached,
            "summary": f"at most {100 * (worst - 1):.1f} % above one stage (target: 3)" if worst else "a run failed"}


def ratios_of(results):
    if "step_seconds" not in results.get("1 stage", {}):
        return {}
    one = results["1 stage"]["step_seconds"]
    return {name: row["step_seconds"] / one for name, row in results.items() if "step_seconds" in row}
