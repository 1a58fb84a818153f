"""Models that hold drawn tensors: any number of them, of any dtype, some tied."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import unidev
from unidev_conformance.kit.trees import Leaf, Tree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unidev.device import Device
    from unidev_conformance.kit.workbench import Workbench

    Tensor = Any


class HeldModel:
    """A model on the CPU that holds the tensors of a tree; the second place of a tie is a name."""

    def __init__(self, bench: Workbench, tree: Tree) -> None:
        self.bench = bench
        try:
            self._make(tree)
        except unidev.UnsupportedOperation:
            self._make(_without_empty_leaves(tree))

    def _make(self, tree: Tree) -> None:
        self.tree = tree
        xs = tree.tensors(self.bench, self.bench.cpu)
        self.names = [f"{'xX'[number % 2]}{number // 2}" for number in range(len(xs))]
        parameters: dict[str, Tensor] = {}
        buffers: dict[str, Tensor] = {}
        for number, (name, leaf, x) in enumerate(zip(self.names, tree.leaves, xs, strict=True)):
            is_trained = leaf.dtype.startswith(("float", "bfloat")) and number % 3 < 2
            (parameters if is_trained else buffers)[name] = x
        self.ties = {
            f"tied{number}": self.names[position]
            for number, position in enumerate(tree.again)
            if self.names[position] in parameters
        }
        parameters |= {name: parameters[first] for name, first in self.ties.items()}
        self._takes_containers = self.bench.backend.models.takes_containers
        if self._takes_containers:
            self.model: Any = {"held": [parameters, buffers]}
        else:
            self.model = self.bench.probe.models.holding(parameters, buffers)
        self.expected = {
            name: self.bench.probe.read(x) for name, x in zip(self.names, xs, strict=True)
        }

    def tensors(self) -> dict[str, Tensor]:
        """The model's current tensors, by the names of the leaves and those of the ties."""
        if self._takes_containers:
            parameters, buffers = self.model["held"]
            return {**parameters, **buffers}
        return dict(self.bench.probe.models.tensors(self.model))

    def check(self, device: Device, where: str) -> None:
        """All values are as at first, on ``device``; ties are ties."""
        found = self.tensors()
        for name, leaf in zip(self.names, self.tree.leaves, strict=True):
            here = f"{where}: {name} of {self.tree}: {leaf}"
            self.bench.oracle.check_device(found[name], device, here)
            self.bench.oracle.check_bytes(found[name], self.expected[name], here)
            shape = tuple(map(int, found[name].shape))
            assert shape == leaf.shape, f"{here}: shape {shape}"
        for name, first in self.ties.items():
            if self.expected[first]:
                one, other = (self.bench.oracle.storage(found[each]) for each in (name, first))
                assert one == other, f"{where}: {first} of {self.tree} is not tied any more"

    def memory(self) -> dict[str, Any]:
        """The extents of all that are not empty."""
        found = self.tensors()
        return {
            name: self.bench.oracle.storage(found[name])
            for name in self.names
            if self.expected[name]
        }


def holdable(bench: Workbench) -> list[str]:
    """The dtypes that a model may hold, wherever it is placed."""
    dtypes = bench.dtypes(*bench.devices)
    if bench.backend.models.takes_containers:
        return dtypes
    bench.require("probe.models.holding")
    made = {dtype: Leaf(dtype, (2,), is_bits=True).made(bench, bench.cpu) for dtype in dtypes}
    return [dtype for dtype, x in made.items() if is_held(bench, x)]


def is_held(bench: Workbench, x: Any) -> bool:
    """Whether the framework's models hold such a tensor: of this dtype, and empty ones."""
    try:
        bench.probe.models.holding({}, {"x": x})
    except (unidev.UnsupportedDtypeError, unidev.UnsupportedOperation) as error:
        bench.evidence.add("no model holds it", f"{x.dtype}: {error}")
        return False
    return True


def one_of_each(dtypes: Sequence[str]) -> Tree:
    """A parameter or buffer of each dtype, with and without axes, two of them tied."""
    leaves = [Leaf("float32", (3, 5), is_bits=True), Leaf("float32", (7,), is_bits=True)]
    for number, dtype in enumerate(dtypes):
        leaves += [Leaf(dtype, shape, seed=number, is_bits=True) for shape in ((4, 3), ())]
    return Tree(tuple(leaves), (0, 1))


def _without_empty_leaves(tree: Tree) -> Tree:
    leaves = [
        replace(leaf, shape=tuple(max(size, 1) for size in leaf.shape)) for leaf in tree.leaves
    ]
    return replace(tree, leaves=tuple(leaves))
