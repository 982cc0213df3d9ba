"""Adds up a test run: `python3 tools/testing/test_summary.py FOLDER`, where FOLDER has the reports of tools/test.

Each folder `run-*` in it is of one call of CTest: `ctest.xml` is its JUnit report, with one entry per test; `ctest.log` is its
output; `NAME.json` is GoogleTest's report of the binary NAME, with one entry per case. A binary that failed without a failing
case in its report (a crash, a time-out, an error of a sanitizer) counts as one failure. Prints the output of what failed; the
last line is `N passed, N failed`.
"""

import collections
import json
import pathlib
import re
import sys
import xml.etree.ElementTree


def read_cases(folder):
    """The cases of every binary: {binary: {case: 'passed' | 'failed' | 'skipped'}}."""
    return {path.stem: cases_of(path) for path in sorted(folder.glob("*.json"))}


def cases_of(path):
    try:
        suites = json.loads(path.read_text()).get("testsuites", [])
    except ValueError as error:  # as where two programs wrote it, or one that was killed
        return {f"its report can be read ({error})": "failed"}
    return {f"{suite['name']}.{test['name']}": case_result(test)
            for suite in suites for test in suite.get("testsuite", []) if test["status"] == "RUN"}


def case_result(test):
    if test.get("failures"):
        return "failed"
    return "skipped" if test["result"] == "SKIPPED" else "passed"


def read_binaries(folder):
    """Whether each binary passed in CTest: {binary: bool}."""
    report = folder / "ctest.xml"
    if not report.exists():  # CTest itself failed
        return {"ctest": False}
    return {test.get("name"): test.get("status") == "run" for test in xml.etree.ElementTree.parse(report).iter("testcase")}


def failing_output(log):
    """The log without the lines about what passed."""
    log = re.sub(r"^\[ RUN      \] (.*)\n\[       OK \] \1 .*\n", "", log, flags=re.MULTILINE)
    noise = r"^(\s*$|\[[-=]+\]|\[  PASSED|Running main|Internal ctest|Test project|\s*Start |.* +Passed +[\d.]+ sec$|Errors while).*\n"
    return re.sub(noise, "", log, flags=re.MULTILINE)


def read_run(folder):
    """The cases of one call of CTest: [(binary, case, 'passed' | 'failed' | 'skipped')]."""
    cases = read_cases(folder)
    entries = []
    for binary, content in read_binaries(folder).items():
        # No report of cases: not a GoogleTest binary, or one that crashed before it wrote one.
        results = cases.get(binary) or ({"it ran": "passed"} if content and binary not in cases else {})
        if not content and "failed" not in results.values():
            results = results | {"it crashed, ran out of time or failed at its end": "failed"}
        entries += [(binary, name, result) for name, result in results.items()]
    return entries


def main(folder):
    runs = sorted(folder.glob("run-*"))
    entries = [entry for run in runs for entry in read_run(run)]
    count = collections.Counter(result for _, _, result in entries)
    lines = {f"{result:7}  {binary}: {name}" for binary, name, result in entries if result != "passed"}
    if count["failed"]:
        for run in runs:
            print(failing_output((run / "ctest.log").read_text(errors="replace")))
    print("\n".join(sorted(lines)), end="\n" if lines else "")
    if not count:
        print("no test ran: does the filter match anything?")
    skipped = f", {count['skipped']} skipped" if count["skipped"] else ""
    print(f"{count['passed']} passed, {count['failed']} failed{skipped}")
    return 1 if count["failed"] or not count else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
