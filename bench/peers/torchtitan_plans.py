#!/usr/bin/env python3
"""Checks that torchtitan (0.3) runs what `sluice plan --format torchtitan -o NAME.py` writes: its own reader of configurations,
its own division of the model and PyTorch's runtime of timetables, on CPUs over gloo, beside the whole model in each process.

  bench/peers/torchtitan_plans.py SLUICE        # with a Python that has torchtitan

Each schedule on 2 and 4 processes: loss, and the largest relative difference of a gradient; fails above 1e-5. Attention is
PyTorch's causal product: torchtitan's own needs a GPU to go backward.
"""
import copy
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torchtitan.config.manager import ConfigManager
from torchtitan.distributed import ParallelDims, parallel_dims
from torchtitan.distributed.pipeline_parallel import pipeline_llm
from torchtitan.models.common import attention

# The shape of torchtitan's llama3_debugmodel.
DEBUG_MODEL = {'model_type': 'llama', 'hidden_size': 256, 'intermediate_size': 768, 'num_hidden_layers': 6,
               'num_attention_heads': 16, 'num_key_value_heads': 16, 'vocab_size': 2048, 'max_position_embeddings': 2048,
               'rms_norm_eps': 1e-5, 'rope_theta': 500000, 'tie_word_embeddings': False}
SCHEDULES = ['gpipe', '1f1b', 'interleaved', 'zb-h1', 'zbv', 'auto']


def causal(_, q, k, v, scale=None, enable_gqa=False, **_rest):
    q, k, v = (tensor.transpose(1, 2) for tensor in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale, enable_gqa=enable_gqa).transpose(1, 2)


def train_rank():
    """One process of a run: 0 where its loss and gradients are those of one process."""
    torch.manual_seed(0)
    attention.FlexAttention.forward = causal
    parallel_dims.device_type = 'cpu'
    dist.init_process_group('gloo')
    config = ConfigManager().parse_args(['--module', sys.argv[1], '--config', 'llama3.llama3_debugmodel'])
    dims = ParallelDims(dp_replicate=1, dp_shard=1, cp=1, tp=1, pp=config.parallelism.pipeline_parallel_degree, ep=1,
                        world_size=dist.get_world_size())
    model_config = config.model_spec.model
    model_config.update_from_config(config=config)
    model = model_config.build()
    model.init_states(buffer_device=torch.device('cpu'))
    whole = copy.deepcopy(model)

    shape = config.training.local_batch_size, config.training.seq_len
    tokens, labels = (torch.randint(0, 2048, shape) for _ in range(2))

    def loss_of(logits, wanted):
        return F.cross_entropy(logits.flatten(0, 1).float(), wanted.flatten(), reduction='sum') / tokens.numel(), None

    schedule, parts, first, last = pipeline_llm(
        model, parallel_dims=dims, training=config.training, parallelism=config.parallelism, compile_config=config.compile,
        ac_config=config.activation_checkpoint, dump_folder='.', device=torch.device('cpu'), model_config=model_config,
        parallelize_fn=lambda part, **_: part, loss_fn=loss_of)
    losses = []
    schedule.step(*([tokens] if first else []), target=labels if last else None, losses=losses)
    loss = torch.stack([part.detach() for part in losses]).sum() if last else torch.zeros(())
    dist.all_reduce(loss)  # one rank has the last stage

    expected, _ = loss_of(whole(tokens), labels)
    expected.backward()
    gradients = {name: parameter.grad for name, parameter in whole.named_parameters()}
    worst = max(((parameter.grad - gradients[name]).abs().max() / gradients[name].abs().max()).item()
                for part in parts for name, parameter in part.named_parameters())
    stages = len(config.parallelism.module_fqns_per_model_part)
    if first:
        print(f'{stages} stages, {type(schedule).__name__}, loss {loss.item():.6f}, of one process {expected.item():.6f}, '
              f'gradients differ by {worst:.1e}')
    dist.destroy_process_group()
    return 0 if worst < 1e-5 and abs(loss.item() - expected.item()) < 1e-5 * expected.item() else 1


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(folder, 'debug.json')
        model.write_text(json.dumps(DEBUG_MODEL), encoding='ascii')
        for schedule in SCHEDULES:
            for processes in 2, 4:
                plan = [sys.argv[1], 'plan', model, '--devices', str(processes), '--device', 'h100', '--global-batch', '8',
                        '--micro-batch-size', '1', '--seq', '64', '--recompute', 'none', '--schedule', schedule,
                        '--format', 'torchtitan', '-o', pathlib.Path(folder, 'planned.py')]
                subprocess.run(plan, check=True, stderr=subprocess.DEVNULL)
                torchrun = [sys.executable, '-m', 'torch.distributed.run', '--standalone', '--nproc-per-node', str(processes)]
                run = subprocess.run([*torchrun, __file__, 'planned'], env={**os.environ, 'PYTHONPATH': folder},
                                     capture_output=True, text=True, check=False)
                failed += run.returncode != 0
                said = run.stdout.strip() if run.returncode == 0 else run.stderr[-2000:]
                print(f'{schedule:12} {processes} processes: {said}', flush=True)
    print(f'{2 * len(SCHEDULES) - failed} of {2 * len(SCHEDULES)} equal to one process')
    return failed > 0


if __name__ == '__main__':
    sys.exit(train_rank() if 'RANK' in os.environ else main())
