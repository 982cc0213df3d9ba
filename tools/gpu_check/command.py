"""tools/gpu-check: the command line."""
import argparse
import datetime
import platform
import signal
import sys
import time
from pathlib import Path

from gpu_check import pack, process
from gpu_check.kit import LEAST, Kit
from gpu_check.parts import PARTS, run_part
from gpu_check.report import COLUMN, NOT_RUN, Report, read_earlier

EXIT_OK, EXIT_FAILED, EXIT_USAGE = 0, 1, 2
# Rooms for programs and checks: 9 places of the summary's first column.
COLUMNS = "{:<14}{:<9}{:>7}  {}"
SHOWN = 8  # names of what was not reached; the file has them all
CARRIED = " (measured before)"


def parse(arguments):
    parser = argparse.ArgumentParser(
        prog="gpu-check", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Tries all that runs on a GPU, and measures it. Ends with 0 where every part is well, 1 where one is "
                    "not (it failed, or the time did not suffice for it), 2 where there is no GPU.",
        epilog="parts, in the order in which they are run:\n" +
        "\n".join(f"  {part.name:<15}{part.help} (at most {part.limit} s)" for part in PARTS) +
        "\n\nexamples:\n"
        "  tools/gpu-check --pack /tmp/gpu --architectures 90    builds a folder to take to a machine with H100s or H200s\n"
        "  /tmp/gpu/gpu-check --budget 540 -o r.json             runs there what nine minutes suffice for\n"
        "  /tmp/gpu/gpu-check --budget 540 --resume r.json -o r.json   what is left\n"
        "  /tmp/gpu/gpu-check --part bitwise                     one part\n\n"
        "SLUICE_PYTHON names a Python that has PyTorch (default: the one that runs this).")
    parser.add_argument("--pack", metavar="DIR", help="build, and put everything into DIR (at most 60 MiB)")
    parser.add_argument("--architectures", metavar="LIST", help="with --pack: build for these GPUs only: 90 or 90,100")
    parser.add_argument("--build", metavar="DIR", help="with --pack: where to build (default: build/gpu-check); else: run "
                        "the programs of this build tree")
    parser.add_argument("--no-build", action="store_true", help="with --pack: take what is in the build tree")
    parser.add_argument("--part", action="append", choices=[part.name for part in PARTS],
                        help="only this one; again for more")
    parser.add_argument("-o", "--output", metavar="FILE", help="write the results there too, as one JSON document: after "
                        "every measurement, so that it holds all of them however this command ends")
    parser.add_argument("--budget", type=float, metavar="SECONDS", help="for everything; parts that it does not suffice for "
                        "are cut off or not run")
    parser.add_argument("--resume", metavar="FILE", help="do not measure again what FILE holds, of the same commit and GPU")
    parser.add_argument("--limit", type=float, metavar="SECONDS", help="for each part, instead of its own")
    parser.add_argument("--jobs", type=int, metavar="N", help="programs at once in parts that measure no time (default: half "
                        "of the processors, at most 8)")
    parser.add_argument("--peak-tflops", type=float, help="of the GPU in bf16 (default: by its name)")
    parser.add_argument("--skip-without-gpu", action="store_true", help="without a GPU, say so and end with 0")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def print_part(name, result):
    """After the part's rows, which were printed when they were measured."""
    print(COLUMNS.format(name, result["status"], f"{result['seconds']:.0f} s", result["summary"]))
    for note in result.get("notes", []):
        print(f"{'':{COLUMN}}  {note}")
    if result.get("not_reached"):
        missed = result["not_reached"]
        more = f" and {len(missed) - SHOWN} more" if len(missed) > SHOWN else ""
        print(f"{'':{COLUMN}}  not reached: {', '.join(missed[:SHOWN])}{more}")
    sys.stdout.flush()


def skip_all(report, wanted, why):
    for part in wanted:
        result = {"status": "skipped", "complete": True, "seconds": 0, "summary": why, "notes": []}
        report.finish(part.name, result)
        print_part(part.name, result)


def is_worth_keeping(before, seconds):
    """A part of an earlier run that is complete, or for which there is no time now."""
    return before.get("complete") or (before.get("rows") and seconds < LEAST)


def attempt(part, kit, report, before, seconds):
    """The part's result."""
    if is_worth_keeping(before, seconds):
        result = {key: value for key, value in before.items() if key != "rows"}
        summary = result.get("summary", "").removesuffix(CARRIED)
        return {"complete": False, "seconds": 0, "notes": [], **result, "summary": summary + CARRIED}
    if seconds < LEAST:
        return {"status": NOT_RUN, "complete": False, "seconds": 0, "summary": "time was up", "notes": []}
    return run_part(part, kit, report.begin(part.name), seconds)


def run_all(kit, report, wanted, options, end):
    """Returns whether every part is well."""
    well = True
    for part in wanted:
        seconds = min(options.limit or part.limit, end - time.monotonic())
        result = attempt(part, kit, report, report.earlier.get(part.name, {}), seconds)
        report.finish(part.name, result)
        print_part(part.name, result)
        well = well and result["status"] in ("ok", "skipped")
    return well


def stop(_signal, _frame):
    process.RUNNING.stop()
    raise process.Stopped


def check(options, folder, began):
    kit = Kit(folder, options.device, options.peak_tflops and options.peak_tflops * 1e12, options.jobs)
    wanted = [part for part in PARTS if not options.part or part.name in options.part]
    wrong = kit.examine()
    if wrong:
        print(f"gpu-check: {wrong}", file=sys.stderr)
        return EXIT_USAGE
    head = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "host": platform.node(),
            "gpus": kit.gpus(), "commit": kit.commit, "cuda_driver": kit.doctor.get("cuda_driver"),
            "nccl": kit.doctor.get("nccl")}
    earlier = read_earlier(options.resume, head) if options.resume else {}
    report = Report(options.output, head, [part.name for part in wanted], earlier)
    if not kit.has_gpu():
        why = "there is no GPU that CUDA can use (`sluice doctor` says what is missing)"
        if not options.skip_without_gpu:
            print(f"gpu-check: {why}; --skip-without-gpu makes that no error", file=sys.stderr)
            return EXIT_USAGE
        skip_all(report, wanted, why)
        return EXIT_OK
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    try:
        report.write()
    except OSError as error:
        print(f"gpu-check: -o {options.output}: {error.strerror}", file=sys.stderr)
        return EXIT_USAGE
    end = began + options.budget if options.budget else float("inf")
    try:
        return EXIT_OK if run_all(kit, report, wanted, options, end) else EXIT_FAILED
    except process.Stopped:
        kept = f"{options.output} has what was measured until then" if options.output else "there is no -o FILE"
        print(f"gpu-check: stopped; {kept}", file=sys.stderr)
        return EXIT_FAILED


def main(arguments, folder):
    """`folder`: the folder of the command; a packed one has a manifest in it."""
    began = time.monotonic()
    options = parse(arguments)
    try:
        if options.pack:
            build = options.build or str(pack.ROOT / "build" / "gpu-check")
            size = pack.pack(options.pack, build, not options.no_build, options.architectures)
            print(f"{options.pack}: {size / 2**20:.1f} MiB; run {options.pack}/gpu-check on the GPU machine")
            return EXIT_OK
        if options.build:
            folder = Path(options.build)
        elif not (folder / "manifest.json").is_file():
            folder = pack.ROOT / "build" / "gpu-check"
        if (folder / "manifest.json").is_file():
            pack.unpack(folder)
        return check(options, folder, began)
    except pack.PackError as error:
        print(f"gpu-check: {error}", file=sys.stderr)
        return EXIT_USAGE
