"""What tools/gpu-check reads: GoogleTest's lines, and when kernels ran."""
import shutil
import unittest

import programs  # noqa: F401  # where the modules are

from gpu_check import gtest, timeline


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


NORM = "_ZN6sluice4cuda10NormKernelILb1EEEvPKf"
UPDATE = "_ZN6sluice4cuda15OptimizerKernelILb1EEEvPf"


def lines(*launches):
    return [f"{start},{end},{stream},{name}" for start, end, stream, name in launches]


class Timeline(unittest.TestCase):
    def steps(self, count=3):
        """Steps of a norm of 2 us, 1 us of nothing, 59 products of 10 us one after the other, and an update of 5 us."""
        told, now = [], 1000
        for _ in range(count):
            told += [(now, now + 2000, 7, NORM)] + [(now + 3000 + 10_000 * k, now + 13_000 + 10_000 * k, 7, "gemm_128x256")
                                                    for k in range(59)]
            now += 593_000
            told.append((now, now + 5000, 7, UPDATE))
            now += 5000
        return lines(*told, (1500, 1600, 9, "copy"))

    def test_kernels_of_the_last_step_are_summed(self):
        step, before = timeline.last_step(timeline.read(self.steps()))
        self.assertEqual((len(step), before), (61, 2 * 598_000 + 1000))
        gemm, update, norm = timeline.aggregate(step)
        self.assertEqual(gemm, {"kernel": "gemm_128x256", "launches": 59, "microseconds": 590})
        self.assertEqual((update["microseconds"], norm["microseconds"]), (5, 2))
        self.assertIn("59 x     10.0 us  gemm_128x256", timeline.describe(gemm))
        between = timeline.gaps(step, before)
        self.assertEqual((len(between), sum(between), max(between)), (61, 1, 1))

    def test_names_are_readable_where_there_is_a_filter(self):
        names = timeline.readable([NORM, "gemm_128x256"])
        self.assertEqual(names["gemm_128x256"], "gemm_128x256")
        if shutil.which("c++filt"):
            self.assertEqual(names[NORM], "cuda::NormKernel<true>")

    def test_one_step_is_not_enough(self):
        self.assertEqual(timeline.last_step(timeline.read(self.steps(1))), ([], 0))
        self.assertEqual(timeline.last_step(timeline.read(["", "kernel_timeline: no", "1,2"])), ([], 0))


if __name__ == "__main__":
    unittest.main()
