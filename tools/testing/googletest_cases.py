"""Runs the cases of a Python test as GoogleTest runs those of a binary: only those that GTEST_FILTER matches, of these the part
GTEST_SHARD_INDEX of GTEST_TOTAL_SHARDS, and with the report that GTEST_OUTPUT asks for. So tools/test deals them out and counts them.
"""
import fnmatch
import json
import os
import pathlib
import sys
import time
import unittest


def flat(suite):
    """The cases of a suite and of the suites in it."""
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from flat(test)
        else:
            yield test


def name_of(case):
    return '.'.join(case.id().split('.')[-2:])


def matches(name, given):
    """Whether GoogleTest's filter has a case: patterns with ":" between them, and after "-" those of what it leaves out."""
    wanted, _, unwanted = given.partition('-')

    def matches_one_of(patterns):
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns.split(':'))

    return matches_one_of(wanted or '*') and not matches_one_of(unwanted)


def chosen(cases, variables):
    """Those of the cases that the variables of GoogleTest ask for."""
    cases = [case for case in cases if matches(name_of(case), variables.get('GTEST_FILTER', '*'))]
    parts = int(variables.get('GTEST_TOTAL_SHARDS', 1))
    return cases[int(variables.get('GTEST_SHARD_INDEX', 0)) % parts::parts]


class Result(unittest.TextTestResult):
    """Also keeps what became of each case and how long it took, as GoogleTest's report has it."""

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.cases = {}

    def startTest(self, test):
        super().startTest(test)
        self.started = time.monotonic()
        self.entry(test)

    def stopTest(self, test):
        super().stopTest(test)
        self.entry(test)['time'] = f'{time.monotonic() - self.started:.3f}s'

    def entry(self, test):
        """That of a case; of a part of a case (subTest) that of the case; of what comes before the cases of a class one of its own."""
        name = name_of(getattr(test, 'test_case', test))
        return self.cases.setdefault(name, {'name': name.split('.')[1], 'status': 'RUN', 'result': 'COMPLETED'})

    def fails(self, test, error):
        self.entry(test).setdefault('failures', []).append({'failure': self._exc_info_to_string(error, test)})

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.fails(test, err)

    def addError(self, test, err):
        super().addError(test, err)
        self.fails(test, err)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.fails(subtest, err)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.entry(test)['result'] = 'SKIPPED'

    def report(self):
        suites = {}
        for name, entry in self.cases.items():
            suites.setdefault(name.split('.')[0], []).append(entry)
        return {'testsuites': [{'name': suite, 'testsuite': cases} for suite, cases in suites.items()]}


class Program(unittest.TestProgram):
    def createTests(self, *arguments, **named):
        super().createTests(*arguments, **named)
        self.test = unittest.TestSuite(chosen(flat(self.test), os.environ))


def main(name, arguments):
    """Like unittest.main of the module that runs. `name`: what CTest calls it; `arguments`: those for unittest. Does not return."""
    runner = unittest.TextTestRunner(resultclass=Result, verbosity=2)
    done = Program(argv=[sys.argv[0], *arguments], testRunner=runner, exit=False)
    folder = os.environ.get('GTEST_OUTPUT', '').removeprefix('json:')
    if folder:
        pathlib.Path(folder, f'{name}.json').write_text(json.dumps(done.result.report()), encoding='utf-8')
    sys.exit(not done.result.wasSuccessful())
