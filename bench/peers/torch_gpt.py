"""PyTorch on the work of `sluice train --model char-gpt`: one JSON line with the time of every step.

    python3 torch_gpt.py --data TEXT                                one process, two threads, eager
    python3 torch_gpt.py --data TEXT --compile --dtype bf16         the same through torch.compile, in bfloat16
    python3 torch_gpt.py --data TEXT --pipeline 1F1B                two processes, torch.distributed.pipelining over gloo

The model is GPT-2's: pre-norm blocks, learned positions, tanh GELU, biases, an untied head. A step is `--micro-batches`
micro-batches, the global gradient norm clipped to 1, and AdamW. bf16 is autocast over fp32 weights. The pipeline's
stages are equal runs of blocks; the norm is summed over all of them, so the work is the same in every mode.
Steps are timed from the first forward to the end of the optimizer's step; the batch is drawn before.
"""

import argparse
import contextlib
import json
import pathlib
import socket
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import pipelining
from torch.nn import functional

VOCABULARY = 256
CLIP = 1.0


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(dim)
        self.query_key_value = nn.Linear(dim, 3 * dim)
        self.project = nn.Linear(dim, dim)
        self.mlp_norm = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(approximate="tanh"), nn.Linear(4 * dim, dim))

    def attend(self, x):
        batch, length, dim = x.shape
        parts = self.query_key_value(x).chunk(3, dim=-1)
        query, key, value = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in parts)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.project(mixed.transpose(1, 2).reshape(batch, length, dim))

    def forward(self, x):
        x = x + self.attend(self.attention_norm(x))
        return x + self.mlp(self.mlp_norm(x))


class Stage(nn.Module):
    """Stage `index` of `count`: the first one embeds tokens, the last one ends in logits."""

    def __init__(self, args, index, count):
        super().__init__()
        share = range(args.layers * index // count, args.layers * (index + 1) // count)
        self.tokens = nn.Embedding(VOCABULARY, args.dim) if index == 0 else None
        self.positions = nn.Embedding(args.seq, args.dim) if index == 0 else None
        self.blocks = nn.Sequential(*(Block(args.dim, args.heads) for _ in share))
        last = index == count - 1
        self.norm = nn.LayerNorm(args.dim) if last else None
        self.head = nn.Linear(args.dim, VOCABULARY, bias=False) if last else None
        self.dtype = torch.bfloat16 if args.dtype == "bf16" else torch.float32

    def forward(self, x):
        autocast = torch.autocast("cpu", torch.bfloat16) if self.dtype == torch.bfloat16 else contextlib.nullcontext()
        with autocast:
            if self.tokens is not None:
                x = (self.tokens(x) + self.positions.weight[: x.shape[1]]).to(self.dtype)
            x = self.blocks(x)
            return x if self.head is None else self.head(self.norm(x))


def cross_entropy(logits, targets):
    return functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def batches(args):
    """Endless pairs of [sequences, seq] tokens and the tokens that follow them."""
    text = torch.frombuffer(bytearray(pathlib.Path(args.data).read_bytes()), dtype=torch.uint8)
    generator = torch.Generator().manual_seed(args.seed)
    window = torch.arange(args.seq + 1)
    while True:
        starts = torch.randint(len(text) - args.seq, (args.micro_batch_size * args.micro_batches, 1), generator=generator)
        tokens = text[starts + window].long()
        yield tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def make_optimizer(parameters):
    return torch.optim.AdamW(parameters, lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1, fused=True)


def report(args, seconds, loss, threads):
    print(json.dumps({
        "peer": f"PyTorch {torch.__version__}",
        "mode": args.pipeline or ("compiled" if args.compile else "eager"),
        "dtype": args.dtype,
        "processes": args.stages if args.pipeline else 1,
        "threads": threads,
        "step_seconds": seconds[args.warmup:],
        "tokens_per_step": args.micro_batch_size * args.micro_batches * args.seq,
        "final_loss": loss,
    }), flush=True)


def train_whole(args):
    threads = args.threads or 2
    torch.set_num_threads(threads)
    torch.manual_seed(args.seed)
    model = Stage(args, 0, 1)
    optimizer = make_optimizer(model.parameters())
    run = torch.compile(model) if args.compile else model
    seconds, data = [], batches(args)
    for _ in range(args.warmup + args.steps):
        inputs, targets = next(data)
        start = time.perf_counter()
        total = torch.zeros(())
        for x, y in zip(inputs.split(args.micro_batch_size), targets.split(args.micro_batch_size)):
            loss = cross_entropy(run(x), y) / args.micro_batches
            loss.backward()
            total += loss.detach()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        seconds.append(time.perf_counter() - start)
    report(args, seconds, total.item(), threads)


def clip_over_stages(parameters):
    """clip_grad_norm_ for a model whose parts are in several processes."""
    squares = torch.stack([p.grad.square().sum() for p in parameters]).sum()
    dist.all_reduce(squares)
    scale = (CLIP / (squares.sqrt() + 1e-6)).clamp(max=1.0)
    for parameter in parameters:
        parameter.grad.mul_(scale)


def train_rank(rank, args, port):
    """One process of the pipeline; schedules with several stages per rank place them in a loop."""
    torch.set_num_threads(args.threads or 1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=args.stages)
    torch.manual_seed(args.seed)
    schedule_class = pipelining.schedules.get_schedule_class(args.pipeline)
    looped = issubclass(schedule_class, pipelining.schedules.PipelineScheduleMulti)
    count = args.stages * (2 if looped else 1)
    parts = {index: Stage(args, index, count) for index in range(rank, count, args.stages)}
    stages = [pipelining.PipelineStage(part, index, count, torch.device("cpu")) for index, part in parts.items()]
    schedule = schedule_class(stages if looped else stages[0], args.micro_batches, loss_fn=cross_entropy)
    parameters = [parameter for part in parts.values() for parameter in part.parameters()]
    optimizer = make_optimizer(parameters)
    seconds, data, last = [], batches(args), count - 1 in parts
    for _ in range(args.warmup + args.steps):
        inputs, targets = next(data)
        losses = []
        dist.barrier()
        start = time.perf_counter()
        feed = (inputs,) if rank == 0 else ()
        schedule.step(*feed, **({"target": targets, "losses": losses} if last else {}))
        clip_over_stages(parameters)
        optimizer.step()
        optimizer.zero_grad()
        dist.barrier()
        seconds.append(time.perf_counter() - start)
    if last:
        report(args, seconds, torch.stack(losses).mean().item(), torch.get_num_threads())
    dist.destroy_process_group()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="a text file; its bytes are the tokens")
    parser.add_argument("--dtype", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--compile", action="store_true", help="torch.compile (one process only)")
    parser.add_argument("--pipeline", metavar="SCHEDULE", help="GPipe, 1F1B, Interleaved1F1B, ...")
    parser.add_argument("--stages", type=int, default=2, help="processes of the pipeline")
    parser.add_argument("--threads", type=int, default=0, help="threads a process (default: 2, in a pipeline 1)")
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--heads", type=int, default=6)
    parser.add_argument("--seq", type=int, default=256)
    parser.add_argument("--micro-batch-size", type=int, default=4)
    parser.add_argument("--micro-batches", type=int, default=8)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--warmup", type=int, default=2, help="steps before those that are timed")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def main():
    args = parse_arguments()
    if not args.pipeline:
        return train_whole(args)
    torch.multiprocessing.spawn(train_rank, args=(args, free_port()), nprocs=args.stages)


if __name__ == "__main__":
    main()
