"""Packing and writing on simulated devices, where kernels of the simulator do it."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

import unidev


def on(index: int, *values: Any, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype).to(f"sim:{index}")


def test_foreach_copy_writes_as_copy_does() -> None:
    targets = [on(0, 0.0, 0.0), on(0, [0.0, 0.0], [0.0, 0.0]).T, on(1, 0.0), on(0, 0, 0)]
    sources = [on(0, 1.0, 2.0), on(0, [1.0, 2.0], [3.0, 4.0]), torch.tensor([5.0]), on(1, 6, 7)]
    versions = [x._version for x in targets]
    torch._foreach_copy_(targets, sources)
    for target, source, version in zip(targets, sources, versions, strict=True):
        assert torch.equal(target.cpu(), source.cpu().to(target.dtype))
        assert target._version > version
    with pytest.raises(RuntimeError, match="same"):
        torch._foreach_copy_(targets, sources[:1])


def test_reductions_of_parameters_expanded_and_inference_tensors() -> None:
    net = torch.nn.Linear(2, 2).to("sim:0")
    other = torch.nn.Linear(2, 2).to("sim:1")
    trees: list[Any] = [dict(net.named_parameters()), dict(other.named_parameters())]
    reduced = unidev.all_reduce(trees, "mean")
    assert not any(x.requires_grad for tree in reduced for x in tree.values())
    assert unidev.all_reduce(trees, "mean", in_place=True) is trees
    for tree, name in itertools.product(range(2), ("weight", "bias")):
        assert torch.equal(trees[tree][name].cpu(), reduced[0][name].cpu())
        assert trees[tree][name].requires_grad
    expanded = [on(0, 1.0).expand(3), on(1, 1.0).expand(3)]
    assert unidev.all_reduce(expanded)[1].tolist() == [2, 2, 2]
    with pytest.raises(unidev.UnsupportedOperation, match=r"trees\[0\] cannot be written"):
        unidev.all_reduce(expanded, in_place=True)


def test_unsigned_integers() -> None:
    for dtype in (torch.uint16, torch.uint32, torch.uint64):
        xs = [on(0, 2, 3, dtype=dtype), on(1, 5, 7, dtype=dtype)]
        assert [x.tolist() for x in unidev.all_reduce(xs)] == [[7, 10]] * 2
    assert unidev.all_reduce([on(0, 9, dtype=torch.uint32)] * 2, "max")[0].tolist() == [9]
    with pytest.raises(unidev.UnsupportedDtypeError, match="no max of uint64"):
        unidev.all_reduce(xs, "max")
