"""The first minute: whether anything trains at all, and about how fast."""
import shutil

from gpu_check import process, speed, training
from gpu_check.bitwise import Configuration

QUERY = ("name", "driver_version", "vbios_version", "pstate", "temperature.gpu", "clocks.sm", "clocks.mem", "clocks.max.sm",
         "clocks.max.mem", "power.draw", "power.limit", "memory.total", "memory.used", "utilization.gpu", "compute_mode",
         "mig.mode.current")
QUERY_LIMIT = 10  # seconds
RUN_LIMIT = 25
PROCESSES_LIMIT = 30  # they may wait for each other forever


def ask_nvidia_smi(rows):
    """A machine without it may still have a GPU."""
    program = shutil.which("nvidia-smi")
    if not program:
        rows.put("nvidia-smi", {"complete": True, "found": None}, "nvidia-smi: there is none")
        return
    outcome = process.run([program, f"--query-gpu={','.join(QUERY)}", "--format=csv,noheader"], QUERY_LIMIT)
    gpus = [dict(zip(QUERY, map(str.strip, line.split(",")))) for line in outcome.out.splitlines() if line.strip()]
    row = {"complete": True, "gpus": gpus} if outcome.ok else {"complete": True, "found": outcome.why()}
    said = "; ".join(", ".join(f"{key} {value}" for key, value in gpu.items()) for gpu in gpus)
    rows.put("nvidia-smi", row, f"nvidia-smi: {said if outcome.ok else outcome.why()}")


def list_libraries(kit, rows):
    """What sluice would load."""
    found = {key: kit.doctor.get(key) for key in ("cuda_driver", "cublaslt", "nccl", "cudnn", "cuda_libraries")}
    said = ", ".join(f"{key} {value}" for key, value in found.items() if value is not None)
    rows.put("libraries", {"complete": True, **found}, f"libraries: {said}")


def training_runs(kit, shape):
    """{name: flags}, in the order of what they tell."""
    def flags(stages=1):
        return speed.sluice_flags("gpt2", shape, stages, steps=10)

    runs = {"gpt2": flags(), "gpt2, 2 stages": flags(2)}
    if kit.device == "cuda":
        runs.update({"gpt2, no CUDA graphs": [*flags(), "--no-cuda-graphs"],
                     "gpt2, cuDNN's attention": [*flags(), "--attention", "cudnn"]})
    return runs


def run_processes(kit, clock, rows, dtype):
    """Two processes over NCCL. The row's error is the last line of stderr of the rank that speaks first."""
    name = f"2 processes, {dtype}"
    flags = Configuration("1f1b", 2, dtype=dtype, processes=True).flags()
    try:
        result = training.many_processes(kit, flags, 2, min(PROCESSES_LIMIT, clock.left()))
        row = {"complete": True, "seconds": result["seconds"]}
    except training.Failed as failure:
        row = {"complete": True, "error": str(failure), "stderr": failure.tails}
    rows.put(name, row, f"{name}: {row.get('error', 'ok')}")
    return row


def smoke(kit, clock, rows):
    """Clocks and versions, 10 steps of GPT-2 124M in four ways, two processes over NCCL."""
    ask_nvidia_smi(rows)
    list_libraries(kit, rows)
    shape = speed.shape_of(kit, "gpt2")
    runs = {name: lambda name=name, flags=flags: speed.measure_sluice(kit, clock, rows, name, shape, flags, RUN_LIMIT)
            for name, flags in training_runs(kit, shape).items()}
    runs.update({f"2 processes, {dtype}": lambda dtype=dtype: run_processes(kit, clock, rows, dtype)
                 for dtype in ("bf16", "fp32")})
    results, not_reached = {}, []
    for name, run in runs.items():
        if clock.is_up():
            not_reached.append(name)
        else:
            results[name] = run()
    wrong = [name for name, row in results.items() if row.get("error")]
    names = f"; not: {', '.join(wrong)}" if wrong else ""
    return {"ok": not wrong, "not_reached": not_reached, "notes": [],
            "summary": f"{len(results) - len(wrong)} of {len(runs)} runs are well{names}"}
