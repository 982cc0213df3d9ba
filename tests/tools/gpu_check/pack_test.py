"""The folder that tools/gpu-check packs for a GPU machine."""
import os
import tempfile
import unittest
from pathlib import Path

from programs import ROOT

from gpu_check import pack
from gpu_check.kit import BENCHES, TESTS, project_text


class Pack(unittest.TestCase):
    def test_takes_what_a_gpu_can_run(self):
        listing = ("tools/sluice: CXX_EXECUTABLE_LINKER\ntests/comm/comm_nccl_test: CXX_EXECUTABLE_LINKER\n"
                   "tests/a/cuda_kernels_test: CUDA_EXECUTABLE_LINKER\ntests/comm/comm_nccl_gpu_test: CXX_EXECUTABLE_LINKER\n"
                   "tests/a/cuda_emulation_test: CXX_EXECUTABLE_LINKER\nbench/nccl_bench: CXX_EXECUTABLE_LINKER\nall: phony\n"
                   "bench/models/libkernel_timeline.so: CXX_SHARED_LIBRARY_LINKER\nlib/libother.so: CXX_SHARED_LIBRARY_LINKER\n")
        self.assertEqual(pack.wanted_targets(listing),
                         ["comm_nccl_gpu_test", "cuda_kernels_test", "kernel_timeline", "nccl_bench", "sluice"])

    def test_the_programs_that_it_takes_exist(self):
        made = "\n".join(path.read_text() for room in ("tests", "bench") for path in (ROOT / room).rglob("CMakeLists.txt"))
        for name in (*TESTS, *BENCHES):
            self.assertIn(name, made)

    def test_builds_for_one_architecture_or_for_all(self):
        self.assertEqual(pack.architecture_flags("90,100"), ["-DCMAKE_CUDA_ARCHITECTURES=90-real;100-real"])
        self.assertEqual(pack.architecture_flags(None), ["-UCMAKE_CUDA_ARCHITECTURES"])
        with self.assertRaises(pack.PackError):
            pack.architecture_flags("sm_90")

    def test_the_text_is_english_and_long_enough(self):
        text = project_text()
        self.assertGreaterEqual(len(text), 200_000)
        self.assertGreaterEqual(len(set(text)), 60)
        self.assertIn((ROOT / "README.md").read_text().splitlines()[0], text)

    def test_copies_libraries_but_the_systems(self):
        names = [name for name, _ in pack.libraries("/bin/bash")]
        self.assertFalse([name for name in names if name.startswith(("libc.so", "ld-linux"))])
        self.assertTrue(names)

    def test_large_files_travel_compressed(self):
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            (folder / "lib").mkdir()
            large, small = os.urandom(1000) * (pack.LARGE // 1000 + 1), b"small"
            (folder / "lib" / "large.so.2").write_bytes(large)
            (folder / "lib" / "small.so.1").write_bytes(small)
            pack.compress(folder)
            self.assertEqual(sorted(path.name for path in (folder / "lib").iterdir()), ["large.so.2.xz", "small.so.1"])
            self.assertLess(sum(pack.sizes(folder).values()), pack.LARGE / 10)
            pack.unpack(folder)
            pack.unpack(folder)
            self.assertEqual((folder / "lib" / "large.so.2").read_bytes(), large)
            self.assertTrue(os.access(folder / "lib" / "large.so.2", os.X_OK))

    def test_leaves_a_folder_of_somebody_else_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "mine").write_text("x")
            with self.assertRaises(pack.PackError):
                pack.pack(folder, folder, build_it=False)
            self.assertTrue(Path(folder, "mine").exists())


if __name__ == "__main__":
    unittest.main()
