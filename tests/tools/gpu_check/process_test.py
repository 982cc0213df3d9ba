"""Programs that tools/gpu-check runs, and the PyTorch peer."""
import os
import sys
import tempfile
import time
import unittest
from pathlib import Path

from programs import ROOT

from gpu_check import process, training
from gpu_check.kit import Clock

TINY = ["--device", "cpu", "--eager", "--layers", "2", "--dim", "16", "--heads", "2", "--vocab", "256", "--seq", "16",
        "--micro-batch", "2", "--micro-batches", "2", "--steps", "3", "--warmup", "1"]


class Processes(unittest.TestCase):
    def test_what_does_not_end_is_ended_with_all_that_it_started(self):
        with tempfile.NamedTemporaryFile() as file:
            outcome = process.run(["sh", "-c", f"sleep 600 & echo $! > {file.name}; wait"], 5)
            self.assertTrue(outcome.timed_out)
            child = int(Path(file.name).read_text())
        for _ in range(200):  # it is reaped by whoever inherits it
            stat = Path(f"/proc/{child}/stat")
            if not stat.exists() or stat.read_text().rsplit(")", 1)[1].split()[0] == "Z":
                break
            time.sleep(0.05)
        else:
            self.fail("the child lives")

    def test_one_that_fails_ends_the_others(self):
        outcomes = process.run_together([(["sh", "-c", "exit 5"], {}), (["sleep", "100000"], {})], 90000)
        self.assertEqual(outcomes[0].code, 5)
        self.assertFalse(outcomes[1].ok)

    def test_a_program_that_is_missing_is_an_outcome(self):
        outcome = process.run(["/nowhere/program"], 5)
        self.assertEqual(outcome.code, 127)

    def test_lines_come_before_the_program_ends(self):
        lines = []
        outcome = process.run(["sh", "-c", "echo first; sleep 600"], 1,
                              on_line=lambda line: lines.append((line, time.monotonic())))
        self.assertTrue(outcome.timed_out)
        self.assertEqual(([line for line, _ in lines], outcome.out), (["first"], "first\n"))
        self.assertLess(lines[0][1], time.monotonic() - 0.5)

    def test_a_grandchild_that_holds_the_pipe_keeps_nobody_waiting(self):
        outcome = process.run(["sh", "-c", "echo said; setsid sleep 20 & exit 3"], 60)
        self.assertEqual((outcome.code, outcome.out), (3, "said\n"))
        self.assertLess(outcome.seconds, 15)

    def test_items_are_done_several_at_once_while_there_is_time(self):
        done = []
        self.assertEqual(process.each(range(5), done.append, 3, Clock(60)), [])
        self.assertEqual(sorted(done), [0, 1, 2, 3, 4])
        self.assertEqual(process.each(range(5), done.append, 3, Clock(0)), [0, 1, 2, 3, 4])

    def test_an_error_of_an_item_is_not_lost(self):
        with self.assertRaises(ZeroDivisionError):
            process.each([1, 0], lambda item: 1 / item, 2, Clock(60))


class Peer(unittest.TestCase):
    def test_learns_and_reports_each_step(self):
        python = os.environ.get("SLUICE_PYTHON", sys.executable)
        if not process.run([python, "-c", "import torch"], 120).ok:
            self.skipTest(f"{python} has no PyTorch; SLUICE_PYTHON names another")
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as data:
            data.write("to be or not to be, that is the question. " * 100)
            data.flush()
            outcome = process.run([python, ROOT / "tools" / "gpu_check" / "torch_peer.py", "--data", data.name, *TINY], 300)
        self.assertTrue(outcome.ok, outcome.err)
        *steps, report = training.lines(outcome.out)
        self.assertEqual([step["step"] for step in steps], [1, 2, 3, 4])
        self.assertLess(steps[-1]["loss"], steps[0]["loss"])
        self.assertEqual((report["loss"], report["tied"], report["compiled"]), (steps[-1]["loss"], True, False))
        self.assertEqual(report["step_s_min"], min(step["step_seconds"] for step in steps[1:]))


if __name__ == "__main__":
    unittest.main()
