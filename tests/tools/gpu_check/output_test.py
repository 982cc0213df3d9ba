"""What tools/gpu-check reads: GoogleTest's lines, and the table of NVIDIA's profiler."""
import unittest

import programs  # noqa: F401  # where the modules are

from gpu_check import gtest, ncu


def parse(text, why=""):
    parser = gtest.Parser()
    for line in text.splitlines():
        parser.read(line)
    if why:
        parser.close(why)
    return parser.results


class GoogleTest(unittest.TestCase):
    def test_each_test_has_its_result(self):
        results = parse("""Running main() from gtest_main.cc
[==========] Running 4 tests from 1 test suite.
[----------] Global test environment set-up.
[ RUN      ] A/S.Good/0
noise without an end[       OK ] A/S.Good/0 (12 ms)
[ RUN      ] A/S.Bad/1
x.cc:7: Failure
Expected: 1
[  FAILED  ] A/S.Bad/1, where GetParam() = (7, 31) (3 ms)
[ RUN      ] A/S.Lacking/2
y.cc:8: Skipped
2 GPUs are needed
[  SKIPPED ] A/S.Lacking/2 (0 ms)
[----------] 3 tests from A/S (15 ms total)
[  PASSED  ] 1 test.
[  SKIPPED ] 1 test, listed below:
[  SKIPPED ] A/S.Lacking/2
[  FAILED  ] 1 test, listed below:
[  FAILED  ] A/S.Bad/1, where GetParam() = (7, 31)
""")
        self.assertEqual(results.tests, {
            "A/S.Good/0": {"result": "ok", "ms": 12},
            "A/S.Bad/1": {"result": "failed", "ms": 3, "said": ["x.cc:7: Failure", "Expected: 1"]},
            "A/S.Lacking/2": {"result": "skipped", "ms": 0, "said": ["y.cc:8: Skipped", "2 GPUs are needed"]}})
        self.assertEqual(results.said, [])

    def test_the_test_that_was_running_has_failed(self):
        for why in ("signal 11", "not done after 60 s"):
            results = parse("[ RUN      ] S.A\n[       OK ] S.A (1 ms)\n[ RUN      ] S.B\nabout to crash\n", why)
            self.assertEqual(results.tests["S.B"], {"result": "failed", "ms": None, "said": [why, "about to crash"]})
            self.assertEqual(results.count("ok"), 1)

    def test_a_parameter_of_several_lines_hides_no_failure(self):
        results = parse("[ RUN      ] S.A\nwrong\n[  FAILED  ] S.A, where GetParam() = {1,\n2} (3 ms)\n[ RUN      ] S.B\n"
                        "[       OK ] S.B (1 ms)\n")
        self.assertEqual((results.tests["S.A"]["result"], results.tests["S.B"]["result"]), ("failed", "ok"))

    def test_an_environment_says_why_it_skips(self):
        results = parse("[==========] Running 240 tests.\n[----------] Global test environment set-up.\ngpu.cc:20: Skipped\n"
                        "no GPU here\n[==========] 240 tests ran. (0 ms total)\n[  PASSED  ] 240 tests.\n")
        self.assertEqual((results.tests, results.said), ({}, ["gpu.cc:20: Skipped", "no GPU here"]))

    def test_suites_are_listed_with_their_sizes(self):
        listing = "Running main() from x.cc\nShapes/A.\n  B/0  # GetParam() = 1.5\n  B/1\nT/0.  # TypeParam = float\n  C\n"
        self.assertEqual(gtest.list_suites(listing), {"Shapes/A.": 2, "T/0.": 1})


HEADER = ('"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device",'
          '"CC","Section Name","Metric Name","Metric Unit","Metric Value"\n')


def launch(number, kernel, nanoseconds, size, percent):
    begin = f'"{number}","7","sluice","127.0.0.1","{kernel}","1","13","(128, 1, 1)","(64, 1, 1)","0","9.0","Command line"'
    return (f'{begin},"dram__bytes.sum","byte","{size:,}"\n{begin},"gpu__time_duration.sum","ns","{nanoseconds:,}"\n'
            f'{begin},"sm__throughput.avg.pct_of_peak_sustained_elapsed","%","{percent}"\n')


class Profiler(unittest.TestCase):
    def test_launches_of_a_kernel_are_summed(self):
        text = ("==PROF== Connected to process 7\n{\"step\":1}\n" + HEADER +
                launch(0, "void sluice::(anonymous namespace)::Norm<float>(const float *, int)", 3000, 6_000_000, 20) +
                launch(1, "gemm_128x256", 50_000, 1_000, 90.5) +
                launch(2, "void sluice::(anonymous namespace)::Norm<float>(const float *, int)", 1000, 2_000_000, 40) +
                "==PROF== Disconnected\n")
        gemm, norm = ncu.aggregate(text)
        self.assertEqual(gemm, {"kernel": "gemm_128x256", "launches": 1, "microseconds": 50, "bytes": 1000,
                                "sm_percent": 90.5})
        self.assertEqual(norm, {"kernel": "sluice::anonymous::Norm<float>", "launches": 2, "microseconds": 4,
                                "bytes": 8_000_000, "sm_percent": 25})
        self.assertIn("2.00 TB/s", ncu.describe(norm))

    def test_units_are_converted(self):
        text = HEADER + launch(0, "k", 5, 7, 1).replace('"ns"', '"usecond"').replace('"byte"', '"Kbyte"')
        self.assertEqual((ncu.aggregate(text)[0]["microseconds"], ncu.aggregate(text)[0]["bytes"]), (5, 7000))

    def test_no_table_is_nothing(self):
        self.assertEqual(ncu.aggregate("==ERROR== ERR_NVGPUCTRPERM\n"), [])


if __name__ == "__main__":
    unittest.main()
