"""d2l's two chapters on several GPUs, from its text: the losses of two devices equal one device's.

The chapters' code is run as it is. Only the data set, which is downloaded, is replaced by drawn
images of its shape, and torchvision, which only the data set needs and whose wheel on PyPI is for
PyTorch with CUDA, by an empty module. The halves of a batch are alike: batch normalization, which
each replica computes from its own half, then has one device's statistics. In float64: in float32
the differences from another order of sums grow, within a few steps at the chapter's learning rate,
to more than is compared.
"""

from __future__ import annotations

import copy
import importlib
import os
import re
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook

SOURCE = Path(os.environ["PROGRAMS_SOURCE"])
CHAPTERS = SOURCE / "chapter_computational-performance"
BATCH, BATCHES = 8, 2
needs_two_gpus = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="two GPUs")


def _drawn(_batch_size: int, _resize: object = None) -> tuple[list[Any], list[Any]]:
    random = torch.Generator().manual_seed(7)
    batches = []
    for _ in range(BATCHES):
        images = torch.rand(BATCH // 2, 1, 28, 28, generator=random)
        labels = torch.randint(0, 10, (BATCH // 2,), generator=random)
        batches.append((torch.cat([images, images]), torch.cat([labels, labels])))
    return batches, batches[:1]


def _chapter(name: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names that the chapter's code for PyTorch defines, without its last two cells."""
    torch.set_default_dtype(torch.float64)
    monkeypatch.syspath_prepend(str(SOURCE))
    monkeypatch.setenv("MPLBACKEND", "agg")
    vision = Mock(__spec__=ModuleSpec("torchvision", None))
    monkeypatch.setitem(sys.modules, "torchvision", vision)
    d2l = importlib.import_module("d2l.torch")

    monkeypatch.setattr(d2l, "load_data_fashion_mnist", _drawn)
    text = (CHAPTERS / name).read_text(encoding="utf-8")
    cells = re.findall(r"^#@tab (?:pytorch|all)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {}
    torch.manual_seed(3)  # the chapter draws its weights
    assert any("def train(" in cell for cell in cells)
    for cell in cells:
        if not cell.startswith("train("):  # those train on the data set's own scale
            exec(re.sub(r"^%.*$", "", cell, flags=re.MULTILINE), names)
    return names


class Losses:
    """What every ``CrossEntropyLoss`` computes while this is entered."""

    def __enter__(self) -> list[float]:
        """Record from now on."""
        self.found: list[float] = []

        def note(module: nn.Module, _inputs: object, output: torch.Tensor) -> None:
            if isinstance(module, nn.CrossEntropyLoss):
                self.found.append(output.detach().sum().item())

        self._hook = register_module_forward_hook(note)
        return self.found

    def __exit__(self, *_: object) -> None:
        """Record no more."""
        self._hook.remove()


@needs_two_gpus
def test_from_scratch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chapter multiple-gpus: copies of the parameters, and an allreduce written by hand."""
    names = _chapter("multiple-gpus.md", monkeypatch)
    losses = {}
    for gpus in (1, 2):
        with Losses() as found:
            names["train"](num_gpus=gpus, batch_size=BATCH, lr=0.2)
        # Each shard has a loss of its own, one after the other.
        losses[gpus] = [sum(found[i : i + gpus]) / BATCH for i in range(0, len(found), gpus)]
    _compare(losses)


@needs_two_gpus
def test_concise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chapter multiple-gpus-concise: ``nn.DataParallel`` of a ResNet."""
    names = _chapter("multiple-gpus-concise.md", monkeypatch)
    # As in the chapter, where training on one GPU comes first and gives lazy layers their shapes.
    net = names["net"].to("cuda:0")
    net(_drawn(BATCH)[0][0][0].to("cuda:0"))
    losses = {}
    for gpus in (1, 2):
        torch.manual_seed(3)
        with Losses() as found:
            # The chapter's 0.1 diverges here for some weights, and differences of rounding grow.
            names["train"](copy.deepcopy(net), num_gpus=gpus, batch_size=BATCH, lr=0.01)
        losses[gpus] = list(found)
    _compare(losses)


def _compare(losses: dict[int, list[float]]) -> None:
    assert len(losses[1]) == len(losses[2]) == 10 * BATCHES
    worst = max(abs(one - two) for one, two in zip(losses[1], losses[2], strict=True))
    print(f"largest difference of {len(losses[1])} losses: {worst:.2e}", file=sys.stderr)
    assert worst < 1e-4, losses
    assert len(set(losses[1])) > BATCHES, "nothing was learned"
