"""The command line of tools/gpu-check, its result file, and how it ends."""
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

from programs import ROOT, Folder

from gpu_check import parts

# The command with one part that never ends: it announces rows, and has a program running.
ENDLESS = f"""
import sys, time
sys.path.insert(0, {str(ROOT / "tools")!r})
from gpu_check import command, parts, process
def endless(kit, clock, rows):
    "Rows without an end."
    child = process.start(["sleep", "600"])
    rows.put("child", {{"pid": child.pid}}, f"child {{child.pid}}")
    for index in range(10**9):
        rows.put(f"row {{index}}", {{"complete": True, "value": index}}, f"row {{index}}")
        if len(sys.argv) > 3:
            process.run(["sleep", "600"], 600)
command.PARTS[:] = [parts.Part("endless", endless, 100), parts.Part("never", endless, 100)]
sys.exit(command.main(["-o", sys.argv[2]], command.Path(sys.argv[1])))
"""


def has_ended(pid):
    """It is reaped by whoever inherits it."""
    for _ in range(200):
        stat = Path(f"/proc/{pid}/stat")
        try:
            if stat.read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


class Killed(Folder):
    def start(self, *more):
        """Returns the running command, its result file and its program's pid."""
        output = self.folder / f"result {random.random()}.json"
        command = subprocess.Popen([sys.executable, "-c", ENDLESS, str(self.folder), str(output), *more],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment)
        child = int(command.stdout.readline().split()[-1])
        return command, output, child

    def check(self, output, printed):
        """All that was announced is in the file."""
        document = json.loads(output.read_text())
        endless = document["parts"]["endless"]
        self.assertEqual((endless["status"], document["parts"]["never"]["status"]), ("cut off", "not run"))
        announced = [line.split("  ", 1)[1].strip() for line in printed.splitlines(keepends=True) if line.endswith("\n")]
        self.assertLessEqual(set(announced), set(endless["rows"]))
        return len(announced)

    def test_at_any_moment_all_that_was_announced_is_in_the_file(self):
        announced = 0
        for _ in range(12):
            command, output, child = self.start()
            time.sleep(random.uniform(0, 0.4))
            command.kill()
            announced += self.check(output, command.communicate()[0])
            if shutil.which("setpriv"):
                self.assertTrue(has_ended(child))
            else:
                os.kill(child, signal.SIGKILL)
        self.assertGreater(announced, 100)

    def test_told_to_end_it_ends_its_programs_too(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            for more in ((), ("waiting",)):
                command, output, child = self.start(*more)
                time.sleep(0.2)
                command.send_signal(number)
                printed, said = command.communicate(timeout=30)
                self.assertEqual(command.returncode, 1, said)
                self.assertIn("has what was measured until then", said)
                self.check(output, printed)
                self.assertTrue(has_ended(child))


class Command(Folder):
    def document(self, *arguments):
        """What the command writes."""
        output = self.folder / "result.json"
        self.done = self.command(*arguments, "-o", output)
        return json.loads(output.read_text())

    def test_runs_parts_and_writes_one_document(self):
        names = ("doctor", "kernels", "bench-kernels", "bench-nccl")
        document = self.document(*(word for name in names for word in ("--part", name)))
        self.assertEqual(self.done.returncode, 0, self.done.stdout + self.done.stderr)
        self.assertEqual(document["gpus"], ["NVIDIA H200"])
        self.assertEqual(document["commit"], "c0ffee")
        self.assertEqual({name: part["status"] for name, part in document["parts"].items()}, dict.fromkeys(names, "ok"))
        self.assertIn("layer_norm 81 %", self.done.stdout)
        self.assertIn("NCCL 12 us", self.done.stdout)

    def test_a_part_that_fails_is_exit_1(self):
        self.make(norm="fail")
        self.assertEqual(self.command("--part", "kernels").returncode, 1)

    def test_parts_for_which_the_budget_does_not_suffice_are_named(self):
        self.make(norm="hang")
        began = time.monotonic()
        document = self.document("--jobs", 4, "--budget", 14, "--part", "kernels", "--part", "conformance", "--part",
                                 "bench-nccl")
        self.assertLess(time.monotonic() - began, 60)
        self.assertEqual(self.done.returncode, 1)
        self.assertEqual({name: part["status"] for name, part in document["parts"].items()},
                         {"kernels": "cut off", "conformance": "not run", "bench-nccl": "not run"})
        self.assertEqual(document["parts"]["kernels"]["not_reached"], ["cuda_kernels_test Norm"])
        self.assertEqual(document["parts"]["kernels"]["rows"]["cuda_kernels_test Linear"]["passed"], 2)
        self.assertIn("bench-nccl    not run", self.done.stdout)

    def test_a_resumed_run_measures_what_is_missing(self):
        self.make(norm="hang")
        first = self.document("--jobs", 4, "--limit", 12, "--part", "bench-kernels", "--part", "kernels")
        self.assertEqual(first["parts"]["kernels"]["status"], "cut off")
        self.make(norm="ok")
        (self.folder / "cuda_kernels_bench").unlink()  # it would be missed
        second = self.document("--resume", self.folder / "result.json", "--part", "kernels", "--part", "bench-kernels",
                               "--part", "bench-nccl")
        self.assertEqual(self.done.returncode, 0, self.done.stdout + self.done.stderr)
        self.assertEqual({name: part["status"] for name, part in second["parts"].items()},
                         {"bench-kernels": "ok", "kernels": "ok", "bench-nccl": "ok"})
        self.assertEqual(second["parts"]["bench-kernels"]["rows"], first["parts"]["bench-kernels"]["rows"])
        self.assertEqual(second["parts"]["kernels"]["passed"], 6)

    def test_parts_that_are_not_asked_for_stay_in_the_file(self):
        first = self.document("--part", "bench-kernels")
        second = self.document("--resume", self.folder / "result.json", "--part", "bench-nccl")
        self.assertEqual(second["parts"]["bench-kernels"], first["parts"]["bench-kernels"])

    def test_another_commits_results_are_not_resumed(self):
        self.document("--part", "bench-kernels")
        manifest = self.folder / "manifest.json"
        manifest.write_text(manifest.read_text().replace("c0ffee", "decade"))
        document = self.document("--resume", self.folder / "result.json", "--part", "bench-nccl")
        self.assertEqual(list(document["parts"]), ["bench-nccl"])
        self.assertIn("its commit is c0ffee, here decade", self.done.stderr)

    def test_without_a_gpu(self):
        self.make(gpus="[]")
        done = self.command()
        self.assertEqual(done.returncode, 2)
        self.assertIn("there is no GPU", done.stderr)
        done = self.command("--skip-without-gpu")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(len(done.stdout.splitlines()), len(parts.PARTS))

    def test_a_result_file_that_cannot_be_written_is_told_before_anything_is_measured(self):
        done = self.command("--part", "kernels", "-o", self.folder / "nowhere" / "result.json")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("No such file or directory", done.stderr)

    def test_a_folder_without_programs_is_bad_input(self):
        done = self.command("--build", self.folder / "nothing")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--pack", done.stderr)


if __name__ == "__main__":
    unittest.main()
