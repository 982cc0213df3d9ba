"""One process of a pipeline that sluice.torch planned; for test_torch.py, which starts them.

torch_run.py RANK RANKS PORT PLAN OUT FROZEN: prints nothing; writes to OUT, on the rank of the last stage, losses, and how
often its layers ran forward in the last step.
"""

import json
import os
import sys

import sluice
import sluice.torch as st
import torch
from torch_model import MICRO_BATCHES, STEPS, batches, layers, loss_fn


def main() -> None:
    rank, ranks, port, plan, out, frozen = sys.argv[1:7]
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", rank=int(rank), world_size=int(ranks))
    saved = sluice.read_plan(plan)
    model = layers(int(frozen))
    run = st.pipeline(model, saved, loss_fn=loss_fn)
    own = st.stage_modules(model, saved, int(rank))
    last = len(saved.stages) - 1
    parameters = [p for module in own.values() for p in module.parameters()]
    forwards: list = []
    for module in own.values():
        for layer in module:
            layer.register_forward_hook(lambda *_: forwards.append(1))
    optimizer = torch.optim.SGD(parameters, lr=0.5)
    losses = []
    for inputs, targets in batches():
        optimizer.zero_grad()
        forwards.clear()  # PyTorch tries the layers out in the first step
        parts: list = []
        given = [inputs] if 0 in own else []
        wanted = {"target": targets, "losses": parts} if last in own else {}
        run.step(*given, **wanted)
        optimizer.step()
        if parts:
            losses.append(torch.stack([part.detach() for part in parts]).mean().item())
    if last in own:
        assert len(losses) == STEPS and MICRO_BATCHES > 0
        with open(out, "w", encoding="utf-8") as file:
            json.dump({"losses": losses, "forwards": len(forwards)}, file)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
