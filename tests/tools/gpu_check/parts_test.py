"""The parts of tools/gpu-check without a GPU."""
import dataclasses
import json
import os
import unittest
from unittest import mock

from programs import Folder, write_program

from gpu_check import benches, bitwise, parts, sanitizer, smoke, speed, tests_part, timeline
from gpu_check.kit import Clock
from gpu_check.report import Rows

SANITIZER = """#!/bin/sh
tool=$2
[ "%(refuses)s" = silently ] && echo "========= ERROR SUMMARY: 0 errors" && exit 0
[ "%(refuses)s" = yes ] && echo "========= Error: Device not supported" && exit 1
while [ $# -gt 0 ]; do case $1 in --tool|--error-exitcode|--print-limit) shift 2;; *) break;; esac; done
"$@" || exit 1
case "$tool $*" in
  "racecheck "*Norm*) echo "========= Error: Race reported between Write and Read"; exit 9;;
esac
echo "========= ERROR SUMMARY: 0 errors"
"""


class Tests(Folder):
    def test_each_suite_is_a_process_and_a_row(self):
        rows = Rows()
        result = tests_part.kernels(self.kit, Clock(60), rows)
        self.assertEqual((result["ok"], result["passed"], result["failed"]), (True, 6, 0))
        self.assertEqual(rows.get("cuda_kernels_test Norm")["tests"],
                         {"Norm.Good": {"result": "ok", "ms": 3}, "Norm.Other": {"result": "ok", "ms": 5}})

    def test_what_a_failed_test_said_is_kept(self):
        self.make(norm="fail")
        result = tests_part.kernels(self.kit, Clock(60), Rows())
        self.assertEqual((result["ok"], result["passed"], result["failed"]), (False, 5, 1))
        self.assertEqual(result["notes"], ["Norm.Other: x.cc:1: Failure wrong"])

    def test_a_crash_costs_one_suite(self):
        self.make(norm="crash")
        result = tests_part.kernels(self.kit, Clock(60), Rows())
        self.assertEqual((result["ok"], result["passed"], result["failed"]), (False, 5, 1))
        self.assertEqual(result["notes"], ["Norm.Other: signal 11"])

    def test_a_suite_that_hangs_costs_itself(self):
        self.make(norm="hang")
        with mock.patch.object(tests_part, "SUITE_LIMIT", 1):
            result = tests_part.kernels(self.kit, Clock(60), Rows())
        self.assertEqual((result["ok"], result["passed"], result["failed"]), (False, 5, 1))
        self.assertIn("Norm.Other: not done after 1 s", result["notes"][0])

    def test_a_suite_that_the_parts_time_cuts_has_not_failed(self):
        self.make(norm="hang")
        rows = Rows()
        result = tests_part.kernels(self.kit, Clock(10), rows)
        self.assertEqual((result["ok"], result["not_reached"]), (True, ["cuda_kernels_test Norm"]), result)
        self.assertEqual(rows.get("cuda_kernels_test Norm")["passed"], 1)

    def test_a_program_that_skips_everything_has_tried_nothing(self):
        write_program(self.folder / "cuda_kernels_test", "#!/bin/sh\n"
                      "[ $1 = --gtest_list_tests ] && echo 'A.' && echo '  B' && exit\n"
                      "echo '[==========] Running 1 test'; echo 'gpu.cc:20: Skipped'; echo 'no GPU here'\n")
        result = tests_part.kernels(self.kit, Clock(60), Rows())
        self.assertEqual((result["ok"], result["notes"]),
                         (False, ["cuda_kernels_test: all of it was skipped: gpu.cc:20: Skipped no GPU here"]))

    def test_a_program_that_cannot_even_list_its_tests_has_failed(self):
        write_program(self.folder / "cuda_kernels_test", "#!/bin/sh\necho libcudart.so.13: not found >&2\nexit 127\n")
        result = tests_part.kernels(self.kit, Clock(60), Rows())
        self.assertEqual((result["ok"], result["notes"]),
                         (False, ["cuda_kernels_test: exit 127: libcudart.so.13: not found"]))

    def test_suites_that_were_well_before_are_not_run_again(self):
        before = {"passed": 70, "failed": 0, "skipped": 0, "tests": {}}
        rows = Rows(earlier={"cuda_kernels_test Norm": {"complete": True, **before},
                             "cuda_kernels_test Linear": {"complete": False, **before}})
        self.assertEqual(tests_part.kernels(self.kit, Clock(60), rows)["passed"], 74)

    def sanitize(self, refuses="no"):
        write_program(self.folder / "compute-sanitizer", SANITIZER % {"refuses": refuses})
        with mock.patch.dict(os.environ, {"PATH": f"{self.folder}:{os.environ['PATH']}"}):
            return parts.run_part(parts.Part("sanitizer", sanitizer.sanitizer, 60), self.kit, Rows(), 60)

    def test_each_tool_of_the_sanitizer_sees_each_suite(self):
        result = self.sanitize()
        self.assertEqual((result["status"], result["clean"]), ("failed", 5), result)
        self.assertEqual(result["notes"], ["cuda_kernels_test Norm racecheck: Error: Race reported between Write and Read"])

    def test_a_sanitizer_that_is_kept_from_the_gpu_is_skipped(self):
        result = self.sanitize(refuses="yes")
        self.assertEqual((result["status"], result["summary"]),
                         ("skipped", "compute-sanitizer does not run here: Error: Device not supported"))

    def test_a_sanitizer_that_runs_nothing_has_found_nothing(self):
        self.assertEqual(self.sanitize(refuses="silently")["status"], "skipped")


class Bitwise(Folder):
    def test_all_bits_are_equal(self):
        result = bitwise.bitwise(self.kit, Clock(300), Rows(), bitwise.configurations()[:9])
        self.assertEqual((result["ok"], result["equal"]), (True, 9), result["notes"])

    def test_other_bits_and_lost_ranks_are_named(self):
        self.make(different="zb-h1", broken="bfs")
        wanted = [bitwise.Configuration("zb-h1", 2), bitwise.Configuration("bfs", 2, 2),
                  bitwise.Configuration("bfs", 2, 2, processes=True), bitwise.Configuration("1f1b", 2)]
        rows = Rows()
        result = bitwise.bitwise(self.kit, Clock(300), rows, wanted)
        self.assertEqual((result["ok"], result["equal"]), (False, 1))
        self.assertIn("zb-h1 p2 fp32: the loss of step 1 is 0x2, one stage's 0x1", result["notes"])
        self.assertIn("bfs p2 v2 fp32: exit 5: sluice: rank 1 is lost", result["notes"])
        self.assertIn("rank 1 is lost", rows.get("bfs p2 v2 fp32 processes")["error"])
        self.assertIn(["sluice: rank 1 is lost"], rows.get("bfs p2 v2 fp32 processes")["stderr"])

    def test_what_was_not_run_is_named(self):
        result = bitwise.bitwise(self.kit, Clock(0), Rows(), bitwise.configurations()[:2])
        self.assertEqual((result["equal"], result["not_reached"]), (0, ["1f1b p2 bf16", "1f1b p2 bf16 processes"]))

    def test_there_are_enough_configurations(self):
        wanted = bitwise.configurations()
        self.assertGreaterEqual(len(wanted), 50)
        self.assertEqual(len(set(wanted)), len(wanted))
        self.assertGreaterEqual(sum(configuration.processes for configuration in wanted), 5)

    def test_the_first_twelve_have_everything_once(self):
        wanted = bitwise.configurations()
        self.assertFalse(wanted[0].processes)
        for field in dataclasses.fields(bitwise.Configuration):
            if field.name not in ("schedule", "stages", "chunks"):
                values = {getattr(one, field.name) for one in wanted}
                self.assertEqual({getattr(one, field.name) for one in wanted[:12]}, values, field.name)
        self.assertLessEqual({"1f1b", "zbv", "chimera", "interleaved"}, {one.schedule for one in wanted[:12]})


class Profile(Folder):
    def test_a_folder_without_the_library_is_skipped(self):
        with mock.patch.object(self.kit, "libraries", {}):
            result = parts.run_part(parts.Part("profile", timeline.profile, 60), self.kit, Rows(), 60)
        self.assertEqual(result["status"], "skipped")
        self.assertIn("without CUPTI", result["summary"])

    def test_each_kernel_is_a_row(self):
        library = self.folder / timeline.LIBRARY
        library.write_text("")
        self.kit.sluice = self.folder / "traced"
        write_program(self.kit.sluice, f"""#!/bin/sh
[ "$CUDA_INJECTION64_PATH" = {library.resolve()} ] || exit 1
for step in 100 200 300; do
  for k in $(seq 10 69); do echo "${{step}}${{k}}0,${{step}}${{k}}8,7,gemm"; done
  echo "${{step}}700,${{step}}705,7,OptimizerKernel"
done > "$KERNEL_TIMELINE"
""")
        rows = Rows()
        with mock.patch.object(self.kit, "libraries", {timeline.LIBRARY: library}):
            result = parts.run_part(parts.Part("profile", timeline.profile, 60), self.kit, rows, 60)
        self.assertEqual(result["status"], "ok", result)
        self.assertEqual(rows.get("gemm"), {"kernel": "gemm", "launches": 60, "microseconds": 0.48})
        self.assertEqual(rows.get("step")["launches"], 61)


class Measures(Folder):
    def test_stages_are_compared_with_one(self):
        result = speed.stages(self.kit, Clock(60), Rows())
        self.assertTrue(result["ok"], result)
        self.assertAlmostEqual(result["ratios"]["4 stages"], 0.104 / 0.101)
        self.assertAlmostEqual(result["ratios"]["1 stage, no CUDA graphs"], 1)
        self.assertAlmostEqual(result["idle_between_actions"], 3e-6)

    def test_mfu_is_of_the_gpus_peak(self):
        shape = {"layers": 1, "dim": 10, "vocab": 10, "seq": 10, "micro_batch": 1, "micro_batches": 1}
        flops = 6 * (12 * 100 + 100 + 100) * 10
        self.assertAlmostEqual(speed.speed(self.kit, shape, 2.0)["mfu"], flops / 2 / 989e12)
        self.make(gpus='[{"name": "a GPU that nobody knows"}]')
        self.assertIsNone(speed.speed(self.kit, shape, 2.0)["mfu"])

    def test_without_the_peer_the_rest_is_measured(self):
        rows = Rows()
        result = speed.train_gpt2_xl(self.kit, Clock(60), rows)
        self.assertTrue(result["ok"])
        self.assertIn("has no PyTorch", result["notes"][0])
        self.assertAlmostEqual(rows.get("sluice")["step_seconds"], 0.101)
        self.assertAlmostEqual(rows.get("sluice, tuned, cuDNN's attention")["step_seconds"], 0.101)

    def test_algorithms_are_measured_first(self):
        rows = Rows()
        speed.train_qwen3(self.kit, Clock(60), rows)
        self.assertEqual(rows.get("algorithms")["gains"], {"8 x 2 x 4, bias": 1.25, "8 x 2 x 4 + c, bias": 1.0})
        self.assertAlmostEqual(rows.get("sluice, tuned")["step_seconds"], 0.101)

    def test_what_people_train_is_measured_beside_it(self):
        rows = Rows()
        for train in speed.train_gpt2, speed.train_qwen3:
            result = train(self.kit, Clock(60), rows)
            self.assertTrue(result["ok"], result)
        for name in ("sluice", *speed.APART):
            self.assertAlmostEqual(rows.get(name)["step_seconds"], 0.101)
            self.assertEqual(rows.get(name)["expected_seconds"], 0.1)
        self.assertIn(": 101.0 ms a step (100.0 expected), ", speed.describe("it", rows.get(name)))
        lines = self.kit.documents().read_text(encoding="utf-8").splitlines()
        self.assertEqual("".join(json.loads(line)["text"] for line in lines), self.kit.text().read_text(encoding="utf-8"))

    def test_what_is_expected_depends_on_the_kernels(self):
        asked = []
        outcome = mock.Mock(ok=True, out='{"expected_seconds": 0.1}')
        flags = ["--stages", "1", "--algorithms", "x", "--attention", "cudnn", "--no-cuda-graphs", "--lora", "r=2", "--pack"]
        with mock.patch.object(speed.process, "run", lambda command, limit: asked.append(command) or outcome):
            self.assertEqual(speed.expected_step(self.kit, "gpt2", speed.MODELS["gpt2"], flags), 0.1)
        self.assertEqual(asked[0][1:5], ["roofline", "gpt2", "--device", "h200"])
        self.assertEqual(asked[0][-7:], ["--attention", "cudnn", "--no-cuda-graphs", "--lora", "r=2", "--pack", "--json"])

    def test_of_an_unknown_gpu_nothing_is_expected(self):
        for gpus, broken in ('[{"name": "a GPU that nobody knows"}]', "-"), ('[{"name": "NVIDIA H200"}]', "unexpected"):
            self.make(gpus=gpus, broken=broken)
            self.assertIsNone(speed.expected_step(self.kit, "gpt2", speed.MODELS["gpt2"], []))

    def test_without_algorithms_the_rest_is_measured(self):
        self.make(broken="untuned")
        rows = Rows()
        result = speed.train_gpt2(self.kit, Clock(60), rows)
        self.assertFalse(result["ok"])
        self.assertIn("algorithms: exit 2: sluice: cuBLASLt is missing", result["notes"])
        self.assertAlmostEqual(rows.get("sluice")["step_seconds"], 0.101)
        self.assertAlmostEqual(rows.get("sluice, cuDNN's attention")["step_seconds"], 0.101)

    def test_the_peers_steps_are_measured(self):
        write_program(self.folder / "python", """#!/bin/sh
[ "$1" = -c ] && echo True && exit
echo '{"step": 1, "step_seconds": 9}'
for step in 2 3 4; do echo '{"step": 2, "step_seconds": 0.202}'; done
echo '{"peer": "torch", "compiled": true, "step_s_median": 0.202}'
""")
        self.kit.python = self.folder / "python"
        result = speed.train_gpt2(self.kit, Clock(60), Rows())
        self.assertAlmostEqual(result["times_peer"], 2)

    def test_a_run_that_fails_at_its_end_keeps_its_steps(self):
        self.make(broken="late")
        rows = Rows()
        result = speed.train_gpt2(self.kit, Clock(60), rows)
        self.assertFalse(result["ok"])
        row = rows.get("sluice, cuDNN's attention")
        self.assertEqual(len(row["seconds"]), 10)
        self.assertAlmostEqual(row["step_seconds"], 0.101)
        self.assertEqual(row["error"], "exit 1: sluice: no evaluation")
        self.assertEqual(row["stderr"], [["sluice: no evaluation"]])

    def test_smoke_tries_four_ways_and_two_processes(self):
        self.make(broken="late")
        rows = Rows()
        result = smoke.smoke(self.kit, Clock(60), rows)
        self.assertEqual((result["ok"], result["summary"]), (False, "5 of 6 runs are well; not: gpt2, cuDNN's attention"))
        self.assertTrue(rows.get("2 processes, fp32")["complete"])

    def test_the_lines_of_a_benchmark_that_crashes_are_kept(self):
        write_program(self.folder / "cuda_kernels_bench", "#!/bin/sh\necho layer_norm 81 %\necho lost >&2\nexit 3\n")
        rows = Rows()
        result = benches.bench_kernels(self.kit, Clock(60), rows)
        self.assertEqual((result["ok"], result["notes"]), (False, ["cuda_kernels_bench: exit 3: lost"]))
        self.assertEqual(rows.get("cuda_kernels_bench")["lines"], ["layer_norm 81 %"])

    def test_a_part_that_raises_costs_only_itself(self):
        part = parts.Part("odd", lambda kit, clock, rows: {}["nothing"], 5)
        result = parts.run_part(part, self.kit, Rows(), 5)
        self.assertEqual(result["status"], "failed")
        self.assertIn("KeyError", result["summary"])


if __name__ == "__main__":
    unittest.main()
