"""``nn.DataParallel`` over simulated GPUs named ``cuda``: the gradients of one device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from unidev_torch_simulator.building import installed_torch

if TYPE_CHECKING:
    from fresh_programs import Python

PROGRAM = """
import copy
import unidev, torch  # in this order: torch looks for `cuda` while it is imported
from torch import nn

class Block(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        conv = lambda n, kernel, stride: nn.Conv2d(
            n, after, kernel, stride, kernel // 2, bias=False)
        self.path = nn.Sequential(
            conv(before, 3, stride), nn.BatchNorm2d(after), nn.ReLU(),
            conv(after, 3, 1), nn.BatchNorm2d(after))
        self.short = nn.Sequential()
        if stride != 1 or before != after:
            self.short = nn.Sequential(conv(before, 1, stride), nn.BatchNorm2d(after))

    def forward(self, x):
        return torch.relu(self.path(x) + self.short(x))

def resnet18(width):
    sizes = [width, width, 2 * width, 4 * width, 8 * width]
    blocks = [
        block
        for n, (before, after) in enumerate(zip(sizes, sizes[1:]))
        for block in (Block(before, after, 1 if n == 0 else 2), Block(after, after, 1))
    ]
    return nn.Sequential(
        nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
        nn.MaxPool2d(3, 2, 1), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(sizes[-1], 10))

torch.manual_seed(0)
# Batch norm by its statistics: in training each device has those of its own share of the batch.
net = resnet18(8).eval().cuda()
single = copy.deepcopy(net)
parallel = nn.DataParallel(net, device_ids=list(range(torch.cuda.device_count())))
optimizers = [torch.optim.SGD(each.parameters(), lr=0.01) for each in (single, parallel)]
for _ in range(2):
    x, y = torch.randn(8, 3, 32, 32).cuda(), torch.randint(0, 10, (8,)).cuda()
    for each, optimizer in zip((single, parallel), optimizers):
        optimizer.zero_grad()
        nn.functional.cross_entropy(each(x), y).backward()
        optimizer.step()
    for p, q in zip(single.parameters(), parallel.parameters()):
        assert q.grad.device == torch.device("cuda:0")
        torch.testing.assert_close(q.grad, p.grad, rtol=1e-3, atol=1e-5)
print("the same")
"""


@pytest.mark.skipif(
    installed_torch().accelerator is not None, reason="only torch's CPU build has room for `cuda`"
)
@pytest.mark.parametrize("gpus", ["2", "4"])
def test_a_resnet_on_several_gpus_has_the_gradients_of_one(python: Python, gpus: str) -> None:
    done = python(PROGRAM, UNIDEV_SIMULATE=gpus, UNIDEV_SIMULATE_AS="cuda")
    assert (done.returncode, done.stdout) == (0, "the same\n"), done.stderr
