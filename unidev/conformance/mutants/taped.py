"""``Taped``: an array that remembers what it was computed from: the least of an autograd.

It knows copies, sums, differences, products and products of matrices, which is what the checks are
written with; of a differentiable array it refuses anything else, so that no gradient is wrong. What
is not differentiable are NumPy's own arrays and simulated ones.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.contract.device import Device
from unidev.numpy_backend.simulated_array import SimulatedArray

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Array = np.ndarray[Any, Any]
    Slope = Callable[[Any], Any]
    """From the slope by a result to the slope by what it was computed from."""

_here = threading.local()


class Taped(SimulatedArray):
    """An array with a history; on the CPU, too. A view of one has none, and is a constant."""

    parents: list[tuple[Taped, Slope]] | None

    def __array_finalize__(self, parent: Array | None) -> None:
        """Views have no history."""
        super().__array_finalize__(parent)
        self.parents = None

    @classmethod
    def make(
        cls, array: Array, device: Device, parents: Sequence[tuple[Taped, Slope]] = ()
    ) -> Taped:
        """``array``'s memory as a differentiable array on ``device``."""
        made = np.asarray(array).view(np.ndarray).view(cls)
        # Simulated arrays take plain ones to be on this, whatever a mutant's backend is called.
        made.simulated_device = Device("numpy", "cpu", 0) if device.kind == "cpu" else device
        made.parents = list(parents)
        return made

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """Recorded, if anything in it is differentiable."""
        result = super().__array_ufunc__(ufunc, method, *inputs, **options)
        if not is_recording() or not any(map(is_differentiable, inputs)):
            return result
        rules = _RULES.get(ufunc)
        if rules is None or method != "__call__" or options:
            return NotImplemented
        parents = [
            (x, _bound(rule, *inputs))
            for x, rule in zip(inputs, rules, strict=True)
            if is_differentiable(x)
        ]
        return Taped.make(result, self.simulated_device, parents)


def is_differentiable(x: object) -> bool:
    """Whether it has a history, or is the beginning of one."""
    return isinstance(x, Taped) and x.parents is not None


def detached(x: Array) -> Array:
    """A view without a history; one that is none is given as it is."""
    return x.view() if isinstance(x, Taped) else x


def is_recording() -> bool:
    """Whether this thread records."""
    return not getattr(_here, "is_paused", False)


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """In this thread nothing is recorded."""
    before = is_recording()
    _here.is_paused = True
    try:
        yield
    finally:
        _here.is_paused = not before


def backward(result: Any, slope: Any, leaves: Sequence[Any]) -> list[Any]:
    """The slopes by ``leaves``, on their devices; None where there is no way.

    Recorded, if this thread records: then they can be differentiated themselves.
    """
    slopes: dict[int, Any] = {id(result): slope}
    for x in reversed(_in_order(result)):
        if id(x) not in slopes:
            continue
        for parent, rule in x.parents or ():
            more = rule(slopes[id(x)])
            known = slopes.get(id(parent))
            slopes[id(parent)] = more if known is None else known + more
    return [slopes.get(id(leaf)) if is_differentiable(leaf) else None for leaf in leaves]


def _in_order(result: Any) -> list[Taped]:
    """All that ``result`` came from, each after what it came from."""
    order: list[Taped] = []
    seen: set[int] = set()

    def visit(x: Taped) -> None:
        if id(x) in seen:
            return
        seen.add(id(x))
        for parent, _ in x.parents or ():
            visit(parent)
        order.append(x)

    if is_differentiable(result):
        visit(result)
    return order


def _bound(rule: Callable[[Any, Any, Any], Any], left: Any, right: Any) -> Slope:
    return lambda slope: rule(slope, left, right)


def _fit(slope: Any, like: Any) -> Any:
    """``slope`` summed along the axes along which ``like`` was repeated."""
    shape = np.shape(like)
    if slope.shape == shape:
        return slope
    if is_recording() and is_differentiable(slope):
        raise NotImplementedError("the second derivative of what was broadcast")
    extra = slope.ndim - len(shape)
    single = tuple(i + extra for i, size in enumerate(shape) if size == 1)
    return slope.sum((*range(extra), *single)).reshape(shape)


def _transposed(x: Any) -> Any:
    if is_recording() and is_differentiable(x):
        return Taped.make(x.view(np.ndarray).T, x.simulated_device, [(x, _transposed)])
    return x.T


_RULES: dict[np.ufunc, tuple[Callable[[Any, Any, Any], Any], ...]] = {
    np.add: (lambda slope, a, _: _fit(slope, a), lambda slope, _, b: _fit(slope, b)),
    np.subtract: (lambda slope, a, _: _fit(slope, a), lambda slope, _, b: _fit(slope * -1, b)),
    np.multiply: (lambda slope, a, b: _fit(slope * b, a), lambda slope, a, b: _fit(slope * a, b)),
    np.matmul: (
        lambda slope, _, b: slope @ _transposed(b), lambda slope, a, _: _transposed(a) @ slope
    ),
}  # fmt: skip
"""By each operand: ``rule(slope, left, right)``."""
