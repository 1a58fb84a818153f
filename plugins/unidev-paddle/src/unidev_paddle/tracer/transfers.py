"""The transfers that a call of Paddle's is about to make, found in its arguments."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.contract import PlannedTransfer
from unidev.errors import UnidevError
from unidev_paddle.framework import core, paddle
from unidev_paddle.tracer.names import called

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from unidev.contract import Backend, Device, Tensor

    Transfers = Sequence[PlannedTransfer]

DenseTensor: Any = core.DenseTensor

_PINNED = (core.CUDAPinnedPlace, core.XPUPinnedPlace)

NOTHING: Transfers = ()


class Operands:
    """The tensors among an operation's arguments, by their use."""

    def __init__(self) -> None:
        self.tensors: list[Tensor] = []
        """Used in the computation, and so moved to one device."""
        self.first: list[Tensor] = []
        """The first of each argument: Paddle chooses between CPU and accelerator by these."""
        self.numbers: list[Tensor] = []
        """Stand for a number or a shape: Paddle reads them on the host."""
        self.arrays: list[np.ndarray[Any, Any]] = []
        """NumPy arrays, which have to be moved to the others."""

    def add(self, x: Any) -> None:
        """Add an argument of the computation."""
        if isinstance(x, paddle.Tensor):
            self.tensors.append(x)
            self.first.append(x)
        elif isinstance(x, np.ndarray):
            self.arrays.append(x)
        elif type(x) in (list, tuple):
            found = tensors_in(x)
            self.tensors += found
            self.first += found[:1]
            self.arrays += [each for each in x[:64] if isinstance(each, np.ndarray)]


def tensors_in(several: Sequence[Any]) -> list[Tensor]:
    """The tensors in a list; none if it is a long one that begins with something else."""
    if not several or (len(several) > 64 and not isinstance(several[0], paddle.Tensor)):
        return []
    return [x for x in several if isinstance(x, paddle.Tensor)]


class Sight:
    """Finds where tensors are, and what moves when they are used."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._cpu = backend.cpu

    # -- what moves --------------------------------------------------------------------------------

    def read(self, x: Tensor, operation: str, nbytes: int | None = None) -> Transfers:
        """``x`` is read into Python or NumPy; a single element counts ``nbytes``."""
        source = self.device_of(x)
        if source is None or source is self._cpu:
            return NOTHING
        shape = traced_shape(x) if nbytes is None else ()
        size = nbytes_of(x) if nbytes is None else nbytes
        return (PlannedTransfer(called(operation), source, self._cpu, size, shape),)

    def move(self, x: Tensor, target: Device | None, operation: str) -> Transfers:
        """``x`` goes to ``target``."""
        source = self.device_of(x)
        if source is None or target is None or source is target:
            return NOTHING
        return (PlannedTransfer(called(operation), source, target, nbytes_of(x), traced_shape(x)),)

    def fill(
        self, nbytes: int, shape: Sequence[int], target: Device | None, operation: str
    ) -> Transfers:
        """Host values go to ``target``."""
        if target is None or target is self._cpu:
            return NOTHING
        where = tuple(int(length) for length in shape)
        return (PlannedTransfer(called(operation), self._cpu, target, int(nbytes), where),)

    def compute(self, operands: Operands, operation: str, outer: str | None = None) -> Transfers:
        """An operation computes with operands that may be on several devices.

        ``outer`` names the call for what it reads or gets from NumPy, if that has its own name.
        """
        named = f"{operation} of mixed operands"
        places = [(x, self.device_of(x)) for x in operands.tensors]
        target = self._target(operands, places)
        moved = [
            PlannedTransfer(named, source, target, nbytes_of(x), traced_shape(x))
            for x, source in places
            if source is not None and target is not None and source is not target
        ]
        for array in operands.arrays:
            moved += self.fill(array.nbytes, array.shape, target, outer or named)
        for x in operands.numbers:
            moved += self.read(x, outer or operation)
        return moved

    def _target(
        self, operands: Operands, places: Iterable[tuple[Tensor, Device | None]]
    ) -> Device | None:
        # The accelerator if there is one, else the CPU (ParseKernelKeyByInputArgs in
        # paddle/phi/api/lib/kernel_dispatch.h); of several accelerators the last, as seen in 3.3.1.
        accelerators = [at for _, at in places if at is not None and at is not self._cpu]
        firsts = (self.device_of(x) for x in operands.first)
        if accelerators and any(at is not None and at is not self._cpu for at in firsts):
            return accelerators[-1]
        return self._cpu if operands.tensors else None

    # -- where -------------------------------------------------------------------------------------

    def device_of(self, x: Tensor) -> Device | None:
        """None for a tensor without memory or on several devices, and for a non-tensor."""
        if isinstance(x, DenseTensor):
            return self.device_at(x._place()) if x._is_initialized() else None
        if not isinstance(x, paddle.Tensor):
            return None
        try:
            return self._backend.device_of(x)
        except UnidevError:
            return None

    def device_at(self, place: Any) -> Device | None:
        """The device of a place; without one, the default."""
        if place is None:
            place = paddle.base.framework._current_expected_place()
        if isinstance(place, str):
            place = paddle.base.framework._get_paddle_place(place)
        found = self._backend.parse_native(place)
        if found is None:
            return self._cpu if isinstance(place, _PINNED) else None
        return self._backend.device(*found)


def nbytes_of(x: Any) -> int:
    """Bytes of the values; for a sparse tensor, of the indices too."""
    if isinstance(x, DenseTensor):
        return int(x._numel()) * int(core.size_of_dtype(x._dtype()))
    if x.is_sparse_coo():
        return nbytes_of(x.indices()) + nbytes_of(x.values())
    if x.is_sparse_csr():
        return sum(nbytes_of(part) for part in (x.crows(), x.cols(), x.values()))
    return int(math.prod(x.shape)) * int(x.element_size())


def traced_shape(x: Any) -> tuple[int, ...]:
    """The shape; for a ``DenseTensor`` it is a method."""
    return tuple(int(length) for length in (x.shape() if callable(x.shape) else x.shape))
