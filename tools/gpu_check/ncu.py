"""What each kernel of one training step takes, by NVIDIA's profiler."""
import csv
import io
import re
import shutil

from gpu_check import process, speed
from gpu_check.kit import Skip

METRICS = {"gpu__time_duration.sum": "microseconds", "dram__bytes.sum": "bytes",
           "sm__throughput.avg.pct_of_peak_sustained_elapsed": "sm_percent"}
# In microseconds, in bytes.
UNITS = {"ns": 1e-3, "nsecond": 1e-3, "us": 1, "usecond": 1, "ms": 1e3, "msecond": 1e3, "s": 1e6, "second": 1e6,
         "byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "%": 1}
LAUNCHES = 2500  # a step of GPT-2 124M and what comes before it; the profiler prints only at its end
SHOWN = 25  # kernels that are printed; the file has them all
REFUSED = re.compile(r"ERR_NVGPUCTRPERM|permission|==ERROR==", re.IGNORECASE)


def find_ncu():
    for folder in ("", "/usr/local/cuda/bin/"):
        found = shutil.which(folder + "ncu")
        if found:
            return found
    raise Skip("there is no ncu on PATH or in /usr/local/cuda")


def command(kit):
    shape = speed.shape_of(kit, "gpt2", micro_batches=1)
    flags = [*speed.sluice_flags("gpt2", {**shape, "micro_batches": 1}, steps=1), "--transport", "inprocess"]
    return [find_ncu(), "--clock-control", "none", "--metrics", ",".join(METRICS), "--csv", "--print-units", "base",
            "--launch-count", str(LAUNCHES), kit.sluice, "train", "--data", kit.text(), "--device", kit.device, *flags]


def read_table(text):
    """The rows of the table that --csv prints among other lines: one per launch and metric."""
    lines = text.splitlines()
    start = next((index for index, line in enumerate(lines) if line.startswith('"ID",')), None)
    if start is None:
        return []
    return list(csv.DictReader(io.StringIO("\n".join(line for line in lines[start:] if line.startswith('"')))))


def short_name(kernel):
    """Without its arguments."""
    return re.sub(r"\(.*\)( const)?$", "", kernel.replace("(anonymous namespace)", "anonymous")).removeprefix("void ")


def launches(table):
    """{launch: {"kernel", "microseconds", "bytes", "sm_percent"}}."""
    found = {}
    for row in table:
        metric = METRICS.get(row.get("Metric Name"))
        value = (row.get("Metric Value") or "").replace(",", "")
        launch = found.setdefault(row["ID"], {"kernel": short_name(row["Kernel Name"])})
        if metric and re.fullmatch(r"[\d.eE+-]+", value):
            launch[metric] = float(value) * UNITS.get(row.get("Metric Unit"), 1)
    return found


def aggregate(text):
    """[{"kernel", "launches", "microseconds", "bytes", "sm_percent"}], the one that takes longest first. The share of the
    multiprocessors' throughput is weighted by time."""
    totals = {}
    for launch in launches(read_table(text)).values():
        seconds = launch.get("microseconds", 0)
        total = totals.setdefault(launch["kernel"], {"kernel": launch["kernel"], "launches": 0, "microseconds": 0, "bytes": 0,
                                                     "sm_percent": 0})
        total["launches"] += 1
        total["microseconds"] += seconds
        total["bytes"] += launch.get("bytes", 0)
        total["sm_percent"] += launch.get("sm_percent", 0) * seconds
    for total in totals.values():
        total["sm_percent"] = total["sm_percent"] / total["microseconds"] if total["microseconds"] else 0
    return sorted(totals.values(), key=lambda total: -total["microseconds"])


def describe(total):
    rate = total["bytes"] / total["microseconds"] / 1e6 if total["microseconds"] else 0
    return (f"{total['microseconds']:>9.1f} us {total['launches']:>5} x {rate:>6.2f} TB/s {total['sm_percent']:>5.1f} % "
            f"{total['kernel'][:90]}")


def refusal(outcome):
    said = [line.strip() for line in f"{outcome.out}\n{outcome.err}".splitlines() if REFUSED.search(line)]
    return " ".join(said[:2]) or outcome.why()


def profile(kit, clock, rows):
    """Time, bytes and launches of each kernel in one step of GPT-2 124M with one micro-batch, by ncu."""
    outcome = process.run(command(kit), clock.left(), env={"LC_ALL": "C"})  # of numbers: a comma may be a decimal point
    totals = aggregate(outcome.out)
    if not totals:
        if outcome.timed_out:
            return {"ok": True, "not_reached": ["ncu"], "notes": [], "summary": outcome.why()}
        raise Skip(f"ncu does not measure here: {refusal(outcome)}")
    for index, total in enumerate(totals):
        rows.put(total["kernel"], total, describe(total) if index < SHOWN else "")
    return {"ok": True, "notes": [] if outcome.ok else [outcome.why()],
            "summary": f"{len(totals)} kernels, {sum(total['launches'] for total in totals)} launches, "
                       f"{sum(total['microseconds'] for total in totals):,.0f} us"}
