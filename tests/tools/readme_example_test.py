#!/usr/bin/env python3
"""Runs the commands of README's "Fine-tune a Hugging Face folder" as they stand there, with few steps.

    tests/tools/readme_example_test.py build/release/tools/sluice

Their output is not compared, but that they end well, and that the folder in the end is whole; where
transformers is there, it loads that.
"""
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADING = "### Fine-tune a Hugging Face folder"
PROMPT = "    $ "


def commands():
    """The commands below the heading, each on one line."""
    section = (ROOT / "README.md").read_text().split(HEADING)[1].split("\n## ")[0].split("\n### ")[0]
    lines = re.sub(r"\\\n\s*", "", section).split("\n")
    return [line.removeprefix(PROMPT) for line in lines if line.startswith(PROMPT)]


class ReadmeExample(unittest.TestCase):
    def run_all(self, folder):
        program = pathlib.Path(folder) / "bin"
        program.mkdir()
        (program / "sluice").symlink_to(SLUICE)
        environment = {**os.environ, "PATH": f"{program}:{os.environ['PATH']}"}
        for command in commands():
            few = re.sub(r"--steps \d+", "--steps 2 --no-pin", command)
            few = re.sub(r"sluice chat", "sluice chat -n 5", few.replace("tools/examples", f"{ROOT}/tools/examples"))
            done = subprocess.run(few, shell=True, cwd=folder, env=environment, capture_output=True)
            self.assertEqual(done.returncode, 0, f"{few}\n{done.stderr.decode(errors='replace')}")

    def test_runs_from_beginning_to_end(self):
        self.assertGreaterEqual(len(commands()), 6)
        with tempfile.TemporaryDirectory() as folder:
            self.run_all(folder)
            merged = pathlib.Path(folder) / "example/merged"
            self.assertEqual({file.name for file in merged.iterdir()},
                             {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"})
            adapter = json.loads((merged.parent / "chat/latest/adapter_config.json").read_text())
            base = (merged.parent / "base/latest").resolve()
            self.assertEqual(adapter["base_model_name_or_path"], str(base))
            if importlib.util.find_spec("transformers") is None:
                self.skipTest("transformers is not there to load the merged folder")
            load = "from transformers import AutoModelForCausalLM as A; A.from_pretrained('example/merged')"
            done = subprocess.run([sys.executable, "-c", load], cwd=folder, capture_output=True)
            self.assertEqual(done.returncode, 0, done.stderr.decode())


if __name__ == "__main__":
    SLUICE = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main(verbosity=2)
