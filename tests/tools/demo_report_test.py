"""The calculations of tools/demo, on a plan and a trace of today's program.

    python3 demo_report_test.py build/strict/tools/sluice
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

REPORT = pathlib.Path(__file__).resolve().parents[2] / "tools" / "demo_report.py"
SHAPE = ["--layers", "2", "--dim", "32", "--heads", "2", "--seq", "32"]
STEPS = 3


class DemoReport(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.plan, self.trace, text = (os.path.join(scratch.name, name) for name in ("plan.json", "trace.json", "text"))
        pathlib.Path(text).write_text("In the beginning. " * 500, encoding="utf-8")
        self.sluice("plan", "char-gpt", *SHAPE, "--devices", "2", "--device", "h100", "--schedule", "1f1b",
                    "--micro-batches", "4", "-o", self.plan)
        self.sluice("train", "--data", text, *SHAPE, "--stages", "2", "--micro-batches", "4", "--steps", str(STEPS),
                    "--trace", self.trace, "--save", os.path.join(scratch.name, "model"))

    def sluice(self, *words):
        subprocess.run([sys.argv[1], *words], check=True, stdout=subprocess.DEVNULL)

    def report(self, *words):
        return subprocess.run([sys.executable, str(REPORT), *words], check=True, capture_output=True, text=True).stdout

    def test_costs_are_those_of_the_plan(self):
        costs = json.loads(self.report("costs", self.plan))
        stages = json.loads(pathlib.Path(self.plan).read_text(encoding="utf-8"))["stages"]
        self.assertEqual(costs["F"], [round(1e3 * stage["forward_seconds"], 2) for stage in stages])

    def test_a_plan_stands_beside_what_ran(self):
        shown = self.report("compare", self.plan, self.trace)
        self.assertIn(f"median of {STEPS} steps", shown)
        for stage in range(2):
            for what in ("forward", "backward"):
                measured = re.search(rf"stage {stage} {what} .* ([\d.]+) ms\n", shown)
                self.assertIsNotNone(measured, shown)
                self.assertGreater(float(measured[1]), 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
