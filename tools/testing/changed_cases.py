"""Which cases of the tests have changed: `python3 tools/testing/changed_cases.py BUILD SINCE NAME...`.

BUILD is the folder of a build, which has made the test programs; NAMEs are tests, as CTest calls them. Prints two lines: the names
of those tests with cases that have changed since the commit SINCE, with "|" between them, and GoogleTest's filter of these cases. A
line that has changed inside a case stands for that case, one that the cases of a file share for all of them; an inclusion, a comment
or an empty line for none. A file that a program has no case in, such as one with what several tests share, stands for no case.
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


def counts(line):
    """Whether a change of this line can change what a test does."""
    return re.match(r"\s*(//.*|#\s*include\b.*)?$", line) is None


def changed_lines(diff):
    """{file: the lines of it that have changed}, by what `git diff -U0` prints; 7.5 where some have gone between 7 and 8."""
    lines, file, at = {}, None, 0
    for line in diff.splitlines():
        if line.startswith("+++ "):
            file = line.removeprefix("+++ b/")
        elif hunk := re.match(r"@@ -\S+ \+(\d+)(,0)? ?", line):
            at = int(hunk[1]) + (0.5 if hunk[2] else 0)
        elif line.startswith("+"):
            if counts(line[1:]):
                lines.setdefault(file, set()).add(at)
            at += 1
        elif line.startswith("-") and not line.startswith("--- ") and counts(line[1:]):
            lines.setdefault(file, set()).add(at)
    return lines


def changed_first_lines(text, lines):
    """The lines in which the cases of a source begin that have changed lines; None, which is all, where others have changed."""
    bodies, first = [], None
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(r"(TYPED_)?TEST(_[FP])?\(", line):
            first = number
        if first is not None and line.startswith("}"):
            bodies.append((first, number))
            first = None
    found = set()
    for line in lines:
        inside = [first for first, last in bodies if first <= line <= last]
        if not inside and isinstance(line, int):  # what has gone between cases can change none of them
            return None
        found.update(inside)
    return found


def changed_files_since(commit):
    """{file of the tests: what changed_first_lines says of it}, of what has changed since the commit; not where that is nothing."""
    # What readers are tested with need not be UTF-8.
    diff = subprocess.run(["git", "diff", "--unified=0", "--no-color", "--find-renames", commit, "HEAD", "--", "tests"], check=True,
                          capture_output=True, encoding="utf-8", errors="replace").stdout
    found = {file: changed_first_lines(pathlib.Path(file).read_text(), lines)
             for file, lines in changed_lines(diff).items() if file.endswith((".cc", ".cu", ".h")) and pathlib.Path(file).exists()}
    return {file: first_lines for file, first_lines in found.items() if first_lines != set()}


def programs_with(changed, build):
    """The test programs of a build with one of these sources, each with those that it has."""
    return changed_programs(changed, (pathlib.Path(build) / "test_sources.txt").read_text().split())


def source_of(path, root):
    """The path in the project of a file as the compiler was given it: relative to the build or to the project, or absolute."""
    return re.sub(r"^(\.\./)+", "", path.removeprefix(f"{root}/"))


def patterns(listing, changed, root):
    """GoogleTest's patterns of the changed cases. `listing` is what --gtest_list_tests writes as JSON; `changed` is {file: the first
    lines of its changed cases, or None for all}.

    One pattern stands for a whole suite, or for all values of a parameter: the filter has to fit into an environment variable.
    """
    def has_changed(case):
        file = source_of(case["file"], root)
        return file in changed and (changed[file] is None or int(case["line"]) in changed[file])

    found = set()
    for suite in listing["testsuites"]:
        cases = suite["testsuite"]
        if all(has_changed(case) for case in cases):
            found.add(f"{suite['name']}.*")
        else:
            found |= {f"{suite['name']}.{re.sub('/.*', '/*', case['name'])}" for case in cases if has_changed(case)}
    return found


def list_cases(command):
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "cases.json"
        subprocess.run([*command, "--gtest_list_tests", f"--gtest_output=json:{file}"], check=True, stdout=subprocess.DEVNULL)
        return json.loads(file.read_text())


def main(build, since, *names):
    root = pathlib.Path.cwd()
    changed = changed_files_since(since)
    programs = programs_with(changed, build)
    shown = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], check=True, capture_output=True, text=True)
    found, cases = set(), set()
    for test in json.loads(shown.stdout)["tests"]:
        # Two tests may run one program, one of them by a link to it.
        program = pathlib.Path(test["command"][0]).resolve().name if "command" in test else ""
        if test["name"] in names and program in programs:
            if in_changed := patterns(list_cases(test["command"]), changed, root):
                found.add(test["name"])
                cases |= in_changed
    print("|".join(sorted(found)))
    print(":".join(sorted(cases)))


if __name__ == "__main__":
    main(*sys.argv[1:])
