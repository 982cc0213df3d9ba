"""PyTorch on the work of `sluice train --model gpt2`: a line of JSON per step, and one that sums up.

    python3 torch_peer.py --data TEXT                      GPT-2 124M in bf16 on a GPU, through torch.compile
    python3 torch_peer.py --data TEXT --device cpu --eager --layers 2 --dim 32 --heads 2 --vocab 256 --seq 32

The model is GPT-2's: pre-norm blocks, learned positions, tanh GELU, biases, a head that is the token embedding. A step is
--micro-batches micro-batches, the global gradient norm clipped to 1, and a fused AdamW. bf16 is autocast over fp32 weights,
with a residual stream in bf16. The loss is compiled with the model: by itself it would pass over fp32 logits several
times, which no user of torch.compile would accept. A step is timed from its first forward until the GPU is done with it; its
batch is on the GPU before.
"""
import argparse
import json
import pathlib
import statistics
import time

import torch
from torch import nn
from torch.nn import functional

CLIP = 1.0


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.attention_norm, self.mlp_norm = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.query_key_value, self.project = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.expand, self.shrink = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def attend(self, x):
        batch, length, dim = x.shape
        packed = self.query_key_value(x).view(batch, length, 3, self.heads, dim // self.heads)
        query, key, value = packed.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.project(mixed.transpose(1, 2).reshape(batch, length, dim))

    def forward(self, x):
        x = x + self.attend(self.attention_norm(x))
        return x + self.shrink(functional.gelu(self.expand(self.mlp_norm(x)), approximate="tanh"))


class Gpt(nn.Module):
    """Tokens and the tokens that follow them, both [batch, seq], to the mean loss."""

    def __init__(self, args):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(args.vocab, args.dim), nn.Embedding(args.seq, args.dim)
        self.blocks = nn.ModuleList(Block(args.dim, args.heads) for _ in range(args.layers))
        self.norm = nn.LayerNorm(args.dim)
        self.dtype = getattr(torch, args.dtype)
        for embedding in (self.tokens, self.positions):
            nn.init.normal_(embedding.weight, std=0.02)

    def forward(self, tokens, targets):
        with torch.autocast(tokens.device.type, torch.bfloat16, enabled=self.dtype == torch.bfloat16):
            x = (self.tokens(tokens) + self.positions.weight).to(self.dtype)
            for block in self.blocks:
                x = block(x)
            logits = functional.linear(self.norm(x), self.tokens.weight)
        return functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def batches(args):
    """Endless pairs of [micro_batches, micro_batch, seq] tokens and the tokens that follow them, on the device."""
    text = torch.frombuffer(bytearray(pathlib.Path(args.data).read_bytes()), dtype=torch.uint8)
    generator = torch.Generator().manual_seed(args.seed)
    window = torch.arange(args.seq + 1)
    while True:
        starts = torch.randint(len(text) - args.seq, (args.micro_batches, args.micro_batch, 1), generator=generator)
        found = (text[starts + window].long() % args.vocab).to(args.device)
        yield found[..., :-1].contiguous(), found[..., 1:].contiguous()


def train_step(args, loss_of, model, optimizer, batch):
    """The mean loss over the micro-batches; to read it is to wait for the device."""
    total = torch.zeros((), device=args.device)
    for tokens, targets in zip(*batch):
        loss = loss_of(tokens, targets) / args.micro_batches
        loss.backward()
        total += loss.detach()
    nn.utils.clip_grad_norm_(model.parameters(), CLIP)
    optimizer.step()
    optimizer.zero_grad()
    return total.item()


def wait(device):
    if device == "cuda":
        torch.cuda.synchronize()


def train(args):
    torch.manual_seed(args.seed)
    if args.threads:
        torch.set_num_threads(args.threads)
    torch.set_float32_matmul_precision("high")
    model = Gpt(args).to(args.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    loss_of = model if args.eager else torch.compile(model)
    seconds, data, loss = [], batches(args), None
    for step in range(1, args.warmup + args.steps + 1):
        batch = next(data)
        wait(args.device)
        start = time.perf_counter()
        loss = train_step(args, loss_of, model, optimizer, batch)
        wait(args.device)
        seconds.append(time.perf_counter() - start)
        print(json.dumps({"step": step, "loss": loss, "step_seconds": seconds[-1]}), flush=True)
    report(args, seconds[args.warmup:], loss)


def report(args, seconds, loss):
    tokens = args.micro_batch * args.micro_batches * args.seq
    flops = 6 * (12 * args.layers * args.dim**2 + args.vocab * args.dim + args.layers * args.seq * args.dim) * tokens
    median = statistics.median(seconds)
    print(json.dumps({
        "peer": f"torch {torch.__version__}", "mode": "single", "schedule": None, "dtype": args.dtype,
        "compiled": not args.eager, "tied": True, "threads": torch.get_num_threads(), "layers": args.layers, "dim": args.dim,
        "seq": args.seq, "micro_batch": args.micro_batch, "micro_batches": args.micro_batches, "step_s_median": median,
        "step_s_min": min(seconds), "tflops": flops / median / 1e12, "tokens_per_s": tokens / median,
        "tokens_per_s_best": tokens / min(seconds),
        "loss": loss}), flush=True)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="a text file; its bytes are the tokens")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--dtype", choices=["bfloat16", "float32"], default="bfloat16")
    parser.add_argument("--eager", action="store_true", help="without torch.compile")
    parser.add_argument("--threads", type=int, default=0, help="of the CPU (default: PyTorch's)")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=50304)
    parser.add_argument("--seq", type=int, default=1024)
    parser.add_argument("--micro-batch", type=int, default=16)
    parser.add_argument("--micro-batches", type=int, default=4)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--warmup", type=int, default=2, help="steps before those that are summed up")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    train(parse_arguments())
