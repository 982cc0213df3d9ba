"""Deals the test programs out into parts: `python3 tools/testing/dealt_programs.py BUILD K/N SINCE NAME...`.

BUILD is the folder of a build that is configured; NAMEs are tests, as CTest calls them. Prints three lines, with spaces between
names: the tests in the K-th of N parts; those and the tests with a source that has changed since the commit SINCE (empty: none);
and the targets of the build that the latter run. Tests that run one program are in one part.
"""

import pathlib
import re
import shlex
import sys

import changed_cases


def commands_of(build):
    """{test: its command}, by the files that CTest reads. (What CTest prints has no command of a program that is not built.)"""
    return {name: shlex.split(command)
            for file in build.rglob("CTestTestfile.cmake")
            for name, command in re.findall(r"^add_test\(\[=*\[(.*?)\]=*\] (.*)\)$", file.read_text(), re.MULTILINE)}


def targets_of(command, build):
    """The targets that a test runs: a program of its own, or those that a script is given; no folders that flags name."""
    return [pathlib.Path(word).resolve().name for before, word in zip(["", *command], command)
            if word.startswith(f"{build}/") and not before.startswith("--")]


def deal(commands, build, part, parts, changed):
    """(names in the part, names to build, targets) of the tests; `changed` are programs to build at any rate."""
    programs = {name: targets_of(command, build) for name, command in commands.items()}
    for name, targets in programs.items():
        if not targets:
            raise ValueError(f"the test {name} names no program of {build}: its command has to")
    for name, command in commands.items():
        same = [other for other in commands if commands[other] == command]
        if same != [name]:
            raise ValueError(f"the tests {' and '.join(same)} run one program under one name, so that their reports would be one file: "
                             "sluice_test_again makes another name")
    first = sorted({targets[0] for targets in programs.values()})
    dealt = {program for number, program in enumerate(first) if number % parts == part - 1}
    chosen = [name for name, targets in programs.items() if targets[0] in dealt]
    built = [name for name, targets in programs.items() if targets[0] in dealt or targets[0] in changed]
    return chosen, built, sorted({target for name in built for target in programs[name]})


def main(build, part, since, *names):
    build = pathlib.Path(build).resolve()
    part, parts = map(int, part.split("/"))
    known = commands_of(build)
    commands = {name: known[name] for name in names}
    changed = changed_cases.programs_with(changed_cases.changed_files_since(since), build) if since else {}
    for line in deal(commands, build, part, parts, changed):
        print(" ".join(line))


if __name__ == "__main__":
    main(*sys.argv[1:])
