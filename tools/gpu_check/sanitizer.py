"""compute-sanitizer over the tests of kernels."""
import re
import shutil

from gpu_check import process, tests_part
from gpu_check.kit import KERNEL_TESTS, Skip

TOOLS = ("memcheck", "racecheck", "initcheck")
FOUND = 9  # the exit code that compute-sanitizer is told to use where it found an error
# Kernels of cuBLASLt and cuDNN, or many runs of kernels that other suites run once.
NOT_CHECKED = ("Linear", "Determinism", "Bits", "Cudnn")
SAID = re.compile(r"^=+ (?!COMPUTE-SANITIZER)(\S.*)")  # a line of compute-sanitizer itself
CLEAN = "clean"
SUMMARY = re.compile(r"SUMMARY: 0 ")


def find_sanitizer():
    for folder in ("", "/usr/local/cuda/bin/", "/usr/local/cuda/compute-sanitizer/"):
        found = shutil.which(folder + "compute-sanitizer")
        if found:
            return found
    raise Skip("there is no compute-sanitizer on PATH or in /usr/local/cuda")


def command(tool):
    return [find_sanitizer(), "--tool", tool, "--error-exitcode", str(FOUND), "--print-limit", "5"]


def findings(outcome):
    """What compute-sanitizer itself said, but that all is well."""
    lines = [SAID.match(line) for line in f"{outcome.out}\n{outcome.err}".splitlines()]
    return [line[1].strip()[:300] for line in lines if line and not SUMMARY.search(line[1])]


def refuse_where_it_cannot_run(kit, rows, clock, suite):
    """A machine may keep tools from its GPU. No test begins then, which says nothing about the kernels, even if
    compute-sanitizer ends as if all were well: some do."""
    outcome, row = tests_part.run_suite(kit, rows, clock, suite, command(TOOLS[0]))
    if not outcome.timed_out and not row["tests"]:
        said = findings(outcome) or [outcome.why()]
        raise Skip(f"compute-sanitizer does not run here: {' '.join(said[:2])}")


def check(kit, rows, clock, suite, tool):
    outcome, row = tests_part.run_suite(kit, rows, clock, suite, command(tool))
    if outcome.timed_out:  # these tools are slow, which says nothing about the kernels
        row.update(complete=False, error="")
    elif not outcome.ok:
        row["findings"] = findings(outcome)[:20]
        row["error"] = " ".join(row["findings"][:3]) if outcome.code == FOUND else outcome.why()
    elif not row["tests"]:
        row["error"] = "no test has run"
    return row


def describe(row):
    return row.get("error") or (CLEAN if row["complete"] else f"not done after {row['seconds']:.0f} s")


def order(suites):
    """Pairs of a suite and a tool: small suites first, all tools of one before the next; attention takes longest."""
    wanted = [suite for suite in suites if not any(word in suite.suite for word in NOT_CHECKED)]
    wanted.sort(key=lambda suite: ("Attention" in suite.suite, suite.size, suite.name))
    return [(suite, tool) for suite in wanted for tool in TOOLS]


class Renamed:
    """Rows of one suite by several tools."""

    def __init__(self, rows, tool):
        self._rows, self._tool = rows, tool

    def put(self, name, row, line=""):
        self._rows.put(f"{name} {self._tool}", row, line)


def sanitizer(kit, clock, rows):
    """compute-sanitizer's memcheck, racecheck and initcheck over the tests of kernels."""
    wanted = order(tests_part.list_suites(kit, KERNEL_TESTS, clock))
    refuse_where_it_cannot_run(kit, Renamed(rows, "probe"), clock, wanted[0][0])
    results, cut = {}, []

    def task(pair):
        suite, tool = pair
        name = f"{suite.name} {tool}"
        row = rows.known(name)
        if row is None:
            row = check(kit, Renamed(rows, tool), clock, suite, tool)
            if not row["complete"]:
                cut.append(name)
            rows.put(name, row, "" if describe(row) == CLEAN else f"{name}: {describe(row)}")
        results[name] = row

    missed = process.each(wanted, task, kit.jobs, clock)
    wrong = {name: row["error"] for name, row in results.items() if row.get("error")}
    clean = sum(row["complete"] for row in results.values()) - len(wrong)
    return {"ok": not wrong, "clean": clean, "not_reached": cut + [f"{suite.name} {tool}" for suite, tool in missed],
            "notes": [f"{name}: {why}" for name, why in wrong.items()][:20],
            "summary": f"{clean} of {len(wanted)} runs of a suite without an error"}
