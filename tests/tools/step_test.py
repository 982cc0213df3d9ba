"""tools/step.py, with commands that only count."""

import os
import pty
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

STEP = Path(__file__).resolve().parents[2] / "tools" / "step.py"
COUNTS = "for i in 1 2 3; do echo \"[$i/3] Building part$i.o\"; done; echo a-warning; exit "


class StepTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.log = Path(folder.name) / "build.log"

    def command(self, status, *options):
        return [sys.executable, STEP, *options, "build", self.log, "bash", "-c", COUNTS + str(status)]

    def run_step(self, status, *options):
        return subprocess.run(self.command(status, *options), capture_output=True, text=True, timeout=60)

    def test_what_succeeds_is_one_line(self):
        result = self.run_step(0)
        self.assertEqual(result.returncode, 0)
        self.assertRegex(result.stdout, r"\Abuild +\d+ s\n\Z")
        self.assertEqual(result.stderr, "")
        self.assertIn("a-warning", self.log.read_text())

    def test_what_fails_shows_its_output(self):
        result = self.run_step(3)
        self.assertEqual(result.returncode, 3)
        self.assertEqual(result.stdout, "")
        self.assertIn("a-warning", result.stderr)
        self.assertIn("'build' failed: bash -c", result.stderr)

    def test_a_caller_that_reads_the_log_is_not_shown_it(self):
        result = self.run_step(3, "--silent-failure")
        self.assertEqual(result.returncode, 3)
        self.assertRegex(result.stdout, r"\Abuild +\d+ s\n\Z")
        self.assertEqual(result.stderr, "")

    def test_a_terminal_sees_how_far_it_is(self):
        ours, theirs = pty.openpty()
        with subprocess.Popen(self.command(0), stdout=theirs, stderr=theirs) as process:
            os.close(theirs)
            shown = b""
            while chunk := self.read(ours):
                shown += chunk
        os.close(ours)
        self.assertEqual(process.returncode, 0)
        self.assertIn(f"\rbuild      2 of 3 (log: {self.log})"[:60], shown.decode())

    @staticmethod
    def read(terminal):
        try:
            return os.read(terminal, 4096)
        except OSError:  # All descriptors of the other side are closed.
            return b""


if __name__ == "__main__":
    unittest.main()
