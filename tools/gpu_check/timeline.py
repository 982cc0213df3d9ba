"""What a GPU did when in a training step: each kernel's time, and the time between kernels."""
import re
import shutil
import statistics
import subprocess
from collections import Counter

from gpu_check import process, speed
from gpu_check.kit import Skip

LIBRARY = "libkernel_timeline.so"
STEPS = 3  # of which the last one is reported
SHOWN = 25  # kernels that are printed; the file has them all
BREAK = 50  # kernels: launches of the optimizer that are closer than that belong to one step


def read(lines):
    """[(start, end, kernel)] in ns of the stream that has most of them, in order of time."""
    rows = []
    for line in lines:
        fields = line.rstrip("\n").split(",", 3)
        if len(fields) == 4 and fields[0].isdigit() and fields[1].isdigit():
            rows.append((int(fields[0]), int(fields[1]), fields[2], fields[3]))
    if not rows:
        return []
    busiest = Counter(row[2] for row in rows).most_common(1)[0][0]
    return sorted((start, end, kernel) for start, end, stream, kernel in rows if stream == busiest)


def last_step(rows):
    """The launches between the ends of the last two steps, which the optimizer makes, and when the former ended."""
    updates = [index for index, row in enumerate(rows) if "OptimizerKernel" in row[2]]
    ends = [index for index, after in zip(updates, [*updates[1:], len(rows) + BREAK]) if after - index > BREAK]
    if len(ends) < 2:
        return [], 0
    return rows[ends[-2] + 1:ends[-1] + 1], rows[ends[-2]][1]


def readable(names):
    """{name: as a person writes it, without arguments}"""
    plain = list(names)
    filt = shutil.which("c++filt")
    if filt:
        done = subprocess.run([filt], input="\n".join(names), text=True, capture_output=True, check=False)
        if done.returncode == 0 and len(done.stdout.splitlines()) == len(names):
            plain = done.stdout.splitlines()
    short = [re.sub(r"\(.*\)( const)?$", "", name).removeprefix("void ").replace("sluice::", "") for name in plain]
    return dict(zip(names, short))


def aggregate(step):
    """[{"kernel", "launches", "microseconds"}], the one that takes longest first."""
    names = readable(sorted({kernel for _, _, kernel in step}))
    totals = {}
    for start, end, kernel in step:
        total = totals.setdefault(names[kernel], {"kernel": names[kernel], "launches": 0, "microseconds": 0})
        total["launches"] += 1
        total["microseconds"] += end - start
    for total in totals.values():
        total["microseconds"] /= 1e3
    return sorted(totals.values(), key=lambda total: -total["microseconds"])


def gaps(step, before):
    """Microseconds between the end of each launch and the start of the next one."""
    ends = [before, *(end for _, end, _ in step[:-1])]
    return [(start - end) / 1e3 for (start, _, _), end in zip(step, ends)]


def describe(total):
    return (f"{total['microseconds'] / 1e3:>8.2f} ms {total['launches']:>5} x "
            f"{total['microseconds'] / total['launches']:>8.1f} us  {total['kernel'][:90]}")


def profile(kit, clock, rows):
    """When each kernel of a step of GPT-2 124M ran, by CUPTI: time and launches of each, and the time between them."""
    library = kit.library(LIBRARY)
    if library is None:
        raise Skip(f"there is no {LIBRARY} in this folder: it was built without CUPTI")
    told = kit.scratch / "timeline.csv"
    shape = speed.shape_of(kit, "gpt2")
    command = [kit.sluice, "train", "--data", kit.text(), "--device", kit.device,
               *speed.sluice_flags("gpt2", shape, steps=STEPS), "--no-cuda-graphs", "--transport", "inprocess"]
    outcome = process.run(command, clock.left(), env={"CUDA_INJECTION64_PATH": str(library), "KERNEL_TIMELINE": str(told)})
    launches = read(told.read_text().splitlines()) if told.is_file() else []
    step, before = last_step(launches)
    if not step:
        raise Skip(f"CUPTI recorded no step here: {outcome.why()}")
    totals = aggregate(step)
    for index, total in enumerate(totals):
        rows.put(total["kernel"], total, describe(total) if index < SHOWN else "")
    between = gaps(step, before)
    span, busy = (step[-1][1] - before) / 1e6, sum(end - start for start, end, _ in step) / 1e6
    rows.put("step", {"milliseconds": span, "busy_milliseconds": busy, "launches": len(step),
                      "median_gap_microseconds": statistics.median(between), "longest_gap_microseconds": max(between)})
    return {"ok": outcome.ok, "notes": [] if outcome.ok else [outcome.why()],
            "summary": f"{len(step)} launches in {span:.1f} ms, {100 * busy / span:.1f} % busy, median gap "
                       f"{statistics.median(between):.1f} us"}
