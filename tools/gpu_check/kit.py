"""Where the programs are, and what the machine has."""
import atexit
import hashlib
import json
import os
import random
import sys
import tempfile
import time
from pathlib import Path

from gpu_check import process

# bf16 with fp32 sums, dense, in FLOP/s; GB/s of memory. NVIDIA's data sheets.
PEAKS = {"H200": 989e12, "H100": 989e12, "GH200": 989e12, "A100": 312e12, "B200": 2250e12, "GB200": 2500e12}


# The programs that use a GPU. They are listed, since names tell little: many tests of CUDA's and NCCL's users run over
# stand-ins, and say nothing about a GPU.
KERNEL_TESTS = ("cuda_kernels_test", "cuda_kernels_misaligned_test")
DEVICE_TESTS = ("models_device_test", "comm_nccl_gpu_test")
KERNEL_BENCHES = ("cuda_attention_bench", "cuda_kernels_bench")
NCCL_BENCHES = ("nccl_bench",)
TESTS = (*KERNEL_TESTS, *DEVICE_TESTS)
BENCHES = (*KERNEL_BENCHES, *NCCL_BENCHES)
LIBRARIES = ("libkernel_timeline.so",)  # that CUDA loads into a program

LEAST = 5  # seconds: with less than this left, nothing new is begun
TEXT = "text.txt"  # in a packed folder: what is trained on
LEAST_TEXT = 200_000  # bytes


ROOT = Path(__file__).resolve().parents[2]


class Skip(Exception):
    """A part that cannot be run here; its message says why."""


class Clock:
    """The time that a part has left."""

    def __init__(self, seconds):
        self.end = time.monotonic() + seconds

    def left(self):
        return max(0.0, self.end - time.monotonic())

    def is_up(self):
        return self.left() < LEAST


def discover(build):
    """The programs of a build tree: {"tests": {name: path}, "benches": {name: path}}."""
    def executables(folder, names):
        return {path.name: path for path in sorted(Path(build, folder).rglob("*")) if path.name in names
                and path.is_file() and os.access(path, os.X_OK) and "CMakeFiles" not in path.parts}

    return {"tests": executables("tests", TESTS), "benches": executables("bench", BENCHES),
            "libraries": executables("bench", LIBRARIES)}


def head_commit():
    """The commit, and a hash of what was changed since: results of other changes are not results of these."""
    commit = process.run(["git", "rev-parse", "HEAD"], 10, cwd=ROOT)
    changes = process.run(["git", "diff", "HEAD"], 10, cwd=ROOT)
    if not commit.ok:
        return ""
    changed = f"+{hashlib.sha256(changes.out.encode()).hexdigest()[:12]}" if changes.out else ""
    return commit.out.strip() + changed


def project_text():
    """English to train on: the project's own pages, over and over until they are long enough. Made-up words would have few
    distinct letters, and an embedding's gradient is slow where many tokens are the same one."""
    listed = ROOT.rglob("*.md") if (ROOT / "CMakeLists.txt").is_file() else []
    pages = sorted(path for path in listed if not {"build", ".git"} & set(path.relative_to(ROOT).parts))
    text = "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in pages) or "There is no page here. "
    return text * (1 + LEAST_TEXT // len(text))


class Kit:
    """A packed folder (it has a manifest.json) or a build tree."""

    def __init__(self, folder, device="cuda", peak=None, jobs=None):
        self.folder = Path(folder).resolve()  # programs are not looked for on PATH
        self.device = device
        self.jobs = jobs or min(8, max(1, (os.cpu_count() or 1) // 2))  # programs at once, where no time is measured
        self.peak = peak
        manifest = self.folder / "manifest.json"
        if manifest.is_file():
            listed = json.loads(manifest.read_text())
            self.commit = listed.get("commit", "")
            self.tests = {name: self.folder / name for name in listed["tests"]}
            self.benches = {name: self.folder / name for name in listed["benches"]}
            self.libraries = {name: self.folder / name for name in LIBRARIES}
            self.sluice = self.folder / "sluice"
        else:
            found = discover(self.folder)
            self.commit, self.tests, self.benches = head_commit(), found["tests"], found["benches"]
            self.libraries = found["libraries"]
            self.sluice = self.folder / "tools" / "sluice"
        self.python = os.environ.get("SLUICE_PYTHON", sys.executable)
        self._scratch = tempfile.TemporaryDirectory(prefix="gpu-check-")
        atexit.register(self._scratch.cleanup)
        self.scratch = Path(self._scratch.name)
        self.doctor = {}

    def library(self, name):
        """Its path; None where it was not built."""
        path = self.libraries.get(name)
        return path.resolve() if path and path.is_file() else None

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

    def kind(self):
        """The kind of the first GPU, "H200"; None where it is not in the table."""
        words = (self.gpus() or [""])[0].replace("-", " ").split()
        return next((kind for kind in PEAKS if kind in words), None)

    def peak_flops(self):
        """The peak of the first GPU; None where it is not in the table and --peak-tflops was not given."""
        return self.peak or PEAKS.get(self.kind())

    def text(self):
        """A text to train on; a packed folder's is the same on every machine."""
        packed = self.folder / TEXT
        if packed.is_file():
            return packed
        path = self.scratch / TEXT
        if not path.is_file():
            path.write_text(project_text(), encoding="utf-8")
        return path

    def documents(self):
        """The text as JSON lines of a tenth of a window to one and a half, which are packed into windows."""
        path = self.scratch / "documents.jsonl"
        if not path.is_file():
            text, lengths, lines, at = self.text().read_text(encoding="utf-8"), random.Random(1), [], 0
            while at < len(text):
                length = lengths.randrange(100, 1500)
                lines.append(json.dumps({"text": text[at:at + length]}) + "\n")
                at += length
            path.write_text("".join(lines), encoding="utf-8")
        return path
