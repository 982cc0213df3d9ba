"""The parts, each with its time, and how they are run."""
import time
import traceback
from dataclasses import dataclass
from typing import Callable

from gpu_check import benches, bitwise, tests_part
from gpu_check.kit import Clock, Skip


def doctor(kit, _clock):
    """What the machine has, as `sluice doctor` sees it."""
    found = kit.doctor
    lacks = [f"missing: {lack['what']} ({lack['meaning']})" for lack in found.get("missing") or []]
    return {"ok": kit.has_gpu(), "found": found, "notes": lacks,
            "summary": f"{len(kit.gpus())} x {(kit.gpus() or ['no GPU'])[0]}, CUDA {found.get('cuda_driver')}, "
                       f"NCCL {found.get('nccl')}"}


@dataclass(frozen=True)
class Part:
    name: str
    run: Callable
    limit: int  # seconds

    @property
    def help(self):
        return self.run.__doc__.strip()


PARTS = [
    Part("doctor", doctor, 60),
    Part("conformance", tests_part.conformance, 300),
    Part("kernels", tests_part.kernels, 300),
    Part("sanitizer", tests_part.sanitizer, 300),
    Part("bitwise", bitwise.bitwise, 420),
    Part("bench-kernels", benches.bench_kernels, 240),
    Part("bench-nccl", benches.bench_nccl, 120),
    Part("bench-train", benches.bench_train, 420),
    Part("stages", benches.stages, 240),
]


def run_part(part, kit, limit=None):
    """{"status": "ok" | "failed" | "skipped", "seconds", "summary", "notes", ...}; never raises."""
    began = time.monotonic()
    try:
        result = part.run(kit, Clock(limit or part.limit))
        result["status"] = "ok" if result.pop("ok") else "failed"
    except Skip as why:
        result = {"status": "skipped", "summary": str(why), "notes": []}
    except Exception as error:  # pylint: disable=broad-except  # an error in one part must not lose the others' results
        result = {"status": "failed", "summary": f"{type(error).__name__}: {error}",
                  "notes": traceback.format_exc().splitlines()[-3:]}
    result["seconds"] = round(time.monotonic() - began, 1)
    return result
