"""A model of uneven layers, and its data: the same in every process of test_torch.py."""

from typing import List, Tuple

import torch
from torch import nn

MICRO_BATCHES, STEPS, ROWS, WIDTH = 4, 3, 6, 24


class _Wide(nn.Module):
    """A layer whose middle is wider, so that layers take different times."""

    def __init__(self, middle: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, middle), nn.Linear(middle, WIDTH)

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = given + self.down(torch.tanh(self.up(given)))
        return out


def layers(frozen: int = 0) -> List[nn.Module]:
    """Of which the first ``frozen`` are not trained."""
    torch.manual_seed(5)
    made: List[nn.Module] = [_Wide(middle) for middle in (8, 8, 512, 8, 8, 8)]
    for layer in made[:frozen]:
        layer.requires_grad_(False)
    return made


def loss_fn(out: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.mse_loss(out, target)


def batches() -> List[Tuple[torch.Tensor, torch.Tensor]]:
    torch.manual_seed(6)
    shape = (MICRO_BATCHES * ROWS, WIDTH)
    return [(torch.randn(shape), torch.randn(shape)) for _ in range(STEPS)]


def reference(frozen: int = 0) -> List[float]:
    """The losses of one process without a pipeline: the mean over micro-batches."""
    model = nn.Sequential(*layers(frozen))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    losses = []
    for inputs, targets in batches():
        optimizer.zero_grad()
        parts = [
            loss_fn(model(x), y)
            for x, y in zip(inputs.chunk(MICRO_BATCHES), targets.chunk(MICRO_BATCHES))
        ]
        loss = torch.stack(parts).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
