#!/usr/bin/env python3
"""Registers of every CUDA kernel on sm_90, as recorded in registers.txt, and that none spills.

    tests/models/kernels/cuda/resources_test.py [--nvcc NVCC] [--write]

Compiles each .cu once more, for sm_90 alone, and reads what ptxas says; ccache, where it is there, remembers that, too.
Registers are compared where nvcc is the release that they were recorded with; --write records them anew. Needs no GPU.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[4]
KERNELS = ROOT / "models/kernels/cuda"
RECORD = pathlib.Path(__file__).with_name("registers.txt")
ARCHITECTURE = "sm_90"
# As tools/cmake/SluiceCuda.cmake and CMake's release build compile them.
FLAGS = ["-std=c++20", "-O3", "-DNDEBUG", "-fmad=false", "-I."]
# As tools/cmake/SluiceOptions.cmake asks it: for another checkout, too.
CACHE = [path for path in [shutil.which("ccache")] if path]
ENVIRONMENT = {**os.environ, "CCACHE_BASEDIR": str(ROOT), "CCACHE_NOHASHDIR": "1"}
# What ptxas says of a kernel: its name, its stack and what it spills there, and its registers.
KERNEL = re.compile(
    rf"Compiling entry function '(\w+)' for '{ARCHITECTURE}'.*?"
    r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads.*?Used (\d+) registers", re.DOTALL)


def nvcc_release(nvcc):
    said = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout
    return re.search(r"release ([\d.]+)", said).group(1)


def demangled(names):
    said = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    return [re.sub(r"^void |\(.*$", "", name).replace("sluice::cuda::", "") for name in said.splitlines()]


def kernels_of(nvcc, source):
    """{mangled name: (registers, bytes that are spilled)} of one file."""
    # An object file, since ccache keeps no machine code alone.
    with tempfile.NamedTemporaryFile(suffix=".o") as compiled:
        command = [*CACHE, nvcc, *FLAGS, f"-arch={ARCHITECTURE}", "-Xptxas", "-v", "-c", str(source), "-o", compiled.name]
        result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=ENVIRONMENT)
    if result.returncode != 0:
        raise AssertionError(f"{source}: {result.stderr}")
    return {name: (int(registers), int(stores) + int(loads))
            for name, _, stores, loads, registers in KERNEL.findall(result.stderr)}


def all_kernels(nvcc):
    """The same of all files, by the name in the source."""
    sources = sorted(file.relative_to(ROOT) for file in KERNELS.rglob("*.cu"))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = {name: use for kernels in pool.map(lambda source: kernels_of(nvcc, source), sources)
                 for name, use in kernels.items()}
    mangled = sorted(found)
    return dict(sorted(zip(demangled(mangled), (found[name] for name in mangled))))


def recorded():
    """The release of nvcc, and {name: registers}."""
    first, *lines = RECORD.read_text().splitlines()
    rows = [line.split(None, 1) for line in lines if line and not line.startswith("#")]
    return re.search(r"nvcc ([\d.]+)", first).group(1), {name: int(registers) for registers, name in rows}


def write(nvcc):
    lines = [f"# Registers of a thread, {ARCHITECTURE}, by nvcc {nvcc_release(nvcc)} (resources_test.py --write)."]
    lines += [f"{registers:4} {name}" for name, (registers, _) in all_kernels(nvcc).items()]
    RECORD.write_text("\n".join(lines) + "\n")


class Resources(unittest.TestCase):
    nvcc = "nvcc"

    @classmethod
    def setUpClass(cls):
        cls.kernels = all_kernels(cls.nvcc)

    def test_all_kernels_are_found(self):
        bodies = [file.read_text() for file in [*KERNELS.rglob("*.cuh"), *KERNELS.rglob("*.cu")]]
        declared = {name for text in bodies for name in re.findall(r"\b(\w+Kernel)\(", text)}
        for name in declared:
            self.assertTrue(any(name in kernel for kernel in self.kernels), name)
        self.assertGreater(len(self.kernels), len(declared))

    def test_no_kernel_spills(self):
        spilled = {name: spills for name, (_, spills) in self.kernels.items() if spills > 0}
        self.assertEqual(spilled, {})

    def test_registers_are_those_that_are_recorded(self):
        release, registers = recorded()
        if release != nvcc_release(self.nvcc):
            self.skipTest(f"recorded with nvcc {release}, this is {nvcc_release(self.nvcc)}")
        self.assertEqual({name: used for name, (used, _) in self.kernels.items()}, registers)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nvcc", default="nvcc")
    parser.add_argument("--write", action="store_true", help="record the registers anew")
    options, rest = parser.parse_known_args()
    Resources.nvcc = options.nvcc
    if options.write:
        write(options.nvcc)
    else:
        unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
