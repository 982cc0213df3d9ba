"""Deals the test programs out into parts: `python3 tools/dealt_programs.py BUILD K/N SINCE NAME...`.

BUILD is the folder of a build that is configured; NAMEs are tests, as CTest calls them. Prints three lines, with spaces between
names: the tests in the K-th of N parts; those and the tests with a source that has changed since the commit SINCE (empty: none);
and the targets of the build that the latter run. Tests that run one program are in one part.
"""

import json
import pathlib
import subprocess
import sys

import changed_cases


def targets_of(test, build):
    """The targets that a test runs: a program of its own, or those that a script is given as arguments."""
    return [pathlib.Path(word).name for word in test.get("command", []) if word.startswith(f"{build}/")]


def deal(tests, build, part, parts, changed):
    """(names in the part, names to build, targets) of `tests`, CTest's description; `changed` are programs to build at any rate."""
    programs = {test["name"]: targets_of(test, build) for test in tests}
    for name, targets in programs.items():
        if not targets:
            raise ValueError(f"the test {name} names no program of {build}: its command has to")
    first = sorted({targets[0] for targets in programs.values()})
    dealt = {program for number, program in enumerate(first) if number % parts == part - 1}
    chosen = [name for name, targets in programs.items() if targets[0] in dealt]
    built = [name for name, targets in programs.items() if targets[0] in dealt or targets[0] in changed]
    return chosen, built, sorted({target for name in built for target in programs[name]})


def main(build, part, since, *names):
    build = pathlib.Path(build).resolve()
    part, parts = map(int, part.split("/"))
    shown = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], check=True, capture_output=True, text=True)
    tests = [test for test in json.loads(shown.stdout)["tests"] if test["name"] in names]
    for line in deal(tests, build, part, parts, changed_cases.changed_since(since, build) if since else {}):
        print(" ".join(line))


if __name__ == "__main__":
    main(*sys.argv[1:])
