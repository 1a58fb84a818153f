"""Ten small models, each with a batch of it, on whose steps estimates of memory are tried.

``UNIDEV_SIMULATE=1 UNIDEV_SIMULATE_MEMORY=256MiB python plugins/unidev-torch/tests/estimated_models.py``
prints the table of ``docs/memory.md``: estimates beside what the simulated GPU counts.
"""  # noqa: E501  one command

from __future__ import annotations

import gc
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import unidev

if TYPE_CHECKING:
    from collections.abc import Callable

CLASSES = 10


class Residual(nn.Module):
    """A block of ResNet-18."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.one = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.two = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(after), nn.BatchNorm2d(after)])
        self.short = nn.Conv2d(before, after, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x: Any) -> Any:
        y = functional.relu(self.norms[0](self.one(x)))
        return functional.relu(self.norms[1](self.two(y)) + self.short(x))


def resnet_18() -> nn.Module:
    widths = ((64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1),
              (256, 512, 2), (512, 512, 1))  # fmt: skip
    blocks = [Residual(*each) for each in widths]
    return nn.Sequential(
        nn.Conv2d(3, 64, 3, 1, 1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2), *blocks,
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, CLASSES),
    )  # fmt: skip


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
        self.encoder, self.head = nn.TransformerEncoder(layer, 2), nn.Linear(64, CLASSES)

    def forward(self, x: Any) -> Any:
        return self.head(self.encoder(x).mean(1))


class Recurrent(nn.Module):
    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.cells, self.head = kind(32, 64, 2, batch_first=True), nn.Linear(64, CLASSES)

    def forward(self, x: Any) -> Any:
        return self.head(self.cells(x)[0][:, -1])


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 32, 3, padding=1)])
        self.up = nn.ConvTranspose2d(32, 16, 2, 2)
        self.last, self.head = nn.Conv2d(32, 8, 3, padding=1), nn.Linear(8, CLASSES)

    def forward(self, x: Any) -> Any:
        wide = functional.relu(self.down[0](x))
        low = functional.relu(self.down[1](functional.max_pool2d(wide, 2)))
        y = self.last(torch.cat([wide, self.up(low)], 1))
        return self.head(y.mean((2, 3)))


class Checkpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList(
            nn.Sequential(nn.Linear(64, 512), nn.GELU(), nn.Linear(512, 64)) for _ in range(3)
        )
        self.head = nn.Linear(64, CLASSES)

    def forward(self, x: Any) -> Any:
        for part in self.parts:
            x = checkpoint(part, x, use_reentrant=False)
        return self.head(x)


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.norm = nn.Embedding(2000, 64), nn.LayerNorm(64)
        self.head = nn.Linear(64, CLASSES)

    def forward(self, x: Any) -> Any:
        return self.head(self.norm(self.table(x.long())).mean(1))


def perceptron() -> nn.Module:
    return nn.Sequential(
        nn.Linear(64, 512), nn.ReLU(), nn.Dropout(0.3), nn.Linear(512, 256), nn.Tanh(),
        nn.Linear(256, CLASSES),
    )  # fmt: skip


def mobile() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 1), nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.GroupNorm(4, 16),
        nn.SiLU(), nn.AvgPool2d(4), nn.Flatten(), nn.Linear(16 * 64, CLASSES),
    )  # fmt: skip


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "ResNet-18": (resnet_18, (2, 3, 32, 32)),
    "transformer encoder": (Encoder, (16, 24, 64)),
    "LSTM": (lambda: Recurrent(nn.LSTM), (16, 12, 32)),
    "GRU": (lambda: Recurrent(nn.GRU), (16, 12, 32)),
    "U-Net": (UNet, (8, 3, 32, 32)),
    "checkpointed": (Checkpointed, (256, 64)),
    "embedding": (Words, (64, 20)),
    "perceptron": (perceptron, (128, 64)),
    "depthwise convolution": (mobile, (8, 3, 32, 32)),
    "convolution": (
        lambda: nn.Sequential(
            nn.Conv1d(8, 32, 5), nn.BatchNorm1d(32), nn.LeakyReLU(), nn.Flatten(),
            nn.LazyLinear(CLASSES),
        ),
        (32, 8, 64),
    ),
}  # fmt: skip
OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.01, momentum=0.9),
    "Adam": torch.optim.Adam,
    "RMSprop": lambda parameters: torch.optim.RMSprop(parameters, foreach=False),
}


def given(name: str, optimizer: str, device: Any) -> tuple[Any, ...]:
    """A model, its optimizer, and a batch, on the device."""
    make, shape = MODELS[name]
    torch.manual_seed(0)
    x = torch.rand(shape)
    model = make()
    model(x)  # lazy layers get their shapes
    model.to(device)
    made = OPTIMIZERS[optimizer](model.parameters())
    y = torch.zeros(shape[0], dtype=torch.long, device=device)
    return model, made, x.to(device), y


def step(model: Any, optimizer: Any, x: Any, y: Any) -> float:
    """A training step."""
    optimizer.zero_grad()
    loss = functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return float(loss.item())


def settle(device: Any) -> None:
    """Let autograd's thread of the device release what it holds from the last backward pass.

    PyTorch returns from a pass before that. The thread begins this one, which needs no memory,
    afterwards.
    """
    x = torch.ones(0, device=device, requires_grad=True)
    (x * 1).backward(torch.ones(0, device=device))
    gc.collect()


def peaks(name: str, optimizer: str) -> tuple[unidev.MemoryEstimate, int]:
    """The estimate of a step on the last simulated GPU, and the peak of the first two there."""
    device = unidev.list_devices()[-1]
    settle(device.native)
    before = unidev.memory(device).used_bytes
    arguments = given(name, optimizer, device.native)
    estimate = unidev.estimate_memory(step, *arguments)
    with unidev.track_memory(device) as peak:
        for _ in range(2):
            step(*arguments)
            settle(device.native)
    assert estimate.by_kind["parameters"] == sum(x.nbytes for x in arguments[0].parameters())
    assert all(arguments[1].state.values())
    return estimate, peak.peak_bytes - before


def fits(name: str, rows: int) -> bool:
    """Whether two steps of Adam with so many rows run within the memory of the simulated GPU."""
    device = unidev.gpu().native
    settle(device)
    net, optimizer, x, _ = given(name, "Adam", device)
    try:
        x = torch.zeros(rows, *x.shape[1:], device=device)
        y = torch.zeros(rows, dtype=torch.long, device=device)
        for _ in range(2):
            step(net, optimizer, x, y)
            settle(device)
    except torch.OutOfMemoryError:
        return False
    return True


def largest(name: str, start: int) -> int:
    """The most rows that fit, looked for from ``start``."""
    low, high, width = start, start + 1, 1
    while low and not fits(name, low):
        low, high, width = max(0, low - width), low, 4 * width
    while high == low + 1 and fits(name, high):
        low, high = high, high + 1
    while high > low + 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(name, middle) else (low, middle)
    return low


def print_table() -> None:
    """As Markdown."""
    limit = unidev.memory("gpu").total_bytes
    print(f"torch {torch.__version__}, {datetime.now(timezone.utc):%Y-%m-%d}, {limit >> 20} MiB\n")
    print("|", " | ".join(("model", "batch", *OPTIMIZERS, "estimated rows", "rows that fit")), "|")
    print("|---|", "---:|" * (len(OPTIMIZERS) + 3), sep="")
    for name, (_, shape) in MODELS.items():
        cells = [name, f"{shape[0]}"]
        for optimizer in OPTIMIZERS:
            estimate, counted = peaks(name, optimizer)
            found = f"{estimate.peak_bytes / 2**20:.2f} / {counted / 2**20:.2f}"
            off = 100 * (estimate.peak_bytes / counted - 1)
            cells.append(found + (f" ({off:+.2f} %)" if estimate.peak_bytes != counted else ""))
        arguments = given(name, "Adam", unidev.gpu().native)
        rows = unidev.estimate_memory(step, *arguments, of=limit).largest_batch or 0
        del arguments
        print("|", " | ".join([*cells, f"{rows:,}", f"{largest(name, rows):,}"]), "|", flush=True)


if __name__ == "__main__":
    print_table()
