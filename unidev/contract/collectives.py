"""``Collectives``: the part of the contract for reductions over several devices."""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import accumulate
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from unidev.contract.dtypes import portable_name
from unidev.contract.optional import BackendPart, optional

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from unidev.device import Device

    Tensor = Any
    Copy = Callable[[Tensor, Device], Tensor]
    """``Backend.copy_to``, reported to traces: always new memory."""


class Collectives(BackendPart, ABC):
    """Reductions of tensors over several devices of one process.

    unidev has checked the arguments, leaves out empty tensors, and calls all but ``rows`` and
    ``concatenate`` where autograd does not record. The tensors of one call are on one device,
    where the result belongs, too; those of ``pack``, ``combine`` and ``scale`` have one dtype.
    """

    wider: Mapping[str, str] = MappingProxyType({"float16": "float32", "bfloat16": "float32"})
    """Dtypes that are reduced in a wider one, by portable names.

    Because sums overflow or lose digits, or because the framework has no kernel. The result is that
    of the wider dtype, rounded once; an integer's lower bits.
    """

    @abstractmethod
    def pack(self, tensors: Sequence[Tensor]) -> Tensor:
        """All elements, one tensor after the other in C order, in one flat tensor in new memory."""

    @abstractmethod
    def unpack(self, flat: Tensor, shapes: Sequence[tuple[int, ...]]) -> Sequence[Tensor]:
        """The inverse of ``pack``: tensors of these shapes.

        They may be stretches of ``flat``, which is not used any more.
        """

    @abstractmethod
    def combine(self, a: Tensor, b: Tensor, op: str) -> Tensor:
        """``a`` and ``b`` combined by element; ``op`` is ``sum``, ``min`` or ``max``.

        May write the result to ``a``. Sums of integers wrap around; of floating-point numbers, each
        is rounded once. If either element is NaN, the result is NaN, also of ``min`` and ``max``.
        """

    @abstractmethod
    def scale(self, flat: Tensor, factor: float) -> Tensor:
        """``flat * factor``, in the dtype of ``flat``; may write the result to ``flat``."""

    def pack_scaled(
        self,
        tensors: Sequence[Tensor],
        factor: float | None,
        memory: list[Tensor],  # noqa: ARG002  for overrides
    ) -> Tensor:
        """``pack``, times ``factor``. What is in ``memory`` may be overwritten, and then returned.

        unidev keeps the list for the same tensors of the next step. An override puts what it
        returns there, and takes what nobody else refers to any more; here it stays empty.
        """
        flat = self.pack(tensors)
        return flat if factor is None else self.scale(flat, factor)

    @abstractmethod
    def concatenate(self, tensors: Sequence[Tensor]) -> Tensor:
        """One after the other along the first dimension, in new memory; differentiable.

        Some of the tensors, or all, may be empty.
        """

    def rows(self, x: Tensor, start: int, stop: int) -> Tensor:
        """``x[start:stop]``, on the device of ``x``; it may share memory with ``x``."""
        return x[start:stop]

    def check_dense(self, tensors: Sequence[Tensor], is_packed: bool) -> None:
        """Raise ``UnsupportedOperation`` for a sparse, ragged or nested tensor.

        With ``is_packed``, before ``pack``; else before ``rows`` and ``concatenate``, which may
        take some of them. By default, the framework has none.
        """

    write: Callable[[Sequence[Tensor], Sequence[Tensor]], None] = optional(
        "reductions in place", "the framework's tensors are immutable"
    )
    """``write(targets, values)``: write each tensor's values to its target, in place.

    A value has the shape, dtype and device of its target, and may become part of its memory.
    """

    def is_writable(self, x: Tensor) -> bool:  # noqa: ARG002
        """Whether ``write`` can write to ``x``."""
        return False

    def reduce(
        self,
        flats: Sequence[Tensor],
        device: Device,
        op: str,
        factors: Sequence[float] | None,
        copy: Copy,
    ) -> Tensor:
        """The tensors, times their factors, combined on ``device`` in the order of the list.

        Those on ``device`` are new and may be written to; the others may not.
        """
        backend = self.backend
        dtype = flats[0].dtype
        wide = backend.dtypes.get(self.wider.get(portable_name(dtype, backend) or "", ""))
        total = None
        for position, flat in enumerate(flats):
            x = flat if backend.device_of(flat) is device else copy(flat, device)
            if wide is not None:
                x = backend.cast(x, wide, device)
            if factors is not None:
                x = self.scale(x, factors[position])
            total = x if total is None else self.combine(total, x, op)
        return total if wide is None else backend.cast(total, dtype, device)

    def all_reduce(
        self, flats: Sequence[Tensor], op: str, factors: Sequence[float] | None, copy: Copy
    ) -> Sequence[Tensor]:
        """The tensors, times their factors, combined in order: a new one on the device of each.

        One of each device is given; override this with an engine that reduces them all at once.
        Those on the first tensor's device are new and may be written to; the others may not.
        """
        device_of = self.backend.device_of
        total = self.reduce(flats, device_of(flats[0]), op, factors, copy)
        return [total, *(copy(total, device_of(flat)) for flat in flats[1:])]


class OperatorCollectives(Collectives):
    """The fast way to ``Collectives``, by slices, ``reshape`` and Python's operators.

    ``extreme`` is required, and ``concatenate``, which gives new memory also of a single tensor.
    Override ``combine`` and ``scale`` where they can write in place.
    """

    @abstractmethod
    def extreme(self, a: Tensor, b: Tensor, op: str) -> Tensor:
        """The ``min`` or ``max`` of each two elements: NaN if either is."""

    def pack(self, tensors: Sequence[Tensor]) -> Tensor:
        """By ``concatenate``."""
        return self.concatenate([x.reshape(-1) for x in tensors])

    def unpack(self, flat: Tensor, shapes: Sequence[tuple[int, ...]]) -> Sequence[Tensor]:
        """Slices."""
        ends = list(accumulate(map(prod, shapes)))
        starts = zip([0, *ends], ends, shapes, strict=False)
        return [flat[start:end].reshape(shape) for start, end, shape in starts]

    def combine(self, a: Tensor, b: Tensor, op: str) -> Tensor:
        """``a + b``, or by ``extreme``."""
        return a + b if op == "sum" else self.extreme(a, b, op)

    def scale(self, flat: Tensor, factor: float) -> Tensor:
        """``flat * factor``."""
        return flat * factor
