#!/usr/bin/env python3
"""A Hugging Face model on two PyTorch processes: sluice's plan beside PyTorch's own 1F1B over an even cut.

    PYTHONPATH=build/release/python /path/to/python bench/peers/torch_pipeline.py [--rounds 3] [--steps 8]

Needs torch (2.15), transformers and the package `sluice` (any build has it in its folder `python`). Every layer is
measured, the plan is made (sluice.torch), and both pipelines train the same model on the same data, in turns, one
thread per process. Prints the median step of each round's processes, the least of all rounds, the gain, and the gain
that the two plans predict. Losses must agree to 1e-4 relative; exit code 1 where they do not.
"""
import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time

import torch
import transformers

import sluice
import sluice.torch as st

RANKS, MICRO_BATCHES, SAMPLES, TOKENS = 2, 8, 1, 128


def loss_fn(logits, targets):
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def layers():
    """A Llama whose vocabulary is large for its width, as those of small models are: its head is as much as many blocks."""
    torch.manual_seed(3)
    config = transformers.LlamaConfig(
        vocab_size=16000, hidden_size=192, intermediate_size=512, num_hidden_layers=8, num_attention_heads=4,
        num_key_value_heads=2, tie_word_embeddings=False)
    return st.layers_of(transformers.AutoModelForCausalLM.from_config(config))


def batch(step):
    generator = torch.Generator().manual_seed(step)
    text = torch.randint(16000, (MICRO_BATCHES * SAMPLES, TOKENS + 1), generator=generator)
    return text[:, :-1].contiguous(), text[:, 1:].contiguous()


def plans():
    """sluice's plan, and that of an even cut under 1F1B, of the same measured layers."""
    model = layers()
    target = batch(0)[1][:SAMPLES]
    profile = st.profile(model, batch(0)[0][:SAMPLES], loss_fn=lambda out: loss_fn(out, target), repeats=15)
    half = (len(model) - 1) // 2
    even = f"0-{half},{half + 1}-{len(model) - 1}"
    return (profile.plan(devices=RANKS, micro_batches=MICRO_BATCHES),
            profile.plan(devices=RANKS, micro_batches=MICRO_BATCHES, schedule="1f1b", partition=even))


def worker(rank, port, kind, steps, folder):
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.distributed.init_process_group("gloo", rank=rank, world_size=RANKS)
    plan = sluice.read_plan(f"{folder}/{kind}.plan.json")
    model = layers()
    if kind == "sluice":
        run = st.pipeline(model, plan, loss_fn=loss_fn)
    else:
        from torch.distributed.pipelining import PipelineStage, Schedule1F1B
        own = st.stage_modules(model, plan, rank)
        run = Schedule1F1B(PipelineStage(own[rank], rank, RANKS, torch.device("cpu")), MICRO_BATCHES, loss_fn=loss_fn)
    own = st.stage_modules(model, plan, rank)
    optimizer = torch.optim.SGD([p for module in own.values() for p in module.parameters()], lr=0.1)
    seconds, losses = [], []
    for step in range(steps):
        inputs, targets = batch(step)
        torch.distributed.barrier()
        start = time.perf_counter()
        optimizer.zero_grad()
        parts = []
        last = len(plan.stages) - 1 in own
        run.step(*([inputs] if 0 in own else []), **({"target": targets, "losses": parts} if last else {}))
        optimizer.step()
        torch.distributed.barrier()
        seconds.append(time.perf_counter() - start)
        if last:
            losses.append(torch.stack([part.detach() for part in parts]).mean().item())
    with open(f"{folder}/{kind}.{rank}.json", "w") as file:
        json.dump({"seconds": statistics.median(seconds[2:]), "losses": losses}, file)
    torch.distributed.destroy_process_group()


def train(kind, steps, folder):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    processes = [subprocess.Popen([sys.executable, __file__, "--worker", f"{rank},{port},{kind},{steps},{folder}"],
                                  env={**os.environ, "OMP_NUM_THREADS": "1"}) for rank in range(RANKS)]
    if any(process.wait() != 0 for process in processes):
        sys.exit(f"{kind}: a process failed")
    results = []
    for rank in range(RANKS):
        with open(f"{folder}/{kind}.{rank}.json") as file:
            results.append(json.load(file))
    return max(r["seconds"] for r in results), next(r["losses"] for r in results if r["losses"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        rank, port, kind, steps, folder = options.worker.split(",")
        return worker(int(rank), int(port), kind, int(steps), folder)
    import tempfile
    torch.set_num_threads(1)
    best, even = plans()
    with tempfile.TemporaryDirectory() as folder:
        for kind, plan in (("sluice", best), ("1f1b", even)):
            print(f"{kind:6}  {plan.schedule}, layers {plan.partition}: {plan.step_seconds * 1e3:.1f} ms predicted")
            with open(f"{folder}/{kind}.plan.json", "w") as file:
                file.write(plan.to_json())
        least, losses = {}, {}
        for round_ in range(options.rounds):
            for kind in ("sluice", "1f1b"):
                seconds, losses[kind] = train(kind, options.steps, folder)
                least[kind] = min(least.get(kind, seconds), seconds)
                print(f"round {round_}  {kind:6}  {seconds * 1e3:.1f} ms per step", flush=True)
    agree = all(abs(a - b) <= 1e-4 * abs(b) for a, b in zip(losses["sluice"], losses["1f1b"]))
    print(f"least: sluice {least['sluice'] * 1e3:.1f} ms, PyTorch's 1F1B {least['1f1b'] * 1e3:.1f} ms: "
          f"{least['1f1b'] / least['sluice']:.2f} times as fast; predicted {even.step_seconds / best.step_seconds:.2f}")
    print("losses " + ("agree" if agree else f"DIFFER: {losses}"))
    return not agree


if __name__ == "__main__":
    sys.exit(main())
