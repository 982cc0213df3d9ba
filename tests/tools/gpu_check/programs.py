"""A packed folder whose programs only print what those on a GPU would print."""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools"))

from gpu_check import pack  # noqa: E402
from gpu_check.kit import Kit  # noqa: E402

SLUICE = """#!/usr/bin/env python3
import json, os, sys
words = sys.argv[1:]
def value(flag, default=""):
    return words[words.index(flag) + 1] if flag in words else default
if words[0] == "doctor":
    print(json.dumps({"gpus": %(gpus)s, "cuda_driver": "13.0", "nccl": "2.28.9", "missing": []}))
    sys.exit(0)
if words[0] == "profile":
    if "%(broken)s" == "untuned":
        print("sluice: cuBLASLt is missing", file=sys.stderr)
        sys.exit(2)
    product = {"m": 8, "k": 2, "n": 4, "adds": False, "epilogue": "bias", "seconds": 1, "first_seconds": 1.25}
    json.dump({"products": [product, {**product, "adds": True, "first_seconds": 1}]}, open(value("--tune"), "w"))
    sys.exit(0)
if words[0] == "roofline":
    if value("--device") != "h200" or "%(broken)s" == "unexpected":
        sys.exit(2)
    print(json.dumps({"expected_seconds": 0.1}))
    sys.exit(0)
stages = int(value("--stages", "1"))
if value("--schedule") == "%(broken)s":
    print("sluice: rank 1 is lost", file=sys.stderr)
    sys.exit(5)
if value("--rank", "0") == "0":
    loss = "0x2" if value("--schedule") == "%(different)s" else "0x1"
    for step in range(int(value("--steps"))):
        print(json.dumps({"loss_hex": loss, "step_seconds": 0.1 + 0.001 * stages, "arena_bytes": [7]}), flush=True)
    if "--attention cudnn" in " ".join(words) and "%(broken)s" == "late":
        print("sluice: no evaluation", file=sys.stderr)
        sys.exit(1)
    print(json.dumps({"done": True, "weights_hash": os.environ.get("NCCL_HOSTID", "none")[:3] and "abc"}))
if "--trace" in words:
    events = [{"ph": "X", "tid": 0, "cat": "F", "args": {"step": 1}, "ts": 10.0 * i, "dur": 7.0} for i in range(5)]
    json.dump({"traceEvents": events}, open(value("--trace"), "w"))
"""

# Two suites; what the second one does is asked for.
TEST = """#!/usr/bin/env python3
import os, signal, sys, time
if "--gtest_list_tests" in sys.argv:
    print("Running main()\\nShapes/Attention.\\n  A/0  # GetParam() = 1\\n  A/1\\nNorm.  # TypeParam\\n  B\\nLinear.\\n  C")
    sys.exit(0)
suite = [word for word in sys.argv if word.startswith("--gtest_filter=")][0].split("=", 1)[1].rstrip("*")
print("Running main()\\nNote: Google Test filter\\n[==========] Running 2 tests", flush=True)
print(f"[ RUN      ] {suite}Good\\n[       OK ] {suite}Good (3 ms)", flush=True)
print(f"[ RUN      ] {suite}Other", flush=True)
what = "%(what)s" if suite == "Norm." else "ok"
if what == "crash":
    os.kill(os.getpid(), signal.SIGSEGV)
if what == "hang":
    time.sleep(600)
if what == "fail":
    print(f"x.cc:1: Failure\\nwrong\\n[  FAILED  ] {suite}Other, where GetParam() = 8-byte object (4 ms)", flush=True)
elif what == "skip":
    print(f"x.cc:2: Skipped\\nno GPU\\n[  SKIPPED ] {suite}Other (0 ms)", flush=True)
else:
    print(f"[       OK ] {suite}Other (5 ms)", flush=True)
sys.exit(1 if what == "fail" else 0)
"""


def write_program(path, text):
    path.write_text(text)
    path.chmod(0o755)


class Folder(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        self.make()

    def make(self, gpus='[{"name": "NVIDIA H200"}]', broken="-", different="-", norm="ok"):
        """`norm`: what the second test of the suite Norm does. `broken`: the schedule that fails, or "late": runs that fail
        after their last step."""
        write_program(self.folder / "sluice", SLUICE % {"gpus": gpus, "broken": broken, "different": different})
        write_program(self.folder / "cuda_kernels_test", TEST % {"what": norm})
        write_program(self.folder / "comm_nccl_gpu_test", TEST % {"what": "ok"})
        write_program(self.folder / "cuda_kernels_bench", "#!/bin/sh\necho layer_norm 81 %\n")
        write_program(self.folder / "nccl_bench", "#!/bin/sh\necho NCCL 12 us\n")
        self.folder.joinpath("manifest.json").write_text(json.dumps(
            {"commit": "c0ffee", "tests": ["cuda_kernels_test", "comm_nccl_gpu_test"],
             "benches": ["cuda_kernels_bench", "nccl_bench"]}))
        self.folder.joinpath("text.txt").write_text("a text " * 1000)
        # A command that is killed leaves its scratch folder there.
        self.environment = {**os.environ, "TMPDIR": str(self.folder)}
        self.kit = Kit(self.folder, jobs=4)
        self.kit.python = "/nowhere/python"  # no peer, unless a test wants one
        self.assertEqual(self.kit.examine(), "")

    def command(self, *arguments):
        pack.copy_command(self.folder)
        return subprocess.run([self.folder / "gpu-check", *map(str, arguments)], capture_output=True, text=True, check=False,
                              env={**self.environment, "SLUICE_PYTHON": "/nowhere/python"})
