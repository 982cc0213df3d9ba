"""What tools/demo prints itself, between programs that do nothing.

    python3 demo_test.py
"""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

DEMO = pathlib.Path(__file__).resolve().parents[2] / "tools" / "demo"
VERSE = "And God said, Let the waters under the heaven be gathered together unto one place, and let the dry land appear: " * 2
# What the demo starts, and the lines of shell that stand for it.
PROGRAMS = {"tools/setup": "", "build/release/tools/sluice": "", "bin/bible": f"for i in 1 2 3 4; do echo '1:$i {VERSE}'; done"}


class Demo(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        for name, text in PROGRAMS.items():
            program = self.folder / name
            program.parent.mkdir(parents=True, exist_ok=True)
            program.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
            program.chmod(0o755)
        for name in ("step.py", "demo_report.py"):
            (self.folder / "tools" / name).write_text("", encoding="utf-8")
        shutil.copy(DEMO, self.folder / "tools")

    def lines(self, *words, **variables):
        """What it prints beside the commands that it runs, with no other variables than these."""
        done = subprocess.run([self.folder / "tools" / "demo", *words], capture_output=True, check=True, stdin=subprocess.DEVNULL,
                              env={"PATH": f"{self.folder}/bin:{os.environ['PATH']}", **variables})
        return [line for line in done.stdout.decode().splitlines() if not line.startswith("$ sluice ")]

    def test_keeps_to_the_width(self):
        for columns in (60, 80, 200):
            for words in ((), ("--mlp",)):
                for line in self.lines(*words, COLUMNS=str(columns), LANG="C.UTF-8"):
                    self.assertLessEqual(len(line), columns, line)
        for columns in ("", "0", "x"):
            self.assertEqual(self.lines(COLUMNS=columns), self.lines(COLUMNS="80"))

    def test_asks_the_terminal_first(self):
        if not shutil.which("script"):
            self.skipTest("script, which opens a terminal, is not there")
        done = subprocess.run(["script", "-qec", f"stty cols 40; COLUMNS=90 NO_COLOR=1 {self.folder}/tools/demo", "/dev/null"],
                              capture_output=True, check=True, stdin=subprocess.DEVNULL, text=True,
                              env={"PATH": f"{self.folder}/bin:{os.environ['PATH']}"})
        self.assertIn("# The timetable of one step, in\n  milliseconds\n", done.stdout.replace("\r", ""))

    def test_leaves_out_no_word(self):
        narrow, wide = (" ".join(" ".join(line for line in self.lines(COLUMNS=columns) if "God said" not in line).split())
                        for columns in ("50", "400"))
        self.assertEqual(narrow, wide)

    def test_keeps_to_ascii_where_the_locale_does(self):
        bar = "\u258c"
        for variables in ({}, {"LANG": "C"}, {"LC_ALL": "C", "LANG": "C.UTF-8"}):
            text = "\n".join(self.lines(**variables))
            self.assertTrue(text.isascii(), variables)
            self.assertIn("\n# The text\n", text)
        for variables in ({"LANG": "en_GB.UTF-8"}, {"LC_ALL": "C.utf8", "LANG": "C"}):
            self.assertIn(f"\n{bar} The text\n", "\n".join(self.lines(**variables)))

    def test_names_the_folder_that_others_load(self):
        self.assertRegex("\n".join(self.lines(COLUMNS="200")), r"\n  demo-out/model/latest +the weights, which Hugging Face's ")


if __name__ == "__main__":
    unittest.main(verbosity=2)
