"""The parts that measure."""
import json
import os
import statistics

from gpu_check import process, training
from gpu_check.kit import Skip

# Sizes of GPT-2 (124M, 1.5B), with the vocabulary that the peer uses: a multiple of 64.
MODELS = {
    "gpt2": {"layers": 12, "dim": 768, "heads": 12, "vocab": 50304, "seq": 1024, "micro_batch": 16, "micro_batches": 4,
             "target_mfu": 0.45},
    "gpt2-xl": {"layers": 48, "dim": 1600, "heads": 25, "vocab": 50304, "seq": 1024, "micro_batch": 8,
                "micro_batches": 4, "target_mfu": 0.50},
}
STEPS = 8
SHAPE_FLAGS = ("layers", "dim", "heads", "vocab", "seq")


def step_flops(shape):
    """6 FLOPs per matmul parameter and token, half for causal attention: as peers/torch_gpt.py counts."""
    per_token = 6 * (12 * shape["layers"] * shape["dim"]**2 + shape["vocab"] * shape["dim"] +
                     shape["layers"] * shape["seq"] * shape["dim"])
    return per_token * step_tokens(shape)


def step_tokens(shape):
    return shape["micro_batch"] * shape["micro_batches"] * shape["seq"]


def speed(kit, shape, seconds):
    peak = kit.peak_flops()
    return {"step_seconds": seconds, "tokens_per_second": step_tokens(shape) / seconds,
            "mfu": step_flops(shape) / seconds / peak if peak else None}


def sluice_flags(model, shape, stages=1):
    flags = ["--model", model, "--stages", str(stages), "--schedule", "1f1b", "--dtype", "bf16", "--steps",
             str(STEPS + training.WARM_UP), "--micro-batch-size", str(shape["micro_batch"]), "--micro-batches",
             str(shape["micro_batches"]), "--eval-micro-batches", "1", "--timeout", "120s",
             "--bytes"]  # only the time of a step matters, not what is learnt
    for key in SHAPE_FLAGS:
        flags += [f"--{key}", str(shape[key])]
    return flags


def measure_sluice(kit, model, shape, timeout, stages=1, more=()):
    result = training.one_process(kit, [*sluice_flags(model, shape, stages), *more], timeout)
    return {**speed(kit, shape, training.median_step(result["seconds"])), "arena_bytes": result["arena_bytes"]}


def peer_script(kit):
    if not kit.shared:
        raise Skip("SLUICE_SHARED does not name the folder with peers/torch_gpt.py")
    script = os.path.join(kit.shared, "peers", "torch_gpt.py")
    if not os.path.isfile(script):
        raise Skip(f"there is no {script}")
    asked = process.run([kit.python, "-c", "import torch; print(torch.cuda.is_available())"], 120)
    if asked.out.strip() != "True" and kit.device != "cpu":
        raise Skip(f"{kit.python} has no PyTorch that sees a GPU")
    return script


def measure_peer(kit, shape, timeout):
    script = peer_script(kit)
    flags = ["--device", kit.device, "--dtype", "bfloat16", "--compile", "--steps", str(STEPS), "--warmup",
             str(training.WARM_UP), "--micro-batch", str(shape["micro_batch"]), "--micro-batches",
             str(shape["micro_batches"]), "--data", kit.text()]
    for key in SHAPE_FLAGS:
        flags += [f"--{key}", str(shape[key])]
    outcome = process.run([kit.python, script, *flags], timeout)
    found = [line for line in training.lines(outcome.out) if "step_s_median" in line]
    if not outcome.ok or not found:
        raise training.Failed(outcome.why())
    return {**speed(kit, shape, found[-1]["step_s_median"]), "peer": found[-1]["peer"]}


def describe(name, result):
    mfu = "" if result["mfu"] is None else f", MFU {100 * result['mfu']:.1f} %"
    return f"{name}: {1e3 * result['step_seconds']:.1f} ms a step, {result['tokens_per_second']:,.0f} tokens/s{mfu}"


def bench_train(kit, clock, models=None):
    """GPT-2 at T 1024 in bf16, beside PyTorch (torch.compile, SDPA)."""
    results, notes, ok = {}, [], True
    for model, shape in (models or MODELS).items():
        try:
            mine = measure_sluice(kit, model, shape, clock.left())
        except training.Failed as failure:
            ok = False
            notes.append(f"{model}: {failure}")
            continue
        results[model] = {"sluice": mine, "target_mfu": shape["target_mfu"]}
        notes.append(describe(f"{model}, sluice", mine))
        if kit.device == "cuda":
            try:
                cudnn = measure_sluice(kit, model, shape, clock.left(), more=["--attention", "cudnn"])
                results[model]["sluice_cudnn"] = cudnn
                notes.append(describe(f"{model}, sluice with cuDNN's attention", cudnn))
            except training.Failed as failure:
                ok = False
                notes.append(f"{model}, cuDNN's attention: {failure}")
        try:
            peer = measure_peer(kit, shape, clock.left())
            results[model]["peer"] = peer
            results[model]["times_peer"] = peer["step_seconds"] / mine["step_seconds"]
            notes.append(describe(f"{model}, {peer['peer']}", peer))
        except (Skip, training.Failed) as why:
            notes.append(f"{model}, peer: {why}")
    met = [model for model, result in results.items()
           if max(result[key]["mfu"] or 0 for key in ("sluice", "sluice_cudnn") if key in result) >= result["target_mfu"]]
    return {"ok": ok, "models": results, "notes": notes, "summary": f"{len(met)} of {len(models or MODELS)} targets met"}


def idle_between_actions(trace):
    """Median seconds between the end of a rank's action and the start of its next one in the same step."""
    rows = {}
    for event in json.loads(trace)["traceEvents"]:
        if event.get("ph") == "X":
            rows.setdefault((event["tid"], event["cat"]), []).append((event["ts"], event["ts"] + event["dur"]))
    gaps = []
    for spans in rows.values():
        spans.sort()
        gaps += [after[0] - before[1] for before, after in zip(spans, spans[1:])]
    return statistics.median(gaps) / 1e6 if gaps else None


def stages(kit, clock, shape=None, counts=(1, 2, 4)):
    """1 stage against 2 and 4 on one GPU: the cost of the pipeline itself, since the whole model is on one device."""
    shape = shape or {**MODELS["gpt2"], "micro_batch": 8, "micro_batches": 16}
    trace = kit.scratch / "trace.json"
    results, notes = {}, []
    for count in counts:
        try:
            more = ["--trace", str(trace)] if count == 1 else []
            results[count] = measure_sluice(kit, "gpt2", shape, clock.left(), count, more)
        except training.Failed as failure:
            return {"ok": False, "stages": results, "notes": [f"{count} stages: {failure}"], "summary": "a run failed"}
        if count == 1:
            results[count]["idle_between_actions"] = idle_between_actions(trace.read_text())
            notes.append(f"idle between actions: {1e6 * (results[count]['idle_between_actions'] or 0):.1f} us (target: below 5)")
        ratio = results[count]["step_seconds"] / results[counts[0]]["step_seconds"]
        results[count]["times_one_stage"] = ratio
        notes.append(describe(f"{count} stages", results[count]) + f", {ratio:.3f} of {counts[0]}'s time (target: 1.03)")
    graphs = None
    try:
        if kit.device == "cuda":
            graphs = measure_sluice(kit, "gpt2", shape, clock.left(), counts[0], ["--cuda-graphs"])
            ratio = graphs["step_seconds"] / results[counts[0]]["step_seconds"]
            notes.append(describe(f"{counts[0]} stage, CUDA graphs", graphs) + f", {ratio:.3f} of the time without")
    except training.Failed as failure:
        return {"ok": False, "stages": results, "notes": [*notes, f"CUDA graphs: {failure}"], "summary": "a run failed"}
    worst = max(result["times_one_stage"] for result in results.values())
    return {"ok": True, "stages": results, "graphs": graphs, "notes": notes, "summary": f"at most {100 * (worst - 1):.1f} % above one stage"}


def run_benches(kit, clock, word):
    named = {name: path for name, path in kit.benches.items() if word in name}
    if not named:
        raise Skip(f"there are no benchmarks named {word} in this folder")
    notes, ok, printed = [], True, {}
    for name, path in named.items():
        outcome = process.run([path], clock.left())
        ok = ok and outcome.ok
        printed[name] = outcome.out.splitlines()
        notes += [f"{name}:", *outcome.out.splitlines()] if outcome.ok else [f"{name}: {outcome.why()}"]
    return {"ok": ok, "output": printed, "notes": notes, "summary": f"{len(printed)} benchmarks"}


def bench_kernels(kit, clock):
    """Each CUDA kernel, as a fraction of the roofline."""
    return run_benches(kit, clock, "cuda")


def bench_nccl(kit, clock):
    """Latency and bandwidth of NCCL between two ranks; over loopback sockets where they share a GPU."""
    return run_benches(kit, clock, "nccl")
