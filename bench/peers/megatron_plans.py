#!/usr/bin/env python3
"""Whether Megatron accepts what `sluice plan --format megatron` prints.

    /path/to/python bench/peers/megatron_plans.py build/release/tools/sluice
    /path/to/python bench/peers/megatron_plans.py build/release/tools/sluice --megatron-lm /path/to/Megatron-LM

Needs a Python with torch and megatron-core (0.16). For each plan: PipelineParallelLayerLayout parses and validates
the layout for the number of blocks of the model, and has each stage on the rank, and among its chunks, where sluice
has it. With a checkout of Megatron-LM its own parse_args and validate_args read the plan beside the arguments that
describe the model, as on the first of the plan's processes on H100s; its TransformerConfig and its calculator of
micro-batches check them further, and all values are compared with what was asked. Prints one line per plan; exit code
1 where one is refused.
"""
import argparse
import shlex
import subprocess
import sys

# model, its blocks, its blocks that predict ahead
MODELS = [("gpt2", 12, 0), ("gpt2-xl", 48, 0), ("qwen3-0.6b", 28, 0), ("llama-3.1-8b", 32, 0), ("llama-3.1-70b", 80, 0),
          ("llama-3.1-405b", 126, 0), ("mixtral-8x7b", 32, 0), ("deepseek-v3", 61, 1)]
LAYERS = {"E": "embedding", "t": "decoder", "m": "mtp", "L": "loss"}
# On few devices these get memory that no device has: the arguments are what is looked at.
LARGE = {"llama-3.1-70b", "llama-3.1-405b", "mixtral-8x7b", "deepseek-v3"}
ASKED = ["--devices 4 --global-batch 64", "--devices 8 --tensor-parallel 2 --data-parallel 2 --global-batch 64",
         "--devices 16 --tensor-parallel auto --data-parallel auto --micro-batch-size auto --global-batch 128 --zero 1",
         "--devices 64 --tensor-parallel 8 --data-parallel auto --global-batch 256 --zero 1 --sequence-parallel",
         "--devices 8 --schedule interleaved --chunks 2 --global-batch 64", "--devices 4 --micro-batches 6",
         "--devices 1024 --tensor-parallel 8 --data-parallel auto --global-batch 1024 --zero 1",
         "--devices 1 --micro-batch-size 1 --recompute full", "--devices 8 --data-parallel 4 --overlap-sync",
         "--devices 16 --tensor-parallel 4 --sequence-parallel --recompute full --micro-batches 8",
         "--devices 16 --data-parallel 2 --recompute selective --micro-batch-size 2 --dtype fp32",
         "--devices 4 --schedule interleaved --chunks 3 --data-parallel 2 --zero 1",
         "--devices 8 --optimizer sgd", "--devices 8 --data-parallel 2 --optimizer sgd --zero 1",
         "--devices 8 --tensor-parallel 2 --sequence-parallel --seq 1001",
         "--devices 16 --tensor-parallel 16 --sequence-parallel --global-batch 32",
         "--devices 512 --tensor-parallel 4 --sequence-parallel --data-parallel auto --global-batch 512 --zero 1"]


def check_layout(arguments, blocks, predictors):
    from megatron.core.transformer.pipeline_parallel_layer_layout import PipelineParallelLayerLayout
    parser = argparse.ArgumentParser()
    for name in ("tensor-model-parallel-size", "pipeline-model-parallel-size", "micro-batch-size", "global-batch-size",
                 "seq-length", "recompute-num-layers", "mtp-num-layers"):
        parser.add_argument(f"--{name}", type=int)
    for name in ("sequence-parallel", "bf16", "use-distributed-optimizer", "overlap-grad-reduce"):
        parser.add_argument(f"--{name}", action="store_true")
    parser.add_argument("--pipeline-model-parallel-layout")
    parser.add_argument("--recompute-granularity", choices=["full", "selective"])
    parser.add_argument("--recompute-method", choices=["uniform", "block"])
    parser.add_argument("--optimizer", choices=["adam", "sgd"])
    said = parser.parse_args(arguments)
    ranks = said.pipeline_model_parallel_size
    layout = PipelineParallelLayerLayout(said.pipeline_model_parallel_layout, ranks)
    layout.validate_layer_layout(blocks, said.mtp_num_layers)
    if (said.mtp_num_layers or 0) != predictors:
        raise ValueError(f"{said.mtp_num_layers} blocks predict ahead, not {predictors}")
    chunks = layout.virtual_pipeline_model_parallel_size
    if chunks > 1 and ranks < 2:
        raise ValueError("interleaving needs 2 ranks")
    for stage, letters in enumerate(said.pipeline_model_parallel_layout.split("|")):
        layers = [LAYERS[letter] for letter in letters]
        read = [layer.name for layer in layout.layout[stage % ranks][stage // ranks]]
        if read != layers:
            raise ValueError(f"stage {stage}: {layers}, but chunk {stage // ranks} of rank {stage % ranks} has {read}")
    return f"PP {ranks}, VPP {chunks}, TP {said.tensor_model_parallel_size}, recompute {said.recompute_granularity}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sluice")
    parser.add_argument("--megatron-lm", metavar="DIR", help="a checkout of Megatron-LM")
    flags = parser.parse_args()
    reader = None
    if flags.megatron_lm:
        sys.path.insert(0, flags.megatron_lm)  # its own megatron/core, where it has one
        from megatron_reader import MegatronReader
        reader = MegatronReader(flags.megatron_lm)
    refused = planned = 0
    for model, blocks, predictors in MODELS:
        for asked in ASKED:
            if model in LARGE and int(asked.split()[1]) < 64:
                asked += " --memory 16TiB"
            command = [flags.sluice, "plan", model, "--device", "h100", *asked.split(), "--format", "megatron"]
            answer = subprocess.run(command, capture_output=True, text=True)
            if answer.returncode != 0:
                print(f"{model} {asked}: no plan: {answer.stderr.strip().splitlines()[-1][:110]}", flush=True)
                continue
            planned += 1
            arguments = shlex.split(answer.stdout.replace("|", r"\|"))
            try:
                facts = check_layout(arguments, blocks, predictors)
                if reader:
                    facts += reader.check(model, shlex.split(asked), arguments, answer.stderr)
                print(f"{model} {asked}: {facts}", flush=True)
            except Exception as why:
                refused += 1
                print(f"{model} {asked}: REFUSED: {why}\n{answer.stdout}", flush=True)
    print(f"{planned} plans, {refused} refused")
    return refused > 0 or planned == 0


if __name__ == "__main__":
    sys.exit(main())
