#!/usr/bin/env python3
"""Runs the commands that pages show: those of docs/, and README's "Fine-tune a Hugging Face folder" with few steps.

    tests/docs/commands_test.py build/release/tools/sluice

Of a page in docs/ each block says what must be printed; of README's commands only that they end well is looked at, and that
the folder in the end is whole; where transformers is there, it loads that.
"""
import importlib.util
import json
import pathlib
import re
import subprocess
import sys
import unittest
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs"))
from extension import commands, generated, pages  # noqa: E402

HEADING = "Fine-tune a Hugging Face folder"
PAGES = sorted(page for page in (ROOT / "docs").rglob("*.md"))
SLUICE = None


class Pages(unittest.TestCase):
    def test_commands_do_what_their_page_says(self):
        ran = 0
        for page in PAGES:
            blocks = [fence for fence in pages.fences(page.read_text()) if fence.name == "commands"]
            if not blocks:
                continue
            with commands.Shell(SLUICE) as shell:
                for fence in blocks:
                    with self.subTest(f"{page.relative_to(ROOT)}, line {fence.line}"):
                        shell.transcript(commands.Block.read(fence.options, fence.lines))
                        ran += 1
        self.assertGreater(ran, 18)

    def test_sluice_runs_only_where_it_is_checked(self):
        """A command in any other block would be one that nobody runs."""
        for page in PAGES:
            checked = {number for fence in pages.fences(page.read_text()) if fence.name == "commands"
                       for number in range(fence.line, fence.line + len(fence.options) + len(fence.lines) + 1)}
            for number, line in enumerate(page.read_text().splitlines(), 1):
                if number not in checked:
                    self.assertNotRegex(line, r"^ *(\$ )?sluice [a-z]", f"{page}, line {number}")

    def test_a_block_that_says_too_much_is_found(self):
        with commands.Shell(SLUICE) as shell:
            for options, lines in (({"shows": "makespan 34 "}, ["$ sluice schedule show 1f1b -p 4 -m 8"]),
                                   ({"shows": "makespan"}, ["$ sluice schedule show 1f1b -p 4 -m 8", "$ false"]),
                                   ({"shows": "makespan", "exit": "2"}, ["$ sluice schedule show 1f1b -p 4 -m 8"]),
                                   ({}, ["$ true"]), ({"shows": "makespan"}, ["sluice schedule show 1f1b -p 4 -m 8"])):
                with self.assertRaises(commands.CommandError, msg=str(lines)):
                    shell.transcript(commands.Block.read(options, lines))


class Readme(unittest.TestCase):
    def test_plans_and_schedules_are_printed_as_it_shows_them(self):
        """Those need neither time nor data, so every word is the same."""
        compared = 0
        for block in re.findall(r"(?m)^    \$.*\n(?:(?:    .*)?\n)*", (ROOT / "README.md").read_text()):
            lines = [line[4:].rstrip() for line in block.strip("\n").splitlines()]
            if not re.match(r"\$ sluice (schedule|plan) ", lines[0]):
                continue
            typed = 1 + next(i for i, line in enumerate(lines) if not line.endswith("\\"))
            shown = [line for line in lines[typed:] if line]
            if not shown:
                continue
            command = " ".join(line.rstrip("\\") for line in lines[:typed])[2:].split()
            printed = subprocess.run([SLUICE, *command[1:]], capture_output=True, text=True, check=True).stdout
            self.assertEqual([line.rstrip() for line in printed.splitlines() if line.strip()], shown, " ".join(command))
            compared += 1
        self.assertGreaterEqual(compared, 3)


class Generated(unittest.TestCase):
    def test_every_schedule_has_its_drawing(self):
        with commands.Shell(SLUICE) as shell:
            text = generated.catalogue_page(SLUICE, shell.folder)
            entries = generated.entries(SLUICE)
            self.assertGreaterEqual(len(entries), 18)
            self.assertEqual([title for _, title in pages.headings(text)], [entry["name"] for entry in entries])
            for entry in entries:
                drawing = xml.etree.ElementTree.parse(shell.folder / f"{entry['name']}.svg").getroot()
                self.assertTrue(drawing.tag.endswith("svg"))
                self.assertIn(f"{entry['name']}: 4 ranks, 8 micro-batches", "".join(drawing.itertext()))
                self.assertIn(f"drawings/{entry['name']}.svg", text)
                self.assertGreater((shell.folder / f"{entry['name']}.html").stat().st_size, 10000)

    def test_who_runs_a_schedule(self):
        self.assertEqual(generated.runners(SLUICE, "1f1b"), "sluice, PyTorch, Megatron-LM")
        self.assertRegex(generated.runners(SLUICE, "chimera"), "^sluice; not PyTorch: its ranks hold two copies.*; not Megatron")

    def test_help_of_every_command(self):
        titles = [title for _, title in pages.headings(generated.help_page(SLUICE))]
        for name in ("sluice", "sluice train", "sluice schedule show", "sluice completion"):
            self.assertIn(name, titles)


class ReadmeExample(unittest.TestCase):
    def run_all(self, shell):
        lines = [line.removeprefix("    ") for line in pages.excerpt(ROOT / "README.md", {"heading": HEADING}).splitlines()]
        found = commands.commands_in(lines)
        self.assertGreaterEqual(len(found), 6)
        for command in found:
            few = re.sub(r"--steps \d+", "--steps 2 --no-pin", "\n".join(command))
            code, output = shell.run(few.replace("sluice chat", "sluice chat -n 5"))
            self.assertEqual(code, 0, f"{few}\n{output}")

    def test_runs_from_beginning_to_end(self):
        with commands.Shell(SLUICE) as shell:
            self.run_all(shell)
            merged = shell.folder / "example/merged"
            self.assertEqual({file.name for file in merged.iterdir()},
                             {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"})
            adapter = json.loads((merged.parent / "chat/latest/adapter_config.json").read_text())
            base = (merged.parent / "base/latest").resolve()
            self.assertEqual(adapter["base_model_name_or_path"], str(base))
            if importlib.util.find_spec("transformers") is None:
                self.skipTest("transformers is not there to load the merged folder")
            load = "from transformers import AutoModelForCausalLM as A; A.from_pretrained('example/merged')"
            done = subprocess.run([sys.executable, "-c", load], cwd=shell.folder, capture_output=True)
            self.assertEqual(done.returncode, 0, done.stderr.decode())


if __name__ == "__main__":
    SLUICE = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main(verbosity=2)
