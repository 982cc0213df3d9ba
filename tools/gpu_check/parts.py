"""The parts, each with its time, and how they are run."""
import time
import traceback
from dataclasses import dataclass
from typing import Callable

from gpu_check import benches, bitwise, sanitizer, smoke, speed, tests_part, timeline
from gpu_check.kit import Clock, Skip
from gpu_check.report import CUT_OFF


def doctor(kit, _clock, _rows):
    """What the machine has, as `sluice doctor` sees it."""
    found = kit.doctor
    lacks = [f"missing: {lack['what']} ({lack['meaning']})" for lack in found.get("missing") or []]
    return {"ok": kit.has_gpu(), "found": found, "notes": lacks,
            "summary": f"{len(kit.gpus())} x {(kit.gpus() or ['no GPU'])[0]}, CUDA {found.get('cuda_driver')}, "
                       f"NCCL {found.get('nccl')}"}


@dataclass(frozen=True)
class Part:
    name: str
    run: Callable  # of the kit, the clock and the part's rows
    limit: int  # seconds

    @property
    def help(self):
        return self.run.__doc__.strip()


# What tells most in a second comes first, since the time may end anywhere.
PARTS = [
    Part("doctor", doctor, 10),
    Part("smoke", smoke.smoke, 60),
    Part("train-gpt2", speed.train_gpt2, 180),
    Part("train-qwen3", speed.train_qwen3, 120),
    Part("profile", timeline.profile, 60),
    Part("bench-kernels", benches.bench_kernels, 120),
    Part("kernels", tests_part.kernels, 240),
    Part("conformance", tests_part.conformance, 60),
    Part("bitwise", bitwise.bitwise, 300),
    Part("sanitizer", sanitizer.sanitizer, 240),
    Part("stages", speed.stages, 180),
    Part("train-gpt2-xl", speed.train_gpt2_xl, 400),
    Part("bench-nccl", benches.bench_nccl, 120),
]


def status(result):
    if not result.pop("ok"):
        return "failed"
    return CUT_OFF if result.get("not_reached") else "ok"


def run_part(part, kit, rows, seconds):
    """{"status": "ok" | "failed" | "skipped" | "cut off", "complete", "seconds", "summary", "notes", ...}; raises nothing
    but process.Stopped. A part is complete where running it again would tell nothing new."""
    began = time.monotonic()
    try:
        result = part.run(kit, Clock(seconds), rows)
        result["status"] = status(result)
    except Skip as why:
        result = {"status": "skipped", "summary": str(why), "notes": []}
    except Exception as error:  # pylint: disable=broad-except  # an error in one part must not lose the others' results
        result = {"status": "failed", "summary": f"{type(error).__name__}: {error}",
                  "notes": traceback.format_exc().splitlines()[-3:]}
    result["complete"] = not result.get("not_reached")
    result["seconds"] = round(time.monotonic() - began, 1)
    return result
