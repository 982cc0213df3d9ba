"""Which cases of the tests stand in changed sources: `python3 tools/changed_cases.py BUILD SINCE NAME...`.

BUILD is the folder of a build, which has made the test programs; NAMEs are tests, as CTest calls them. Prints two lines: the names
of those tests with cases in files that have changed since the commit SINCE, with "|" between them, and GoogleTest's filter of these
cases. A file that a program has no case in, such as one with what several tests share, stands for no case.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile


def changed_programs(changed, sources):
    """{program: its changed files}, by the lines SOURCE:PROGRAM that tests/CMakeLists.txt writes."""
    programs = {}
    for line in sources:
        source, program = line.rsplit(":", 1)
        if source in changed:
            programs.setdefault(program, set()).add(source)
    return programs


def changed_since(commit, build):
    """The test programs of a build with a source that has changed since the commit, each with these sources."""
    changed = subprocess.run(["git", "diff", "--name-only", commit, "HEAD", "--", "tests"], check=True, capture_output=True,
                             text=True).stdout.splitlines()
    return changed_programs(set(changed), (pathlib.Path(build) / "test_sources.txt").read_text().split())


def source_of(path, root):
    """The path in the project of a file as the compiler was given it: relative to the build or to the project, or absolute."""
    return re.sub(r"^(\.\./)+", "", path.removeprefix(f"{root}/"))


def patterns(listing, changed, root):
    """GoogleTest's patterns of the cases in the files `changed`; `listing` is what --gtest_list_tests writes as JSON.

    One pattern stands for a whole suite, or for all values of a parameter: the filter has to fit into an environment variable.
    """
    suites = {suite["name"]: [(case["name"], source_of(case["file"], root)) for case in suite["testsuite"]]
              for suite in listing["testsuites"]}
    found = set()
    for suite, cases in suites.items():
        if all(file in changed for _, file in cases):
            found.add(f"{suite}.*")
        else:
            found |= {f"{suite}.{re.sub('/.*', '/*', name)}" for name, file in cases if file in changed}
    return found


def list_cases(command):
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "cases.json"
        subprocess.run([*command, "--gtest_list_tests", f"--gtest_output=json:{file}"], check=True, stdout=subprocess.DEVNULL)
        return json.loads(file.read_text())


def main(build, since, *names):
    root = pathlib.Path.cwd()
    programs = changed_since(since, build)
    shown = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], check=True, capture_output=True, text=True)
    found, cases = set(), set()
    for test in json.loads(shown.stdout)["tests"]:
        # Two tests may run one program.
        program = pathlib.Path(test["command"][0]).name if "command" in test else ""
        if test["name"] in names and program in programs:
            if in_changed := patterns(list_cases(test["command"]), programs[program], root):
                found.add(test["name"])
                cases |= in_changed
    print("|".join(sorted(found)))
    print(":".join(sorted(cases)))


if __name__ == "__main__":
    main(*sys.argv[1:])
