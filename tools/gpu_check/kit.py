"""Where the programs are, and what the machine has."""
import atexit
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from gpu_check import process

# bf16 with fp32 sums, dense, in FLOP/s; GB/s of memory. NVIDIA's data sheets.
PEAKS = {"H200": 989e12, "H100": 989e12, "GH200": 989e12, "A100": 312e12, "B200": 2250e12, "GB200": 2500e12}


# Names of programs that use a GPU; those with "emulat" in their names use the CPU instead.
GPU_WORDS = ("cuda", "nccl", "_device_test")


class Skip(Exception):
    """A part that cannot be run here; its message says why."""


class Clock:
    """The time that a part has left."""

    def __init__(self, seconds):
        self.end = time.monotonic() + seconds

    def left(self):
        return max(0.0, self.end - time.monotonic())


def discover(build):
    """The programs of a build tree: {"tests": {name: path}, "benches": {name: path}}."""
    def executables(folder):
        return {path.name: path for path in sorted(Path(build, folder).rglob("*"))
                if path.is_file() and os.access(path, os.X_OK) and path.suffix == "" and "CMakeFiles" not in path.parts}

    def named(found, *words):
        return {name: path for name, path in found.items() if any(word in name for word in words)}

    tests = named(executables("tests"), *GPU_WORDS)
    return {"tests": {name: path for name, path in tests.items() if name.endswith("_test") and "emulat" not in name},
            "benches": named(executables("bench"), "cuda", "nccl")}


class Kit:
    """A packed folder (it has a manifest.json) or a build tree."""

    def __init__(self, folder, device="cuda", peak=None):
        self.folder = Path(folder)
        self.device = device
        self.peak = peak
        manifest = self.folder / "manifest.json"
        if manifest.is_file():
            listed = json.loads(manifest.read_text())
            self.commit = listed.get("commit", "")
            self.tests = {name: self.folder / name for name in listed["tests"]}
            self.benches = {name: self.folder / name for name in listed["benches"]}
            self.sluice = self.folder / "sluice"
        else:
            found = discover(self.folder)
            self.commit, self.tests, self.benches = "", found["tests"], found["benches"]
            self.sluice = self.folder / "tools" / "sluice"
        self.shared = os.environ.get("SLUICE_SHARED", "")
        self.python = os.environ.get("SLUICE_PYTHON", sys.executable)
        self._scratch = tempfile.TemporaryDirectory(prefix="gpu-check-")
        atexit.register(self._scratch.cleanup)
        self.scratch = Path(self._scratch.name)
        self.doctor = {}

    def examine(self):
        """Runs `sluice doctor`; returns what is wrong, or nothing."""
        if not self.sluice.is_file():
            return f"there is no {self.sluice}; pack a folder with `tools/gpu-check --pack DIR`, or name a build with --build"
        outcome = process.run([self.sluice, "doctor", "--json"], 60)
        if not outcome.ok:
            return f"sluice doctor: {outcome.why()}"
        self.doctor = json.loads(outcome.out)
        return ""

    def gpus(self):
        return [gpu.get("name", "a GPU") for gpu in self.doctor.get("gpus") or []]

    def has_gpu(self):
        return bool(self.gpus()) or self.device == "cpu"

    def peak_flops(self):
        """The peak of the first GPU; None where it is not in the table and --peak-tflops was not given."""
        if self.peak:
            return self.peak
        name = (self.gpus() or [""])[0]
        known = [peak for key, peak in PEAKS.items() if key in name.replace("-", " ").split()]
        return known[0] if known else None

    def text(self):
        """A text to train on, the same on every machine."""
        path = self.scratch / "text.txt"
        if not path.is_file():
            state, words = 1, []
            while len(words) < 60000:
                state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
                words.append(f"w{(state >> 33) % 997:x}")
            path.write_text(" ".join(words))
        return path
