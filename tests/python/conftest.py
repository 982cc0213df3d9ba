"""What the tests of the Python package share: the command line that it must agree with."""

import os
import subprocess

import pytest


class CommandLine:
    """`sluice`, as people run it."""

    def __init__(self, binary):
        self.binary = binary

    def run(self, *words):
        """(exit code, stdout, stderr)."""
        done = subprocess.run(
            [self.binary, *words], capture_output=True, text=True, timeout=300, check=False
        )
        return done.returncode, done.stdout, done.stderr

    def output(self, *words):
        """stdout of a command that must succeed."""
        code, out, err = self.run(*words)
        assert code == 0, err
        return out


@pytest.fixture(scope="session")
def command_line():
    binary = os.environ.get("SLUICE_BINARY")
    assert binary, "SLUICE_BINARY must name the program that the package is compared with"
    return CommandLine(binary)
