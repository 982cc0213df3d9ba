"""Megatron-LM's own reading of a plan, for megatron_plans.py: megatron/training/arguments.py of a checkout.

Of its package megatron.training only that file runs, and what it imports: the package's __init__ starts up a trainer
and needs a GPU. Stand-ins take the place of the four functions of megatron/training/utils.py that the file uses; the
one that asks a GPU for its architecture says 9, as an H100 does.
"""
import contextlib
import importlib
import io
import os
import pathlib
import re
import sys
import types
import warnings

HOPPER = 9

# What a user adds for any model. The last two lines choose kernels that need neither a GPU nor Transformer Engine.
ANY_MODEL = """--mock-data --tokenizer-type NullTokenizer --lr 1e-4 --train-iters 10
    --transformer-impl local --no-rope-fusion --no-persist-layer-norm --no-masked-softmax-fusion
    --no-gradient-accumulation-fusion"""
LLAMA = """--swiglu --normalization RMSNorm --disable-bias-linear --group-query-attention --num-query-groups 8
    --position-embedding-type rope"""
LLAMA_3_1 = LLAMA + """ --rotary-base 500000 --use-rope-scaling --untie-embeddings-and-output-weights
    --vocab-size 128255 --max-position-embeddings 131072"""
# The shapes of sluice's presets (models/spec/presets.cc).
SHAPES = {
    "gpt2": "--num-layers 12 --hidden-size 768 --num-attention-heads 12 --max-position-embeddings 1024 "
            "--vocab-size 50256",
    "gpt2-xl": "--num-layers 48 --hidden-size 1600 --num-attention-heads 25 --max-position-embeddings 1024 "
               "--vocab-size 50256",
    "qwen3-0.6b": LLAMA + " --num-layers 28 --hidden-size 1024 --num-attention-heads 16 --ffn-hidden-size 3072 "
                          "--kv-channels 128 --qk-layernorm --rotary-base 1000000 --vocab-size 151935 "
                          "--max-position-embeddings 40960",
    "llama-3.1-8b": LLAMA_3_1 + " --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --ffn-hidden-size 14336",
    "llama-3.1-70b": LLAMA_3_1 + " --num-layers 80 --hidden-size 8192 --num-attention-heads 64 --ffn-hidden-size 28672",
    "llama-3.1-405b": LLAMA_3_1 + " --num-layers 126 --hidden-size 16384 --num-attention-heads 128 "
                                  "--ffn-hidden-size 53248",
    "mixtral-8x7b": LLAMA + " --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --ffn-hidden-size 14336 "
                            "--num-experts 8 --moe-router-topk 2 --rotary-base 1000000 --vocab-size 31999 "
                            "--untie-embeddings-and-output-weights --max-position-embeddings 32768",
    "deepseek-v3": "--num-layers 61 --hidden-size 7168 --num-attention-heads 128 --ffn-hidden-size 18432 --swiglu "
                   "--normalization RMSNorm --disable-bias-linear --position-embedding-type rope "
                   "--untie-embeddings-and-output-weights --multi-latent-attention --q-lora-rank 1536 "
                   "--kv-lora-rank 512 --qk-head-dim 128 --qk-pos-emb-head-dim 64 --v-head-dim 128 --qk-layernorm "
                   "--rotary-scaling-factor 40 --mscale 1.0 --mscale-all-dim 1.0 --num-experts 256 --moe-router-topk 8 "
                   "--moe-ffn-hidden-size 2048 --moe-shared-expert-intermediate-size 2048 "
                   "--moe-layer-freq ([0]*3+[1]*58) --moe-router-score-function sigmoid "
                   "--moe-router-enable-expert-bias --moe-router-pre-softmax --vocab-size 129279 "
                   "--max-position-embeddings 163840",
}


def utilities():
    """megatron.training.utils, as far as the arguments need it."""
    module = types.ModuleType("megatron.training.utils")

    def print_rank_0(message, rank=None):
        print(message)

    def warn_rank_0(message, rank=None):
        warnings.warn(message)

    def update_use_dist_ckpt(args):
        args.use_dist_ckpt = args.ckpt_format != "torch"

    def get_device_arch_version():
        return HOPPER

    for function in (print_rank_0, warn_rank_0, update_use_dist_ckpt, get_device_arch_version):
        setattr(module, function.__name__, function)
    return module


def flag_of(asked, name):
    """The value of a flag of the question, or None."""
    return asked[asked.index(name) + 1] if name in asked else None


class MegatronReader:
    """The arguments file of the checkout in `folder`."""

    def __init__(self, folder):
        training = pathlib.Path(folder).resolve() / "megatron" / "training"
        if not (training / "arguments.py").is_file():
            sys.exit(f"--megatron-lm {folder}: no megatron/training/arguments.py there; give a checkout of Megatron-LM")
        package = types.ModuleType("megatron.training")
        package.__path__ = [str(training)]
        sys.modules["megatron.training"] = package
        sys.modules["megatron.training.utils"] = utilities()
        self.arguments = importlib.import_module("megatron.training.arguments")

    def validated(self, typed, processes, connections):
        """What Megatron's own parser and checks make of the arguments `typed`, on the first of `processes`."""
        os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE=str(processes))
        os.environ.pop("CUDA_DEVICE_MAX_CONNECTIONS", None)
        if connections:
            os.environ["CUDA_DEVICE_MAX_CONNECTIONS"] = connections
        errors = io.StringIO()
        before, sys.argv = sys.argv, ["pretrain_gpt.py", *typed]
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(errors):
                return self.arguments.validate_args(self.arguments.parse_args())
        except SystemExit:
            raise ValueError(errors.getvalue().strip().splitlines()[-1]) from None
        finally:
            sys.argv = before

    def check(self, model, asked, plan, notes):
        """Raises where Megatron refuses `plan`, printed for `asked`, or reads of it something else than was asked.
        `notes` are what sluice says beside the arguments: the numbers of processes and replicas, the environment."""
        from megatron.core.num_microbatches_calculator import ConstantNumMicroBatchesCalculator
        processes, replicas = map(int, re.search(r"start (\d+) processes: (\d+) replica", notes).groups())
        connections = re.search(r"CUDA_DEVICE_MAX_CONNECTIONS=(\d+)", notes)
        typed = [*ANY_MODEL.split(), *SHAPES[model].split(), *plan]
        args = self.validated(typed, processes, connections and connections[1])
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            config = self.arguments.core_transformer_config_from_args(args)
            batches = ConstantNumMicroBatchesCalculator(args.global_batch_size, args.micro_batch_size,
                                                        args.data_parallel_size, False, 0)
        tensor = args.tensor_model_parallel_size
        # What Megatron checks only while it trains: MoELayer.forward, the split of the embedding's output along the
        # sequence, and DistributedOptimizer's constructor (megatron/core).
        if config.num_moe_experts and tensor > 1 and not config.sequence_parallel:
            raise ValueError("experts with tensor parallelism and without sequence parallelism")
        if config.sequence_parallel and args.seq_length % tensor != 0:
            raise ValueError(f"a sequence of {args.seq_length} does not split over {tensor}")
        if args.use_distributed_optimizer and args.optimizer != "adam":
            raise ValueError(f"the distributed optimizer has Adam only, not {args.optimizer}")

        chunks = config.pipeline_model_parallel_layout.virtual_pipeline_model_parallel_size
        expected = {
            "processes": (processes, int(flag_of(asked, "--devices"))),
            "replicas": (args.data_parallel_size, replicas),
            "all parallel sizes": (args.data_parallel_size * tensor * args.pipeline_model_parallel_size, processes),
            "VPP of arguments and configuration": (args.virtual_pipeline_model_parallel_size or 1, chunks),
            "optimizer": (args.optimizer, "sgd" if flag_of(asked, "--optimizer") == "sgd" else "adam"),
            "distributed optimizer": (args.use_distributed_optimizer, flag_of(asked, "--zero") == "1"),
            "overlap of gradient sums": (args.overlap_grad_reduce, "--overlap-sync" in asked),
            "sequence parallelism": (args.sequence_parallel, "--sequence-parallel" in asked and tensor > 1),
            "bf16": (args.bf16, flag_of(asked, "--dtype") != "fp32"),
        }
        for flag, value in (("--tensor-parallel", tensor), ("--data-parallel", args.data_parallel_size),
                            ("--chunks", chunks), ("--global-batch", args.global_batch_size),
                            ("--micro-batches", batches.get()), ("--micro-batch-size", args.micro_batch_size),
                            ("--seq", args.seq_length), ("--recompute", args.recompute_granularity)):
            if flag_of(asked, flag) not in (None, "auto"):
                expected[flag] = (str(value), flag_of(asked, flag))
        for name, (read, wanted) in expected.items():
            if read != wanted:
                raise ValueError(f"{name}: Megatron reads {read}, expected {wanted}")
        return f", DP {args.data_parallel_size}, {batches.get()} micro-batches: validated"
