"""Adds up a test run: `python3 tools/test_summary.py FOLDER`, where FOLDER holds the reports that tools/test asked for.

`ctest-*.xml` is CTest's JUnit report: one entry a binary. `NAME.json` is GoogleTest's report of the binary NAME: one
entry a case. A binary that failed without a failing case in its report (a crash, a time-out, a sanitizer's complaint)
counts as one failure. Prints what failed and what was skipped and why; the last line is `N passed, N failed`.
"""

import json
import pathlib
import sys
import xml.etree.ElementTree


def read_cases(folder):
    """The cases of every binary: {binary: [(case, 'passed' | 'failed' | 'skipped', why)]}."""
    cases = {}
    for path in sorted(folder.glob("*.json")):
        binary = cases.setdefault(path.stem, [])
        for suite in json.loads(path.read_text()).get("testsuites", []):
            for test in suite.get("testsuite", []):
                name = f"{suite['name']}.{test['name']}"
                if test.get("result") == "SKIPPED":
                    why = test.get("skipped", [{}])[0].get("message", "")
                    binary.append((name, "skipped", why.strip().split("\n")[-1]))
                elif test.get("failures"):
                    binary.append((name, "failed", ""))
                elif test.get("status") == "RUN":
                    binary.append((name, "passed", ""))
    return cases


def read_binaries(folder):
    """What CTest says of every binary: {binary: (passed, why not)}."""
    binaries = {}
    for path in sorted(folder.glob("ctest-*.xml")):
        for test in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
            failure = test.find("failure")
            why = failure.get("message", "failed") if failure is not None else test.get("status")
            binaries[test.get("name")] = (test.get("status") == "run", why)
    return binaries


def main(folder):
    cases = read_cases(folder)
    count = {"passed": 0, "failed": 0, "skipped": 0}
    lines = []
    for binary, (passed, why) in read_binaries(folder).items():
        results = cases.get(binary, [])
        if binary not in cases:
            # Not a GoogleTest binary, or one that did not live to write its report.
            count["passed" if passed else "failed"] += 1
        elif not passed and not any(result == "failed" for _, result, _ in results):
            count["failed"] += 1
        if not passed and not any(result == "failed" for _, result, _ in results):
            lines.append(f"FAILED  {binary}: {why}")
        for name, result, reason in results:
            count[result] += 1
            if result == "failed":
                lines.append(f"FAILED  {binary}: {name}")
            elif result == "skipped":
                lines.append(f"skipped {binary}: {name}{': ' + reason if reason else ''}")
    print("\n".join(sorted(lines)), end="\n" if lines else "")
    ran = count["passed"] + count["failed"] + count["skipped"]
    if ran == 0:
        print("no test ran: does the filter match anything?")
    skipped = f", {count['skipped']} skipped" if count["skipped"] else ""
    print(f"{count['passed']} passed, {count['failed']} failed{skipped}")
    return 1 if count["failed"] or ran == 0 else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
