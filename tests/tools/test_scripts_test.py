"""What tools/test leaves to Python: which cases stand in changed sources, those of Python tests, and the sum of several runs."""

import contextlib
import io
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools" / "testing"))
sys.dont_write_bytecode = True

import changed_cases  # noqa: E402  # found by the line above
import dealt_programs  # noqa: E402
import googletest_cases  # noqa: E402
import test_summary  # noqa: E402


def listing(**suites):
    """What --gtest_list_tests writes of suites whose cases are `name="file:line"`."""
    return {"testsuites": [{"name": suite.replace("__", "/"),
                            "testsuite": [{"name": case, "file": at.split(":")[0], "line": int(at.split(":")[1])}
                                          for case, at in cases.items()]}
                           for suite, cases in suites.items()]}


class GoogleTestCasesTest(unittest.TestCase):
    SCRIPT = """
import sys, unittest
sys.path.insert(0, sys.argv[1])
import googletest_cases

class A(unittest.TestCase):
    def test_1(self): pass
    def test_2(self): self.fail("no")
    def test_3(self): self.skipTest("not here")

class B(unittest.TestCase):
    def test_1(self):
        for i in range(3):
            with self.subTest(i=i): self.assertNotEqual(i, 1)
    def test_2(self): raise OSError("gone")

googletest_cases.main("letters_test", [])
"""

    def results(self, **variables):
        """What test_summary reads in the report of the script: {case: result}; and whether the script passed."""
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder, "letters.py")
            script.write_text(self.SCRIPT)
            done = subprocess.run([sys.executable, script, Path(googletest_cases.__file__).parent], capture_output=True, check=False,
                                  env={**variables, "GTEST_OUTPUT": f"json:{folder}/"})
            cases = test_summary.read_cases(Path(folder))
            self.assertEqual(list(cases), ["letters_test"])
            return cases["letters_test"], done.returncode == 0

    def test_a_report_says_what_became_of_each_case(self):
        self.assertEqual(self.results(), ({"A.test_1": "passed", "A.test_2": "failed", "A.test_3": "skipped", "B.test_1": "failed",
                                           "B.test_2": "failed"}, False))

    def test_a_filter_has_patterns_to_take_and_to_leave_out(self):
        self.assertEqual(self.results(GTEST_FILTER="*.test_1-B.*:C.*"), ({"A.test_1": "passed"}, True))
        self.assertEqual(self.results(GTEST_FILTER="A.test_3:B.test_2-"), ({"A.test_3": "skipped", "B.test_2": "failed"}, False))
        self.assertEqual(self.results(GTEST_FILTER="*-"), self.results())
        self.assertEqual(self.results(GTEST_FILTER="Csv.*"), ({}, True))

    def test_the_parts_have_each_case_once(self):
        parts = [self.results(GTEST_TOTAL_SHARDS="3", GTEST_SHARD_INDEX=str(part))[0] for part in range(3)]
        self.assertEqual([len(part) for part in parts], [2, 2, 1])
        self.assertEqual({case: result for part in parts for case, result in part.items()}, self.results()[0])


class ChangedCasesTest(unittest.TestCase):
    CASES = listing(Csv={"Reads": "../../tests/csv_test.cc:5", "Writes": "../../tests/csv_test.cc:9"},
                    Runs__Csv={"Keeps/1": "/src/tests/csv_test.cc:14", "Keeps/2": "/src/tests/csv_test.cc:14", "Is": "tests/is_test.cc:3"},
                    Svg={"Draws": "tests/svg_test.cc:7"})
    SOURCE = """#include <x>

int Shared() { return 3; }

TEST(Csv, Reads) {
  if (true) {
  }
}
TEST_F(Csv,
       Writes) {
}

struct Row {};
TEST_P(Csv, Keeps) {
}
INSTANTIATE_TEST_SUITE_P(Runs, Csv, Values(1, 2));
"""

    def patterns(self, *changed, **lines):
        return changed_cases.patterns(self.CASES, dict.fromkeys(changed) | lines, Path("/src"))

    def test_a_case_is_where_its_file_has_changed_however_the_compiler_was_given_it(self):
        self.assertEqual(self.patterns("tests/csv_test.cc"), {"Csv.*", "Runs/Csv.Keeps/*"})
        self.assertEqual(self.patterns("tests/is_test.cc"), {"Runs/Csv.Is"})
        self.assertEqual(self.patterns("tests/svg_test.cc", "tests/is_test.cc"), {"Svg.*", "Runs/Csv.Is"})

    def test_of_a_file_only_the_changed_cases_count(self):
        self.assertEqual(self.patterns(**{"tests/csv_test.cc": {9}}), {"Csv.Writes"})
        self.assertEqual(self.patterns(**{"tests/csv_test.cc": {14}}), {"Runs/Csv.Keeps/*"})
        self.assertEqual(self.patterns(**{"tests/csv_test.cc": set()}), set())

    def test_a_changed_line_stands_for_its_case(self):
        first_lines = lambda *lines: changed_cases.changed_first_lines(self.SOURCE, lines)
        self.assertEqual(first_lines(6, 7, 8), {5})
        self.assertEqual(first_lines(9, 10, 11, 15), {9, 14})
        self.assertEqual(first_lines(), set())
        self.assertEqual(first_lines(6.5), {5})
        self.assertEqual(first_lines(12.5), set())
        for shared in (3, 13, 16):
            self.assertIsNone(first_lines(6, shared))

    def test_lines_are_those_of_the_new_file(self):
        diff = """diff --git a/tests/csv_test.cc b/tests/csv_test.cc
--- a/tests/csv_test.cc
+++ b/tests/csv_test.cc
@@ -1,0 +2 @@ namespace
+#include <y>
@@ -6,2 +7 @@ TEST(Csv, Reads) {
-  one();
-  two();
+  both();
@@ -20,2 +20,0 @@ TEST(Csv, Writes) {
-  gone();
-
@@ -30 +28,3 @@
-  // old
+  // new
+
+  EXPECT_TRUE(true);
diff --git a/tests/new_test.cc b/tests/new_test.cc
--- /dev/null
+++ b/tests/new_test.cc
@@ -0,0 +1,2 @@
+TEST(New, Is) {
+}
diff --git a/tests/said_test.cc b/tests/said_test.cc
--- a/tests/said_test.cc
+++ b/tests/said_test.cc
@@ -3 +3 @@
-// Says.
+// Says more.
"""
        self.assertEqual(changed_cases.changed_lines(diff),
                         {"tests/csv_test.cc": {7, 20.5, 30}, "tests/new_test.cc": {1, 2}})

    def test_changed_files_need_not_be_text(self):
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            def git(*arguments):
                subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments], check=True, capture_output=True)
            test = Path("tests/csv_test.cc")
            test.parent.mkdir()
            test.write_text(self.SOURCE)
            git("init")
            git("add", ".")
            git("commit", "--message", "one")
            test.write_text(self.SOURCE.replace("if (true)", "if (false)"))
            Path("tests/no_utf8").write_bytes(b"\xff\n")
            git("add", ".")
            git("commit", "--message", "two")
            self.assertEqual(changed_cases.changed_files_since("HEAD~1"), {"tests/csv_test.cc": {5}})

    def test_a_file_without_cases_stands_for_none(self):
        self.assertEqual(self.patterns("tests/what_they_share.cc"), set())
        self.assertEqual(self.patterns("tests/what_they_share.cc", "tests/svg_test.cc"), {"Svg.*"})

    def test_only_programs_with_a_changed_source_are_asked(self):
        sources = ["tests/csv_test.cc:csv_test", "tests/shared.cc:csv_test", "tests/shared.cc:svg_test"]
        self.assertEqual(changed_cases.changed_programs({"tests/csv_test.cc", "README.md"}, sources),
                         {"csv_test": {"tests/csv_test.cc"}})
        self.assertEqual(changed_cases.changed_programs({"tests/shared.cc"}, sources).keys(), {"csv_test", "svg_test"})


class DealtProgramsTest(unittest.TestCase):
    TESTFILE = """
add_test([=[csv_test]=] "/b/tests/csv_test")
set_tests_properties([=[csv_test]=] PROPERTIES  COST "600" TIMEOUT "600")
add_test([=[csv_test_slow]=] "/b/tests/csv_test" "--slow")
add_test([=[is_test]=] "/b/tests/is_test")
add_test([=[runs_test]=] "/bin/python3" "/src/runs_test.py" "/b/tools/sluice" "/b/tests/rank" "--into" "/b/tests/out of it")
add_test([=[svg_test]=] "/b/tests/svg_test")
subdirs("more")
"""

    def setUp(self):
        with tempfile.TemporaryDirectory() as folder:
            inner = Path(folder) / "tests"
            inner.mkdir()
            (inner / "CTestTestfile.cmake").write_text(self.TESTFILE)
            self.commands = dealt_programs.commands_of(Path(folder))

    def deal(self, part, parts, changed=()):
        return dealt_programs.deal(self.commands, Path("/b"), part, parts, changed)

    def test_each_test_has_one_turn(self):
        for parts in range(1, 7):
            turns = [name for part in range(1, parts + 1) for name in self.deal(part, parts)[0]]
            self.assertEqual(sorted(turns), ["csv_test", "csv_test_slow", "is_test", "runs_test", "svg_test"])

    def test_what_is_built_is_what_the_tests_run_and_what_has_changed(self):
        self.assertEqual(self.deal(1, 4), (["csv_test", "csv_test_slow"], ["csv_test", "csv_test_slow"], ["csv_test"]))
        self.assertEqual(self.deal(3, 4), (["runs_test"], ["runs_test"], ["rank", "sluice"]))
        self.assertEqual(self.deal(3, 4, {"svg_test"}), (["runs_test"], ["runs_test", "svg_test"], ["rank", "sluice", "svg_test"]))

    def test_a_test_that_names_no_program_is_an_error(self):
        with self.assertRaisesRegex(ValueError, "the test lost_test names no program of /b"):
            dealt_programs.deal({"lost_test": ["/bin/true"]}, Path("/b"), 1, 1, {})

    def test_two_tests_that_would_write_one_report_are_an_error(self):
        with self.assertRaisesRegex(ValueError, "the tests csv_test and csv_test_again run one program under one name"):
            dealt_programs.deal({"csv_test": ["/b/csv_test"], "csv_test_again": ["/b/csv_test"]}, Path("/b"), 1, 1, {})

    def test_a_link_stands_for_its_program_also_before_that_is_built(self):
        with tempfile.TemporaryDirectory() as folder:
            build = Path(folder).resolve()
            (build / "csv_test_again").symlink_to("csv_test")
            commands = {name: [f"{build}/{name}"] for name in ("csv_test", "csv_test_again")}
            self.assertEqual(dealt_programs.deal(commands, build, 1, 9, {}), (list(commands), list(commands), ["csv_test"]))


class TestSummaryTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write_run(self, step, status, **results):
        run = self.folder / f"run-{step}"
        run.mkdir()
        (run / "ctest.xml").write_text(f'<testsuite><testcase name="csv_test" status="{status}"/></testsuite>')
        (run / "ctest.log").write_text(f"the log of {step}\n")
        cases = [{"name": name, "status": "RUN", "result": "COMPLETED"} | ({} if passed else {"failures": ["no"]})
                 for name, passed in results.items()]
        (run / "csv_test.json").write_text(json.dumps({"testsuites": [{"name": "Csv", "testsuite": cases}]}))

    def summary(self):
        with contextlib.redirect_stdout(io.StringIO()) as output:
            status = test_summary.main(self.folder)
        return status, output.getvalue().splitlines()

    def test_adds_up_all_runs(self):
        self.write_run("changed", "run", Reads=True)
        self.write_run("tests", "run", Reads=True, Writes=True)
        self.assertEqual(self.summary(), (0, ["3 passed, 0 failed"]))

    def test_a_failure_in_the_first_of_two_runs_counts(self):
        self.write_run("changed", "fail", Reads=False)
        self.write_run("tests", "run", Reads=True)
        status, lines = self.summary()
        self.assertEqual(status, 1)
        self.assertIn("the log of changed", lines)
        self.assertEqual(lines[-2:], ["failed   csv_test: Csv.Reads", "1 passed, 1 failed"])

    def test_a_program_that_crashed_after_its_cases_failed(self):
        self.write_run("tests", "fail", Reads=True)
        status, lines = self.summary()
        self.assertEqual((status, lines[-1]), (1, "1 passed, 1 failed"))

    def test_a_report_that_two_programs_wrote_is_a_failure_of_its_own(self):
        self.write_run("tests", "run", Reads=True)
        with open(self.folder / "run-tests" / "csv_test.json", "a") as report:
            report.write("}")
        status, lines = self.summary()
        self.assertEqual((status, lines[-1]), (1, "0 passed, 1 failed"))
        self.assertRegex(lines[-2], r"failed   csv_test: its report can be read \(Extra data")

    def test_a_run_of_which_ctest_wrote_nothing_failed(self):
        self.write_run("changed", "run", Reads=True)
        run = self.folder / "run-tests"
        run.mkdir()
        (run / "ctest.log").write_text("no such preset\n")
        status, lines = self.summary()
        self.assertEqual((status, lines[-1]), (1, "1 passed, 1 failed"))
        self.assertIn("no such preset", lines)


if __name__ == "__main__":
    unittest.main()
