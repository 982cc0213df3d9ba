"""The parts that run test programs: a process per suite, so that a crash or a time-out costs one suite."""
from dataclasses import dataclass

from gpu_check import gtest, process
from gpu_check.kit import DEVICE_TESTS, KERNEL_TESTS, Skip

AS_CTEST = {"OMP_NUM_THREADS": "1"}
SUITE_LIMIT = 120  # seconds
LIST_LIMIT = 30
NOTES = 20  # failures that are printed; the file has them all


@dataclass(frozen=True)
class Suite:
    program: str
    suite: str  # ends in a dot; empty: the whole program
    size: int

    @property
    def name(self):
        return f"{self.program} {self.suite[:-1]}".strip()


def list_suites(kit, programs, clock):
    """The largest ones first, since they take longest and others fill the time beside them."""
    found = []
    for program in programs:
        if program in kit.tests:
            listed = process.run([kit.tests[program], "--gtest_list_tests"], min(LIST_LIMIT, clock.left()))
            suites = gtest.list_suites(listed.out) if listed.ok else {}
            # One that cannot list its tests is run as a whole, and says why it cannot.
            found += [Suite(program, name, size) for name, size in suites.items()] or [Suite(program, "", 0)]
    if not found:
        raise Skip("there are no such tests in this folder")
    return sorted(found, key=lambda suite: -suite.size)


def describe(row):
    words = [f"{row['passed']} passed", f"{row['failed']} failed", f"{row['skipped']} skipped"]
    counts = ", ".join(word for word in words if not word.startswith("0 "))
    return counts or row.get("error") or "no test has run"


def make_row(results, seconds, complete):
    return {"complete": complete, "passed": results.count("ok"), "failed": results.count("failed"),
            "skipped": results.count("skipped"), "seconds": round(seconds, 1), "tests": results.tests, "said": results.said}


def run_suite(kit, rows, clock, suite, before=()):
    """Writes the suite's row after every test; returns how the program ended and the row."""
    parser = gtest.Parser()

    def read(line):
        if parser.read(line):
            rows.put(suite.name, make_row(parser.results, 0, False))

    command = [*before, kit.tests[suite.program], f"--gtest_filter={suite.suite}*"]
    outcome = process.run(command, min(SUITE_LIMIT, clock.left()), AS_CTEST, on_line=read)
    cut = outcome.timed_out and clock.is_up()  # by the part's time, which says nothing about the test
    if not outcome.ok and not cut:
        parser.close(": ".join([outcome.how(), *outcome.tail()[-1:]]))
    row = make_row(parser.results, outcome.seconds, not cut)
    if cut:
        return outcome, row
    if not outcome.ok and not row["failed"]:
        row["error"] = outcome.why()
    elif row["failed"]:
        row["error"] = f"{row['failed']} tests failed"
    return outcome, row


def failure_notes(results):
    """One line for each failed test, or for a suite that failed otherwise."""
    notes = []
    for name, row in results.items():
        failed = {test: entry.get("said", []) for test, entry in row["tests"].items() if entry["result"] == "failed"}
        notes += [f"{test}: {' '.join(said[:4])[:300]}" for test, said in failed.items()]
        if row.get("error") and not failed:
            notes.append(f"{name}: {row['error']}")
    return notes[:NOTES] + ([f"{len(notes) - NOTES} more failures are in the file"] if len(notes) > NOTES else [])


def why_skipped(results, program):
    """What the program or its first skipped test said."""
    rows = [row for name, row in results.items() if name.split()[0] == program]
    said = [row["said"] for row in rows] + [test.get("said", []) for row in rows for test in row["tests"].values()]
    return next((f": {' '.join(lines[:3])[:300]}" for lines in said if lines), "")


def summarize(results, not_reached):
    total = {key: sum(row[key] for row in results.values()) for key in ("passed", "failed", "skipped")}
    wrong = [name for name, row in results.items() if row.get("error")]
    # There is a GPU here, so a program that has run no test has tried nothing.
    tried = {name.split()[0] for name, row in results.items() if row["passed"] + row["failed"]}
    unknown = {name.split()[0] for name in not_reached}
    idle = {name.split()[0] for name, row in results.items() if not row.get("error")} - tried - unknown
    notes = [f"{program}: all of it was skipped{why_skipped(results, program)}" for program in sorted(idle)]
    notes += failure_notes(results)
    return {"ok": not wrong and not idle, **total, "not_reached": not_reached, "notes": notes,
            "summary": f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped"}


def run_tests(kit, rows, clock, programs):
    results, cut = {}, []

    def task(suite):
        row = rows.known(suite.name)
        if row is None:
            _, row = run_suite(kit, rows, clock, suite)
            if not row["complete"]:
                cut.append(suite.name)
            rows.put(suite.name, row, f"{suite.name}: {describe(row)}")
        results[suite.name] = row

    missed = process.each(list_suites(kit, programs, clock), task, kit.jobs, clock)
    return summarize(results, cut + [suite.name for suite in missed])


def conformance(kit, clock, rows):
    """CUDA's devices, and NCCL between as many GPUs as there are."""
    return run_tests(kit, rows, clock, DEVICE_TESTS)


def kernels(kit, clock, rows):
    """Every CUDA kernel against the CPU's, a process per suite."""
    return run_tests(kit, rows, clock, KERNEL_TESTS)
