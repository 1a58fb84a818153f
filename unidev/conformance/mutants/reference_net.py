"""A net and an optimizer of the reference with training; see ``reference_training``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.conformance.mutants.taped import Taped, backward, paused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from unidev.contract.device import Device

    Array = np.ndarray[Any, Any]


class Cell:
    """What holds an array of a net or an optimizer: it stays, and the array is exchanged."""

    def __init__(self, data: Array, grad: Array | None = None) -> None:
        self.data = data
        self.grad = grad


class Parameter(Cell):
    """Something to train, unless it is frozen."""

    def __init__(self, data: Array, device: Device, *, is_frozen: bool = False) -> None:
        super().__init__(data if is_frozen else Taped.make(data, device))
        self.is_frozen = is_frozen


class Buffer(Cell):
    """Statistics; saved with the net or not."""

    def __init__(self, data: Array, *, is_saved: bool) -> None:
        super().__init__(data)
        self.is_saved = is_saved


class Dense:
    """``x @ weight + bias``."""

    def __init__(self, weight: Parameter, bias: Parameter) -> None:
        self.weight = weight
        self.bias = bias

    def __call__(self, x: Array) -> Array:
        """The product."""
        product: Array = x @ self.weight.data + self.bias.data
        return product


class Net:
    """Two layers with one weight, one layer at two places, a frozen scale, and statistics."""

    def __init__(self, device: Device, *, is_built: bool = True, is_spread: bool = False) -> None:
        self.is_training = True
        self.is_built = False
        self.is_spread = is_spread
        self.hooks: list[Callable[[], None]] = []
        self.device = device
        """Where it is built."""
        if is_built:
            self.build()

    def build(self) -> None:
        """Make the parameters."""
        device = self.device
        weight = Parameter(_numbers((4, 4), 3), device)
        self.first = Dense(weight, Parameter(_numbers((4,), 1), device))
        self.second = Dense(weight, Parameter(_numbers((4,), 2), device))
        self.middle = Dense(
            Parameter(_numbers((4, 4), 5), device), Parameter(_numbers((4,), 4), device)
        )
        self.again = self.middle
        self.scale = Parameter(_numbers((4,), 6) + np.float32(1), device, is_frozen=True)
        self.mean = Buffer(np.zeros(4, "float32"), is_saved=True)
        self.seen = Buffer(np.zeros(1, "float32"), is_saved=False)
        self.is_built = True

    def named(self) -> Iterator[tuple[str, Cell]]:
        """Every cell under each of its names."""
        for name in ("first", "middle", "again", "second"):
            yield f"{name}.weight", getattr(self, name).weight
            yield f"{name}.bias", getattr(self, name).bias
        for name in ("scale", "mean", "seen"):
            yield name, getattr(self, name)

    def __call__(self, x: Array) -> Array:
        """Forward; while training, statistics are updated."""
        for hook in self.hooks:
            hook()
        if not self.is_built:
            self.build()
        h = self.first(x)
        if self.is_training:
            with paused():
                new = np.asarray(h).mean(0) * np.float32(0.1)
                overwrite(self.mean.data, np.asarray(self.mean.data) * np.float32(0.9) + new)
                overwrite(self.seen.data, np.asarray(self.seen.data) + np.float32(1))
        h = (h - self.mean.data) * self.scale.data
        return self.second(self.again(self.middle(h)))

    def infer(self, x: Array) -> Array:
        """Forward, recorded by nobody, statistics left alone."""
        before, self.is_training = self.is_training, False
        try:
            with paused():
                return self(x)
        finally:
            self.is_training = before

    def compute_gradients(self, x: Array) -> None:
        """Leave the gradients of the sum of squares in the parameters."""
        y = self(x)
        square: Any = y * y
        cells = [c for c in self.cells() if isinstance(c, Parameter) and not c.is_frozen]
        with paused():
            seed = square * 0 + 1
            for cell, slope in zip(
                cells, backward(square, seed, [c.data for c in cells]), strict=True
            ):
                cell.grad = slope

    def cells(self) -> list[Cell]:
        """Each cell once."""
        return list({id(cell): cell for _, cell in self.named()}.values())


class Momentum:
    """SGD with momentum."""

    def __init__(self, net: Net) -> None:
        self.parameters = [cell for cell in net.cells() if isinstance(cell, Parameter)]
        self.velocities: dict[int, Cell] = {}

    def step(self) -> None:
        """By the gradients that are in the parameters."""
        with paused():
            for position, cell in enumerate(self.parameters):
                if cell.is_frozen or cell.grad is None:
                    continue
                velocity = self.velocities.setdefault(position, Cell(cell.grad * np.float32(0)))
                overwrite(velocity.data, velocity.data * np.float32(0.9) + cell.grad)
                overwrite(cell.data, cell.data - velocity.data * np.float32(0.01))


def overwrite(x: Array, values: Array) -> None:
    """Put ``values`` into the memory of ``x``."""
    x.view(np.ndarray)[...] = np.asarray(values).view(np.ndarray)


def _numbers(shape: tuple[int, ...], seed: int) -> Array:
    drawn: Array = np.random.Generator(np.random.Philox(seed)).random(shape, "float32")
    centred: Array = drawn - np.float32(0.5)
    return centred
