"""The parts that run benchmarks; each line that one prints is kept as it comes."""
from gpu_check import process
from gpu_check.kit import KERNEL_BENCHES, NCCL_BENCHES, Skip


def run_bench(kit, clock, rows, name):
    """The benchmark's row."""
    lines = []

    def read(line):
        if line.strip():
            lines.append(line.rstrip())
            rows.put(name, {"complete": False, "lines": lines}, f"{name}: {lines[-1]}")

    outcome = process.run(process.line_buffered([kit.benches[name]]), clock.left(), on_line=read)
    row = {"complete": not outcome.timed_out, "seconds": round(outcome.seconds, 1), "lines": lines}
    return row if outcome.ok else {**row, "error": outcome.why(), "stderr": outcome.tail()}


def run_benches(kit, clock, rows, names):
    wanted = [name for name in names if name in kit.benches]
    if not wanted:
        raise Skip(f"there is none of {', '.join(names)} in this folder")
    notes, not_reached, ok = [], [], True
    for name in wanted:
        if clock.is_up():
            not_reached.append(name)
            continue
        row = rows.known(name) or run_bench(kit, clock, rows, name)
        rows.put(name, row)
        if not row["complete"]:
            not_reached.append(name)
        elif row.get("error"):
            ok = False
            notes.append(f"{name}: {row['error']}")
    return {"ok": ok, "notes": notes, "not_reached": not_reached, "summary": f"{len(wanted)} benchmarks"}


def bench_kernels(kit, clock, rows):
    """Each CUDA kernel, as a fraction of the roofline."""
    return run_benches(kit, clock, rows, KERNEL_BENCHES)


def bench_nccl(kit, clock, rows):
    """Latency and bandwidth of NCCL between two ranks; over loopback sockets where they share a GPU."""
    return run_benches(kit, clock, rows, NCCL_BENCHES)
