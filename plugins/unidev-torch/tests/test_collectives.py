"""Packing and writing on simulated devices, where kernels of the simulator do it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
import torch

import unidev

if TYPE_CHECKING:
    from collections.abc import Callable


def on(index: int, *values: Any, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype).to(f"sim:{index}")


@pytest.mark.parametrize(
    "make",
    [
        lambda: [on(1, 1.0, 2.0), on(1, 3.0)],
        lambda: [on(1, [1.0, 2.0], [3.0, 4.0]), on(1, [5.0, 6.0])],
        lambda: [on(1, [1.0, 2.0], [3.0, 4.0]).T, on(1, [5.0, 6.0], [7.0, 8.0])],  # not contiguous
        lambda: [on(1, 1.0), on(1, 2, dtype=torch.int64)],  # promoted
        lambda: [on(1), on(1, [1.0, 2.0])],  # torch's old kind of empty tensor
        lambda: [on(1, 1 + 2j, dtype=torch.complex64).conj(), on(1, 3j, dtype=torch.complex64)],
        lambda: [on(1, [1.0, 2.0])],
    ],
)
def test_cat_gives_what_it_gives_on_the_cpu(make: Callable[[], list[torch.Tensor]]) -> None:
    xs = make()
    for dim in range(-1, xs[-1].dim()):
        try:
            expected = torch.cat([x.cpu() for x in xs], dim)
        except RuntimeError:
            with pytest.raises(RuntimeError):
                torch.cat(xs, dim)
            continue
        found = torch.cat(xs, dim)
        assert found.device == xs[0].device
        assert found.untyped_storage().data_ptr() != xs[0].untyped_storage().data_ptr()
        assert torch.equal(found.cpu(), expected)
        assert found.dtype == expected.dtype


def test_cat_has_a_gradient_and_refuses_to_mix() -> None:
    x = on(0, 1.0, 2.0).requires_grad_()
    torch.cat([x, x * 3]).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [4, 4]
    with pytest.raises(RuntimeError, match=r"same device.*sim:1"):
        torch.cat([on(0, 1.0), on(1, 1.0)])
    with pytest.raises(RuntimeError, match="Sizes of tensors must match"):
        torch.cat([on(0, [1.0]), on(0, [1.0, 2.0])], 0)


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


def test_add_in_place_is_as_on_the_cpu() -> None:
    x, y = on(0, 1.0, 2.0), on(0, 3.0, 4.0)
    address = x.data_ptr()
    assert x.add_(y, alpha=2) is x
    assert x.tolist() == [7, 10]
    assert x.data_ptr() == address
    assert x.add_(1).tolist() == [8, 11]
    assert x.add_(on(0, [1.0], [2.0])[1]).tolist() == [10, 13]  # broadcast
    for other in (on(1, 1.0, 2.0), torch.ones(2)):
        with pytest.raises(RuntimeError, match="same device"):
            x.add_(other)
    with pytest.raises(RuntimeError, match="can't be cast"):
        on(0, 1, dtype=torch.int64).add_(on(0, 1.5))


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
