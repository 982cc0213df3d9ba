"""tools/gpu-check: the command line."""
import argparse
import datetime
import json
import platform
import sys
from pathlib import Path

from gpu_check import pack
from gpu_check.kit import Kit
from gpu_check.parts import PARTS, run_part

EXIT_OK, EXIT_FAILED, EXIT_USAGE = 0, 1, 2
# Rooms for programs and checks: 9 places of the summary's first column.
COLUMNS = "{:<14}{:<9}{:>7}  {}"


def parse(arguments):
    parser = argparse.ArgumentParser(
        prog="gpu-check", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Tries all that runs on a GPU, and measures it. Ends with 0 where every part is well, 1 where one is "
                    "not, 2 where there is no GPU.",
        epilog="parts:\n" + "\n".join(f"  {part.name:<14}{part.help} (at most {part.limit} s)" for part in PARTS) +
        "\n\nexamples:\n  tools/gpu-check --pack /tmp/gpu     builds a folder to take to a GPU machine\n"
        "  /tmp/gpu/gpu-check -o result.json   runs everything there\n"
        "  /tmp/gpu/gpu-check --part bitwise   one part\n\n"
        "SLUICE_SHARED names the folder with peers/torch_gpt.py; SLUICE_PYTHON a Python that has PyTorch.")
    parser.add_argument("--pack", metavar="DIR", help="build, and put everything into DIR (at most 60 MiB)")
    parser.add_argument("--build", metavar="DIR", help="with --pack: where to build (default: build/gpu-check); else: run the "
                        "programs of this build tree")
    parser.add_argument("--no-build", action="store_true", help="with --pack: take what is in the build tree")
    parser.add_argument("--part", action="append", choices=[part.name for part in PARTS], help="only this one; again for more")
    parser.add_argument("-o", "--output", metavar="FILE", help="write the results there too, as one JSON document")
    parser.add_argument("--limit", type=float, metavar="SECONDS", help="for each part, instead of its own")
    parser.add_argument("--peak-tflops", type=float, help="of the GPU in bf16 (default: by its name)")
    parser.add_argument("--skip-without-gpu", action="store_true", help="without a GPU, say so and end with 0")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def print_part(name, result):
    print(COLUMNS.format(name, result["status"], f"{result['seconds']:.0f} s", result["summary"]))
    for note in result.get("notes", []):
        print(f"{'':14}{note}")
    sys.stdout.flush()


def check(options, folder):
    kit = Kit(folder, options.device, options.peak_tflops and options.peak_tflops * 1e12)
    wanted = [part for part in PARTS if not options.part or part.name in options.part]
    wrong = kit.examine()
    if wrong:
        print(f"gpu-check: {wrong}", file=sys.stderr)
        return EXIT_USAGE
    if not kit.has_gpu():
        why = "there is no GPU that CUDA can use (`sluice doctor` says what is missing)"
        if not options.skip_without_gpu:
            print(f"gpu-check: {why}; --skip-without-gpu makes that no error", file=sys.stderr)
            return EXIT_USAGE
        results = {part.name: {"status": "skipped", "seconds": 0, "summary": why, "notes": []} for part in wanted}
        for name, result in results.items():
            print_part(name, result)
    else:
        results = {}
        for part in wanted:
            results[part.name] = run_part(part, kit, options.limit)
            print_part(part.name, results[part.name])
    if options.output:
        document = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
                    "host": platform.node(), "gpus": kit.gpus(), "commit": kit.commit,
                    "cuda_driver": kit.doctor.get("cuda_driver"), "nccl": kit.doctor.get("nccl"), "parts": results}
        Path(options.output).write_text(json.dumps(document, indent=1) + "\n")
    return EXIT_FAILED if any(result["status"] == "failed" for result in results.values()) else EXIT_OK


def main(arguments, folder):
    """`folder`: the folder of the command; a packed one has a manifest in it."""
    options = parse(arguments)
    try:
        if options.pack:
            build = options.build or str(pack.ROOT / "build" / "gpu-check")
            size = pack.pack(options.pack, build, not options.no_build)
            print(f"{options.pack}: {size / 2**20:.1f} MiB; run {options.pack}/gpu-check on the GPU machine")
            return EXIT_OK
        if options.build:
            folder = Path(options.build)
        elif not (folder / "manifest.json").is_file():
            folder = pack.ROOT / "build" / "gpu-check"
        if (folder / "manifest.json").is_file():
            pack.unpack(folder)
        return check(options, folder)
    except pack.PackError as error:
        print(f"gpu-check: {error}", file=sys.stderr)
        return EXIT_USAGE
