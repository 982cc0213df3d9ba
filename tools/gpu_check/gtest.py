"""What a GoogleTest program prints, read line by line: its report in a file is lost when the program crashes."""
import re
from dataclasses import dataclass, field

SAID = 12  # lines that are kept of what a test prints
BEGINS = re.compile(r"\[ RUN      \] (\S+)$")
# Other lines with these words only count or repeat; only a test's own ends in its time.
ENDS = re.compile(r"\[ *(OK|FAILED|SKIPPED) *\] ([^\s,]+)(?:, where .*)? \((\d+) ms\)$")
OF_THE_PROGRAM = re.compile(r"^(\[|Running main|Note: )")
RESULTS = {"OK": "ok", "FAILED": "failed", "SKIPPED": "skipped"}


@dataclass
class Results:
    """Of one run of a program."""
    tests: dict = field(default_factory=dict)  # {name: {"result", "ms", "said"}}
    said: list = field(default_factory=list)  # outside of tests, such as the reason why an environment skips all of them

    def count(self, result):
        return sum(test["result"] == result for test in self.tests.values())

    def failures(self):
        return {name: test.get("said", []) for name, test in self.tests.items() if test["result"] == "failed"}


class Parser:
    def __init__(self):
        self.results = Results()
        self.running = None  # the name of the test that has begun and not ended
        self._said = []

    def read(self, line):
        """Returns whether a test has ended."""
        begins, ends = BEGINS.search(line), ENDS.search(line)
        if begins:
            if self.running:  # the line of a failed test that ends in a parameter of several lines
                self._end(RESULTS["FAILED"], None)
            self.running, self._said = begins[1], []
        elif ends and ends[2] == self.running:
            self._end(RESULTS[ends[1]], int(ends[3]))
            return True
        elif self.running:
            self._said.append(line.strip()[:300])
        elif line.strip() and not OF_THE_PROGRAM.match(line) and len(self.results.said) < SAID:
            self.results.said.append(line.strip()[:300])
        return False

    def close(self, why):
        """The program has ended, for this reason; the test that was running then has failed."""
        if self.running:
            self._said.insert(0, why)
            self._end("failed", None)

    def _end(self, result, milliseconds):
        test = {"result": result, "ms": milliseconds}
        if result != "ok" and self._said:
            test["said"] = [line for line in self._said if line][:SAID]
        self.results.tests[self.running] = test
        self.running = None


def list_suites(listing):
    """{suite: number of tests} of what --gtest_list_tests prints."""
    suites, suite = {}, None
    for line in listing.splitlines():
        if re.match(r"\S+\.(\s|$)", line):
            suite = line.split()[0]
            suites[suite] = 0
        elif suite and line.startswith("  "):
            suites[suite] += 1
    return suites
