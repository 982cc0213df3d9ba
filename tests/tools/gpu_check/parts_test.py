"""tools/gpu-check without a GPU: with programs that only print what those on a GPU would print."""
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from gpu_check import benches, bitwise, pack, parts, process, tests_part  # noqa: E402
from gpu_check.kit import Clock, Kit, Skip  # noqa: E402

SLUICE = """#!/usr/bin/env python3
import json, os, sys
words = sys.argv[1:]
def value(flag, default=""):
    return words[words.index(flag) + 1] if flag in words else default
if words[0] == "doctor":
    print(json.dumps({"gpus": %(gpus)s, "cuda_driver": "13.0", "nccl": "2.28.9", "missing": []}))
    sys.exit(0)
stages = int(value("--stages", "1"))
if value("--schedule") == "%(broken)s":
    print("sluice: rank 1 is lost", file=sys.stderr)
    sys.exit(5)
if value("--rank", "0") == "0":
    loss = "0x2" if value("--schedule") == "%(different)s" else "0x1"
    for step in range(int(value("--steps"))):
        print(json.dumps({"loss_hex": loss, "step_seconds": 0.1 + 0.001 * stages, "arena_bytes": [7]}))
    print(json.dumps({"done": True, "weights_hash": os.environ.get("NCCL_HOSTID", "none")[:3] and "abc"}))
if "--trace" in words:
    events = [{"ph": "X", "tid": 0, "cat": "step 1", "ts": 10.0 * i, "dur": 7.0} for i in range(5)]
    json.dump({"traceEvents": events}, open(value("--trace"), "w"))
"""

TEST = """#!/usr/bin/env python3
import json, sys
if "--gtest_list_tests" in sys.argv:
    print("Running main()\\nAttention.\\n  A\\nNorm.  # TypeParam\\n  B\\nLinear.\\n  C")
    sys.exit(0)
report = [word for word in sys.argv if word.startswith("--gtest_output=json:")][0].split(":", 1)[1]
cases = [{"name": "A", "status": "RUN", "result": "COMPLETED"}, {"name": "B", "status": "RUN", "result": "SKIPPED"},
         {"name": "D", "status": "RUN", "result": "COMPLETED", "timestamp": "1970-01-01T00:00:00Z"}]
failing = %(failing)s
if failing:
    cases.append({"name": "C", "status": "RUN", "result": "COMPLETED", "failures": [{"failure": "x.cc:1\\nwrong"}]})
json.dump({"testsuites": [{"name": "S", "testsuite": cases}]}, open(report, "w"))
sys.exit(1 if failing else 0)
"""


def write_program(path, text):
    path.write_text(text)
    path.chmod(0o755)


class Folder(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        self.make()

    def make(self, gpus='[{"name": "NVIDIA H200"}]', broken="-", different="-", failing=False):
        write_program(self.folder / "sluice", SLUICE % {"gpus": gpus, "broken": broken, "different": different})
        write_program(self.folder / "kernels_cuda_test", TEST % {"failing": failing})
        write_program(self.folder / "comm_nccl_test", TEST % {"failing": False})
        write_program(self.folder / "cuda_bench", "#!/bin/sh\necho layer_norm 81 %\n")
        write_program(self.folder / "nccl_bench", "#!/bin/sh\necho NCCL 12 us\n")
        self.folder.joinpath("manifest.json").write_text(json.dumps(
            {"commit": "c0ffee", "tests": ["kernels_cuda_test", "comm_nccl_test"], "benches": ["cuda_bench", "nccl_bench"]}))
        self.kit = Kit(self.folder)
        self.assertEqual(self.kit.examine(), "")

    def command(self, *arguments):
        pack.copy_command(self.folder)
        return subprocess.run([self.folder / "gpu-check", *arguments], capture_output=True, text=True, check=False,
                              env={**os.environ, "SLUICE_SHARED": ""})


class Parts(Folder):
    def test_tests_are_counted_by_their_own_reports(self):
        result = tests_part.kernels(self.kit, Clock(60))
        self.assertEqual((result["ok"], result["passed"], result["skipped"]), (True, 1, 2))
        self.make(failing=True)
        result = tests_part.kernels(self.kit, Clock(60))
        self.assertFalse(result["ok"])
        self.assertEqual(result["notes"], ["S.C: x.cc:1 wrong"])

    def test_a_program_that_skips_everything_has_tried_nothing(self):
        write_program(self.folder / "kernels_cuda_test", (TEST % {"failing": False}).replace("COMPLETED", "SKIPPED"))
        result = tests_part.kernels(self.kit, Clock(60))
        self.assertEqual((result["ok"], result["notes"]), (False, ["kernels_cuda_test: all of it was skipped"]))

    def test_a_test_that_crashes_has_failed(self):
        write_program(self.folder / "kernels_cuda_test", "#!/bin/sh\nkill -SEGV $$\n")
        result = tests_part.kernels(self.kit, Clock(60))
        self.assertEqual((result["ok"], result["failed"]), (False, 1))
        self.assertIn("signal 11", result["notes"][0])

    def test_the_sanitizer_sees_one_suite_after_the_other(self):
        write_program(self.folder / "compute-sanitizer", "#!/bin/sh\nwhile [ $# -gt 0 ]; do case $1 in --tool|--error-exitcode)"
                      " shift 2;; *) exec \"$@\";; esac; done\n")
        with mock.patch.dict(os.environ, {"PATH": f"{self.folder}:{os.environ['PATH']}"}):
            self.assertEqual(tests_part.suites(self.kit, "kernels_cuda_test", Clock(60)), ["Norm.", "Attention."])
            result = tests_part.sanitizer(self.kit, Clock(60))
            self.assertEqual((result["ok"], result["clean"]), (True, 2), result)
            self.assertEqual(tests_part.sanitizer(self.kit, Clock(4))["not_reached"],
                             ["kernels_cuda_test Norm.", "kernels_cuda_test Attention."])

    def test_all_bits_are_equal(self):
        result = bitwise.bitwise(self.kit, Clock(300), bitwise.configurations()[:9])
        self.assertEqual((result["ok"], result["equal"]), (True, 9), result["notes"])

    def test_other_bits_and_lost_ranks_are_named(self):
        self.make(different="zb-h1", broken="bfs")
        wanted = [bitwise.Configuration("zb-h1", 2), bitwise.Configuration("bfs", 2, 2),
                  bitwise.Configuration("bfs", 2, 2, processes=True), bitwise.Configuration("1f1b", 2)]
        result = bitwise.bitwise(self.kit, Clock(300), wanted)
        self.assertEqual((result["ok"], result["equal"]), (False, 1))
        self.assertIn("zb-h1 p2 fp32: the loss of step 1 is 0x2, one stage's 0x1", result["notes"])
        self.assertIn("rank 1 is lost", result["notes"][1])
        self.assertIn("rank 1 is lost", result["notes"][2])

    def test_what_was_not_run_is_not_well(self):
        result = bitwise.bitwise(self.kit, Clock(0), bitwise.configurations()[:2])
        self.assertEqual((result["ok"], result["not_run"]), (False, 2))

    def test_there_are_enough_configurations(self):
        wanted = bitwise.configurations()
        self.assertGreaterEqual(len(wanted), 50)
        self.assertEqual(len(set(wanted)), len(wanted))
        self.assertGreaterEqual(sum(configuration.processes for configuration in wanted), 5)

    def test_stages_are_compared_with_one(self):
        result = benches.stages(self.kit, Clock(60))
        self.assertTrue(result["ok"], result)
        self.assertAlmostEqual(result["stages"][4]["times_one_stage"], 0.104 / 0.101)
        self.assertAlmostEqual(result["stages"][1]["idle_between_actions"], 3e-6)
        self.assertAlmostEqual(result["graphs"]["step_seconds"], 0.101)

    def test_mfu_is_of_the_gpus_peak(self):
        shape = {"layers": 1, "dim": 10, "vocab": 10, "seq": 10, "micro_batch": 1, "micro_batches": 1}
        flops = 6 * (12 * 100 + 100 + 100) * 10
        self.assertAlmostEqual(benches.speed(self.kit, shape, 2.0)["mfu"], flops / 2 / 989e12)
        self.make(gpus='[{"name": "a GPU that nobody knows"}]')
        self.assertIsNone(benches.speed(self.kit, shape, 2.0)["mfu"])

    def test_without_the_peer_the_rest_is_measured(self):
        os.environ.pop("SLUICE_SHARED", None)
        self.kit.shared = ""
        result = benches.bench_train(self.kit, Clock(60))
        self.assertTrue(result["ok"])
        self.assertIn("sluice", result["models"]["gpt2-xl"])
        self.assertIn("sluice_cudnn", result["models"]["gpt2-xl"])
        with self.assertRaises(Skip):
            benches.peer_script(self.kit)

    def test_a_part_that_raises_costs_only_itself(self):
        part = parts.Part("odd", lambda kit, clock: {}["nothing"], 5)
        result = parts.run_part(part, self.kit)
        self.assertEqual(result["status"], "failed")
        self.assertIn("KeyError", result["summary"])


class Command(Folder):
    def test_runs_everything_and_writes_one_document(self):
        output = self.folder / "result.json"
        done = self.command("--part", "doctor", "--part", "kernels", "--part", "bench-kernels", "--part", "bench-nccl", "-o",
                            str(output))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        document = json.loads(output.read_text())
        self.assertEqual(document["gpus"], ["NVIDIA H200"])
        self.assertEqual(document["commit"], "c0ffee")
        self.assertEqual({name: part["status"] for name, part in document["parts"].items()},
                         {"doctor": "ok", "kernels": "ok", "bench-kernels": "ok", "bench-nccl": "ok"})
        self.assertIn("layer_norm 81 %", done.stdout)
        self.assertIn("NCCL 12 us", done.stdout)

    def test_a_part_that_fails_is_exit_1(self):
        self.make(failing=True)
        self.assertEqual(self.command("--part", "kernels").returncode, 1)

    def test_without_a_gpu(self):
        self.make(gpus="[]")
        done = self.command()
        self.assertEqual(done.returncode, 2)
        self.assertIn("there is no GPU", done.stderr)
        done = self.command("--skip-without-gpu")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(len(done.stdout.splitlines()), len(parts.PARTS))

    def test_a_folder_without_programs_is_bad_input(self):
        done = self.command("--build", str(self.folder / "nothing"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("--pack", done.stderr)


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


class Pack(unittest.TestCase):
    def test_takes_what_a_gpu_can_run(self):
        listing = ("tools/sluice: CXX_EXECUTABLE_LINKER\ntests/comm/comm_nccl_test: CXX_EXECUTABLE_LINKER\n"
                   "tests/a/kernels_cuda_test: CUDA_EXECUTABLE_LINKER\ntests/comm/comm_test: CXX_EXECUTABLE_LINKER\n"
                   "tests/a/cuda_emulation_test: CXX_EXECUTABLE_LINKER\nall: phony\n")
        self.assertEqual(pack.wanted_targets(listing), ["comm_nccl_test", "kernels_cuda_test", "sluice"])

    def test_copies_libraries_but_the_systems(self):
        names = [name for name, _ in pack.libraries("/bin/bash")]
        self.assertFalse([name for name in names if name.startswith(("libc.so", "ld-linux"))])
        self.assertTrue(names)

    def test_large_files_travel_compressed(self):
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            (folder / "lib").mkdir()
            large, small = os.urandom(1000) * (pack.LARGE // 1000 + 1), b"small"
            (folder / "lib" / "large.so.2").write_bytes(large)
            (folder / "lib" / "small.so.1").write_bytes(small)
            pack.compress(folder)
            self.assertEqual(sorted(path.name for path in (folder / "lib").iterdir()), ["large.so.2.xz", "small.so.1"])
            self.assertLess(sum(pack.sizes(folder).values()), pack.LARGE / 10)
            pack.unpack(folder)
            pack.unpack(folder)
            self.assertEqual((folder / "lib" / "large.so.2").read_bytes(), large)
            self.assertTrue(os.access(folder / "lib" / "large.so.2", os.X_OK))

    def test_leaves_a_folder_of_somebody_else_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "mine").write_text("x")
            with self.assertRaises(pack.PackError):
                pack.pack(folder, folder, build_it=False)
            self.assertTrue(Path(folder, "mine").exists())


if __name__ == "__main__":
    unittest.main()
