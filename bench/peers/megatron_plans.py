#!/usr/bin/env python3
"""Whether Megatron's layout class accepts what `sluice plan --format megatron` prints.

    /path/to/python bench/peers/megatron_plans.py build/release/tools/sluice

Needs a Python with torch and megatron-core (0.16). For each plan: PipelineParallelLayerLayout parses and validates
the layout for the number of blocks of the model, has the number of stages that the arguments say, and the batch
divides as Megatron asks. Prints one line per plan; exit code 1 where one is refused.
"""
import argparse
import shlex
import subprocess
import sys

from megatron.core.transformer.pipeline_parallel_layer_layout import PipelineParallelLayerLayout

# model, its blocks, its blocks that predict ahead
MODELS = [("gpt2", 12, 0), ("gpt2-xl", 48, 0), ("llama-3.1-8b", 32, 0), ("llama-3.1-70b", 80, 0),
          ("llama-3.1-405b", 126, 0), ("mixtral-8x7b", 32, 0), ("deepseek-v3", 61, 1)]
ASKED = ["--devices 4 --global-batch 64", "--devices 8 --tensor-parallel 2 --data-parallel 2 --global-batch 64",
         "--devices 16 --tensor-parallel auto --data-parallel auto --micro-batch-size auto --global-batch 128 --zero 1",
         "--devices 64 --tensor-parallel 8 --data-parallel auto --global-batch 256 --zero 1 --sequence-parallel",
         "--devices 8 --schedule interleaved --chunks 2 --global-batch 64", "--devices 4 --micro-batches 6",
         "--devices 1024 --tensor-parallel 8 --data-parallel auto --global-batch 1024 --zero 1"]


def check(arguments, blocks, predictors):
    parser = argparse.ArgumentParser()
    for name in ("tensor-model-parallel-size", "pipeline-model-parallel-size", "micro-batch-size", "global-batch-size",
                 "seq-length", "recompute-num-layers", "mtp-num-layers"):
        parser.add_argument(f"--{name}", type=int)
    for name in ("sequence-parallel", "bf16", "use-distributed-optimizer"):
        parser.add_argument(f"--{name}", action="store_true")
    parser.add_argument("--pipeline-model-parallel-layout")
    parser.add_argument("--recompute-granularity", choices=["full", "selective"])
    parser.add_argument("--recompute-method", choices=["uniform", "block"])
    said = parser.parse_args(shlex.split(arguments.replace("|", r"\|")))
    ranks = said.pipeline_model_parallel_size
    layout = PipelineParallelLayerLayout(said.pipeline_model_parallel_layout, ranks)
    layout.validate_layer_layout(blocks, said.mtp_num_layers)
    if (said.mtp_num_layers or 0) != predictors:
        raise ValueError(f"{said.mtp_num_layers} blocks predict ahead, not {predictors}")
    chunks = layout.virtual_pipeline_model_parallel_size
    if chunks > 1 and ranks < 2:
        raise ValueError("interleaving needs 2 ranks")
    return f"PP {ranks}, VPP {chunks}, TP {said.tensor_model_parallel_size}, recompute {said.recompute_granularity}"


def main():
    refused = planned = 0
    for model, blocks, predictors in MODELS:
        for asked in ASKED:
            command = [sys.argv[1], "plan", model, "--device", "h100", *asked.split(), "--format", "megatron"]
            answer = subprocess.run(command, capture_output=True, text=True)
            if answer.returncode != 0:
                print(f"{model} {asked}: no plan: {answer.stderr.strip().splitlines()[-1][:110]}")
                continue
            planned += 1
            try:
                print(f"{model} {asked}: {check(answer.stdout, blocks, predictors)}")
            except Exception as why:
                refused += 1
                print(f"{model} {asked}: REFUSED: {why}\n{answer.stdout}")
    print(f"{planned} plans, {refused} refused")
    return refused > 0 or planned == 0


if __name__ == "__main__":
    sys.exit(main())
