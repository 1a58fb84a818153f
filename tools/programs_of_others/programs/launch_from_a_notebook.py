"""What a notebook does: a function of its own, trained by two forks of this process.

`never`, `looked` or `used`: what the notebook has done with its GPUs before.
"""

from __future__ import annotations

import sys

import torch
from accelerate import Accelerator, notebook_launcher


def train() -> None:
    """One step of DDP; its gradient is the mean over both processes."""
    accelerator = Accelerator()
    torch.manual_seed(0)
    model = accelerator.prepare(torch.nn.Linear(3, 1))
    rows = torch.full((2, 3), 1.0 + accelerator.process_index, device=accelerator.device)
    model(rows).mean().backward()
    gradient = model.module.weight.grad
    assert gradient.tolist() == [[1.5, 1.5, 1.5]], gradient
    total = accelerator.reduce(torch.ones(1, device=accelerator.device))
    sys.stdout.write(f"{accelerator.device} is one of {int(total)}\n")  # in one piece
    sys.stdout.flush()


if __name__ == "__main__":
    if sys.argv[1] == "looked":
        assert torch.cuda.is_available()
        assert torch.cuda.device_count() == 2
    if sys.argv[1] == "used":
        torch.ones(1, device="cuda")
    notebook_launcher(train, num_processes=2, use_port=sys.argv[2])
