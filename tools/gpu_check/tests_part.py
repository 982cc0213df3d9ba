"""The parts that run test programs: their own reports say what passed."""
import json
import shutil
from pathlib import Path

from gpu_check import process
from gpu_check.kit import Skip

MEMCHECK_ERRORS = 9  # the exit code that compute-sanitizer is told to use
AS_CTEST = {"OMP_NUM_THREADS": "1"}
# Kernels of cuBLASLt, or many runs of kernels that other suites run once.
NOT_CHECKED = ("Linear", "Determinism", "Bits")


def never_began(case):
    """A program whose environment skips all its tests reports them too, but without times."""
    return case.get("timestamp", "").startswith("1970-")


def read_report(path):
    """{"passed", "failed", "skipped", "failures": [name: first line]} of GoogleTest's JSON."""
    counts = {"passed": 0, "failed": 0, "skipped": 0, "failures": []}
    for suite in json.loads(Path(path).read_text())["testsuites"]:
        for case in suite["testsuite"]:
            if case.get("failures"):
                counts["failed"] += 1
                first = case["failures"][0]["failure"].strip().splitlines()
                counts["failures"].append(f"{suite['name']}.{case['name']}: {' '.join(first[:4])[:300]}")
            elif case.get("result") == "SKIPPED" or case.get("status") == "NOTRUN" or never_began(case):
                counts["skipped"] += 1
            else:
                counts["passed"] += 1
    return counts


def run_test(kit, name, clock, before=(), arguments=()):
    report = kit.scratch / f"{name}.json"
    report.unlink(missing_ok=True)
    outcome = process.run([*before, kit.tests[name], f"--gtest_output=json:{report}", *arguments], clock.left(), AS_CTEST)
    counts = {"passed": 0, "failed": 0, "skipped": 0, "failures": []}
    if report.is_file():
        counts = read_report(report)
    # A program that crashed, or did not end in time, has written no report.
    if not outcome.ok and not counts["failed"]:
        counts["failed"] += 1
        counts["failures"].append(f"{name}: {outcome.why()}")
    return {"name": name, "seconds": round(outcome.seconds, 1), **counts}


def run_tests(kit, names, clock, before=(), arguments=()):
    if not names:
        raise Skip("there are no such tests in this folder")
    results = [run_test(kit, name, clock, before, arguments) for name in names]
    total = {key: sum(result[key] for result in results) for key in ("passed", "failed", "skipped")}
    # There is a GPU here, so a program that has run no test has tested nothing.
    idle = [f"{result['name']}: all of it was skipped" for result in results if not result["passed"] + result["failed"]]
    return {"ok": total["failed"] == 0 and not idle, **total, "tests": results,
            "summary": f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped",
            "notes": idle + [failure for result in results for failure in result["failures"]][:20]}


def of_kernels(name):
    return "cuda" in name


def conformance(kit, clock):
    """The suite of all transports, over NCCL, and training on devices."""
    return run_tests(kit, [name for name in kit.tests if not of_kernels(name)], clock)


def kernels(kit, clock):
    """Every CUDA kernel against the CPU's."""
    return run_tests(kit, [name for name in kit.tests if of_kernels(name)], clock)


def find_sanitizer():
    for folder in ("", "/usr/local/cuda/bin/", "/usr/local/cuda/compute-sanitizer/"):
        found = shutil.which(folder + "compute-sanitizer")
        if found:
            return found
    raise Skip("there is no compute-sanitizer on PATH or in /usr/local/cuda")


def suites(kit, name, clock):
    """Names of a program's test suites, the longest-running (attention) last."""
    listed = process.run([kit.tests[name], "--gtest_list_tests"], clock.left()).out.splitlines()
    found = [line.split("#")[0].strip() for line in listed if line and not line.startswith((" ", "Running"))]
    return sorted((suite for suite in found if not any(word in suite for word in NOT_CHECKED)),
                  key=lambda suite: ("Attention" in suite, suite))


def sanitizer(kit, clock):
    """compute-sanitizer's memcheck over the kernel tests, suite by suite as long as there is time."""
    before = [find_sanitizer(), "--tool", "memcheck", "--error-exitcode", str(MEMCHECK_ERRORS)]
    wanted = [(name, suite) for name in kit.tests if of_kernels(name) for suite in suites(kit, name, clock)]
    if not wanted:
        raise Skip("there are no such tests in this folder")
    results, not_reached = [], []
    for name, suite in wanted:
        if clock.left() < 5:
            not_reached.append(f"{name} {suite}")
            continue
        results.append(run_test(kit, name, clock, before, [f"--gtest_filter={suite}*"]))
    failures = [failure for result in results for failure in result["failures"]]
    notes = failures[:20] + ([f"not reached: {', '.join(not_reached)}"] if not_reached else [])
    clean = sum(not result["failed"] for result in results)
    return {"ok": not failures and bool(results), "suites": len(wanted), "clean": clean, "not_reached": not_reached,
            "tests": results, "notes": notes, "summary": f"{clean} of {len(wanted)} suites without an error"}
