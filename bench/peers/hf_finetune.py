"""transformers, and PEFT, on the work of `sluice train --init FOLDER`: one JSON line with the time of every step.

    python3 hf_finetune.py make --config config.json FOLDER            a folder with random weights of that shape, in bf16
    python3 hf_finetune.py train --tokens TOKENS.bin FOLDER            trains all weights
    python3 hf_finetune.py train --tokens TOKENS.bin --lora 16 FOLDER  trains an adapter beside every linear map of a block

TOKENS.bin holds one window of --seq tokens and the token after it, uint16, or uint32 where the vocabulary has more than 65,536
words; every sample is that window. A step is --micro-batches micro-batches, the global gradient norm clipped to 1, and AdamW.
--dtype bf16 is autocast, as transformers' Trainer does it with bf16=True: over fp32 weights where all are trained, and over
frozen weights of bf16 beside an adapter of fp32. Steps are timed from the first forward to the end of the optimizer's step.
"""

import argparse
import json
import pathlib
import time

import torch
import transformers
from torch.nn import functional
from transformers import AutoConfig, AutoModelForCausalLM

CLIP = 1.0
TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def make(args):
    torch.manual_seed(args.seed)
    config = AutoConfig.for_model(**json.loads(pathlib.Path(args.config).read_text()))
    AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).save_pretrained(args.folder)


def add_adapter(model, rank):
    import peft  # only needed here

    return peft.get_peft_model(model, peft.LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear",
                                                      task_type="CAUSAL_LM"))


def load_model(args):
    weights = TYPES[args.dtype] if args.lora else torch.float32
    model = AutoModelForCausalLM.from_pretrained(args.folder, dtype=weights)
    model.config.use_cache = False
    return (add_adapter(model, args.lora) if args.lora else model).train()


def read_window(args, vocabulary):
    """Tokens [micro_batch_size, seq], and those that follow them."""
    kind = torch.uint16 if vocabulary <= 65536 else torch.uint32
    tokens = torch.frombuffer(bytearray(pathlib.Path(args.tokens).read_bytes()), dtype=kind).long()
    rows = tokens[: args.seq + 1].expand(args.micro_batch_size, -1)
    return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()


def make_optimizer(trained, rate):
    """Matrices decay; biases and norms do not."""
    groups = [{"params": [p for p in trained if p.dim() > 1], "weight_decay": 0.1},
              {"params": [p for p in trained if p.dim() == 1], "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.95), fused=True)


def take_step(args, forward, inputs, targets):
    """The loss of one step; its gradients are added up."""
    total = torch.zeros(())
    for _ in range(args.micro_batches):
        with torch.autocast("cpu", torch.bfloat16, enabled=args.dtype == "bf16"):
            logits = forward(input_ids=inputs).logits
        loss = functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten()) / args.micro_batches
        loss.backward()
        total += loss.detach()
    return total.item()


def train(args):
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    model = load_model(args)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = make_optimizer(trained, args.lr)
    inputs, targets = read_window(args, model.config.vocab_size)
    forward = torch.compile(model) if args.compile else model
    seconds, losses = [], []
    for _ in range(args.warmup + args.steps):
        start = time.perf_counter()
        losses.append(take_step(args, forward, inputs, targets))
        torch.nn.utils.clip_grad_norm_(trained, CLIP)
        optimizer.step()
        optimizer.zero_grad()
        seconds.append(time.perf_counter() - start)
    print(json.dumps({
        "peer": f"transformers {transformers.__version__}, PyTorch {torch.__version__}",
        "mode": "compiled" if args.compile else "eager",
        "dtype": args.dtype,
        "threads": args.threads,
        "parameters": sum(p.numel() for p in model.parameters()),
        "trained": sum(p.numel() for p in trained),
        "step_seconds": seconds[args.warmup:],
        "tokens_per_step": args.micro_batch_size * args.micro_batches * args.seq,
        "losses": losses,
    }), flush=True)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["make", "train"])
    parser.add_argument("folder", help="Hugging Face's: config.json and model.safetensors")
    parser.add_argument("--config", help="make: the config.json to write weights for")
    parser.add_argument("--tokens", help="train: the file with the window")
    parser.add_argument("--lora", type=int, default=0, metavar="RANK", help="with alpha 2 x RANK; 0: train all weights")
    parser.add_argument("--dtype", choices=TYPES, default="bf16")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seq", type=int, default=512)
    parser.add_argument("--micro-batch-size", type=int, default=1)
    parser.add_argument("--micro-batches", type=int, default=2)
    parser.add_argument("--lr", type=float, default=1e-4)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--warmup", type=int, default=1, help="steps before those that are timed")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def main():
    args = parse_arguments()
    make(args) if args.what == "make" else train(args)


if __name__ == "__main__":
    main()
