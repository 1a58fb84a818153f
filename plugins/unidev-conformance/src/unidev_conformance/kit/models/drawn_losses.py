"""Losses of many leaves, drawn, with their gradients.

A loss is a sum: of a leaf, also by its own ``sum``, of its square, or of its sum or product with
the last leaf of the same shape; some leaves are flattened first, and so have the shape of others.
Leaves are small whole numbers, so gradients are exact in each dtype.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

import unidev
from unidev_conformance.kit.inputs.strategies import pick, some
from unidev_conformance.kit.models.differentiating import plus, times, total, wholes
from unidev_conformance.kit.trees import MOST_LEAVES, Leaf, Tree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unidev.device import Device
    from unidev_conformance.kit.workbench import Workbench

    Array = np.ndarray[Any, Any]
    Random = np.random.Generator
    Tensor = Any

_USES = ("alone", "added", "squared", "plus", "times", "idle")
_SMALL = ("float16", "bfloat16")
_SHAPES = ((1, 1), (1, 3), (2, 3), (4, 2), (2, 1, 3), (4, 2, 1, 1))
_IDLE = ((), (3,), (0, 3))
"""What is not reached may have any dtype, and one of these shapes, too."""
_MATRICES = 4
"""How many of these shapes are matrices."""


@dataclass(frozen=True)
class DrawnLoss:
    """A loss of the leaves of a tree."""

    tree: Tree
    uses: tuple[str, ...]
    """How the loss uses each leaf; the first is never idle."""

    @property
    def dtype(self) -> str:
        """The dtype of all leaves."""
        return self.tree.leaves[0].dtype

    def where(self, position: int) -> str:
        """The tree, one of its leaves and how it is used, for messages."""
        return f"{self.tree.where(position)}, {self.uses[position]} (uses: {self.uses})"

    def leaves(self, bench: Workbench, device: Device) -> list[Tensor]:
        """New leaves, each in memory of its own."""
        made = []
        for leaf, values in zip(self.tree.leaves, self._values(), strict=True):
            is_turned = leaf.layout == "transposed"
            given = np.ascontiguousarray(values.T) if is_turned else values
            x = (
                unidev.array(given, dtype=leaf.dtype, device=device)
                if leaf.dtype == "bfloat16"
                else bench.make(given.astype(leaf.dtype), device)
            )
            made.append(bench.probe.views(x)["transposed"] if is_turned else x)
        return made

    def __call__(self, xs: Sequence[Tensor]) -> Tensor:
        """The loss of these leaves."""
        terms = []
        xs = [_flat(x) for x in xs]
        for position, (use, other) in enumerate(zip(self.uses, self._others(), strict=True)):
            x = xs[position]
            if use == "alone":
                terms.append(_summed(x))
            elif use == "added":
                terms.append(_added(x))
            elif use == "squared":
                terms.append(_summed(times(x, x)))
            elif use != "idle":
                terms.append(_summed((plus if use == "plus" else times)(x, xs[other])))
        return reduce(plus, terms)

    def gradients(self) -> list[Array]:
        """The exact gradients."""
        shapes = [each.shape for each in self._values()]
        values = [_flat_values(each) for each in self._values()]
        found = [np.zeros_like(each) for each in values]
        for position, (use, other) in enumerate(zip(self.uses, self._others(), strict=True)):
            x = values[position]
            if use == "squared":
                found[position] += 2 * x
            elif use in ("alone", "added", "plus"):
                found[position] += 1
            elif use == "times":
                found[position] += values[other]
            if use == "plus":
                found[other] += 1
            elif use == "times":
                found[other] += x
        return [each.reshape(shape) for each, shape in zip(found, shapes, strict=True)]

    def _values(self) -> list[Array]:
        return [wholes(*leaf.shape, start=1 + leaf.seed % 3) for leaf in self.tree.leaves]

    def _others(self) -> list[int]:
        """For each leaf the last before it of its flat shape and dtype, or itself."""
        shapes: list[Any] = [_flat_values(each).shape for each in self._values()]
        shapes = [(s, x.dtype) for s, x in zip(shapes, self.tree.leaves, strict=True)]
        return [
            max((k for k in range(position) if shapes[k] == shape), default=position)
            for position, shape in enumerate(shapes)
        ]


def drawn_loss(rng: Random, dtypes: Sequence[str], *, flattens: bool) -> DrawnLoss:
    """A loss of 1 to 40 leaves of one dtype, of matrices alone unless it ``flattens``."""
    dtype = pick(rng, dtypes)
    count = int(rng.integers(1, 5) if rng.integers(2) else rng.integers(5, MOST_LEAVES + 1))
    # Not every framework has a matrix product of 16 bits on the CPU.
    most = len(_SHAPES) if flattens else _MATRICES
    shapes = _SHAPES[:1] if dtype in _SMALL else _SHAPES[:most]
    uses = [pick(rng, _USES) for _ in range(count)]
    first = "alone" if uses[0] == "idle" else uses[0]
    leaves = tuple(
        Leaf(pick(rng, dtypes), pick(rng, (*_SHAPES[:most], *_IDLE)), seed=number)
        if number and use == "idle"
        else Leaf(dtype, pick(rng, shapes), seed=number)
        for number, use in enumerate(uses)
    )
    leaves = tuple(
        replace(x, layout="transposed") if len(x.shape) == 2 and not rng.integers(3) else x
        for x in leaves
    )
    tied = tuple(some(rng, range(count), 0, 2))
    return DrawnLoss(Tree(leaves, tied, int(rng.integers(2**16))), (first, *uses[1:]))


def shared_losses(dtype: str, *, is_flattened: bool = False) -> DrawnLoss:
    """Pairs whose gradients a framework may keep in one tensor, leaves that are not reached."""
    uses = ("alone", "added", "plus", "idle", "idle", "times", "squared")
    more = ("alone", "idle", "plus", "added") * 4
    pair = [(2, 3), (2, 3, 1)] if is_flattened else [(2, 3)]
    shapes = [pair[n % len(pair)] for n in range(len(uses))] + [(1, 1)] * len(more)
    leaves = tuple(Leaf(dtype, shape, seed=number) for number, shape in enumerate(shapes))
    return DrawnLoss(Tree(leaves, (0, 4)), (*uses, *more))


def differentiable(bench: Workbench, device: Device) -> list[str]:
    """float32, float64, and the smaller ones that the framework multiplies and differentiates."""
    known = bench.dtypes(device)
    found: list[str] = [dtype for dtype in ("float32", "float64") if dtype in known]
    for dtype in _SMALL:
        if dtype in known:
            x = unidev.array(np.ones((1, 1), "float32"), dtype=dtype, device=device)
            try:
                of = unidev.value_and_grad(lambda x: plus(times(x, x), plus(x, x)))
                for made in of(x):
                    bench.probe.read(made)  # where an error may come late
            except Exception as error:  # noqa: BLE001  the framework's own: no such kernel
                bench.evidence.add("not differentiated by the framework itself", str(error))
            else:
                found.append(dtype)
    return found


def _flat(x: Tensor) -> Tensor:
    if len(x.shape) <= 2:
        return x
    with unidev.device_of(x):
        return unidev.nn.functional.flatten(x)


def _flat_values(x: Array) -> Array:
    return x.reshape(len(x), -1) if x.ndim > 2 else x


def _added(x: Tensor) -> Tensor:
    """The sum by the tensor's own method, if it has one: its gradient may be one element's."""
    with unidev.device_of(x):
        return x.sum() if hasattr(x, "sum") else _summed(x)


def _summed(x: Tensor) -> Tensor:
    return x if tuple(x.shape) == (1, 1) else total(x)
