"""Many tensors travel as few: packed by dtype into buckets, reduced or copied, and unpacked."""

from __future__ import annotations

import math
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from unidev.backends.boundary import call
from unidev.backends.transfers import item_bytes, of_tensor
from unidev.contract.backend import Unsupported
from unidev.tensors.kinds import shape_unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from unidev.contract.backend import Backend
    from unidev.device import Device

    Tensor = Any
    Copy = Callable[[Tensor, Device], Tensor]

BUCKET_BYTES = 32 << 20
"""The most bytes in a bucket."""
LARGE_BYTES = 4 << 20
"""Tensors of as many bytes travel by themselves: packing them would only cost memory."""


class Kind(NamedTuple):
    """The shape and dtype that tensors at the same place must have in common."""

    shape: tuple[int, ...]
    dtype: Any


class Bucket(NamedTuple):
    """Tensors of one dtype that travel together, by their positions in the list."""

    positions: list[int]
    shapes: list[tuple[int, ...]]
    is_packed: bool = True

    def packed(self, backend: Backend, tensors: Sequence[Tensor], device: Device) -> Tensor:
        """The tensors at these positions as one: new memory, if it lies on ``device`` already."""
        if self.is_packed:
            return backend.collectives.pack([tensors[position] for position in self.positions])
        x = tensors[self.positions[0]]
        return backend.copy_to(x, device, False) if backend.device_of(x) is device else x

    def unpack(self, backend: Backend, flat: Tensor, into: list[Tensor]) -> None:
        """Put the parts of ``flat`` at these positions of ``into``."""
        parts = backend.collectives.unpack(flat, self.shapes) if self.is_packed else [flat]
        for position, part in zip(self.positions, parts, strict=True):
            into[position] = part


def kinds_of(tensors: Sequence[Tensor]) -> list[Kind]:
    """The kind of each."""
    try:
        return [Kind(tuple(x.shape), x.dtype) for x in tensors]
    except ValueError as error:  # TensorFlow's, if not even the rank is known
        raise shape_unknown() from error


def nbytes_of(backend: Backend, kinds: Sequence[Kind]) -> int:
    """The bytes of tensors of these kinds together; of a dtype without a size, the elements."""
    return sum(math.prod(shape) * (item_bytes(dtype, backend) or 1) for shape, dtype in kinds)


def reduce_to(  # noqa: PLR0913  what, where and how, and how it is reported
    backend: Backend,
    lists: Sequence[Sequence[Tensor]],
    device: Device,
    op: str,
    weights: Sequence[float] | None = None,
    *,
    operation: str = "all_reduce",
) -> list[Tensor]:
    """Reduce the tensors at the same place of the lists, in order, in new memory on ``device``.

    ``weights``, one for each list, are those of a mean. The lists hold tensors of the same shapes
    and dtypes, each on one device.
    """
    combined, factors = combination(op, len(lists), weights)

    def reduced(bucket: Bucket, copy: Copy) -> list[Tensor]:
        flats = [bucket.packed(backend, tensors, device) for tensors in lists]
        return [backend.collectives.reduce(flats, device, combined, factors, copy)]

    return _each_bucket(backend, kinds_of(lists[0]), [device], reduced, operation)[0]


def reduce_to_each(
    backend: Backend,
    lists: Sequence[Sequence[Tensor]],
    kinds: Sequence[Kind],
    devices: Sequence[Device],
    how: tuple[str, Sequence[float] | None],
) -> list[list[Tensor]]:
    """As ``reduce_to``, but on the device of each list; ``how`` is what ``combination`` gives."""

    def reduced(bucket: Bucket, copy: Copy) -> Sequence[Tensor]:
        flats = [bucket.packed(backend, tensors, devices[0]) for tensors in lists]
        return backend.collectives.all_reduce(flats, *how, copy)

    return _each_bucket(backend, kinds, devices, reduced, "all_reduce")


def copied_to(
    backend: Backend, sources: Sequence[Tensor], devices: Sequence[Device], operation: str
) -> list[list[Tensor]]:
    """The values of ``sources``, which lie on one device, in new memory on each of ``devices``."""

    def copies(bucket: Bucket, copy: Copy) -> list[Tensor]:
        flat = bucket.packed(backend, sources, devices[0])
        return [copy(flat, device) for device in devices]

    return _each_bucket(backend, kinds_of(sources), devices, copies, operation)


def write(backend: Backend, targets: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    """Write each value to its target, both on one device."""
    with unrecorded(backend):
        call(backend, backend.collectives.write, targets, values, doing="writing to tensors")


def combination(
    op: str, count: int, weights: Sequence[float] | None
) -> tuple[str, list[float] | None]:
    """How to combine ``count`` tensors: the operation, and what to multiply each by before."""
    if op != "mean":
        return op, None
    return "sum", shares_of([1.0] * count if weights is None else weights)


def shares_of(weights: Sequence[float]) -> list[float]:
    """The share of each in their sum, which itself may be too large for a float, or too small."""
    exponent = math.frexp(max(weights))[1]
    scaled = [math.ldexp(weight, -exponent) for weight in weights]
    total = sum(scaled)
    return [each / total for each in scaled]


def buckets_of(backend: Backend, kinds: Sequence[Kind]) -> Iterator[Bucket]:
    """All tensors that are not empty, in order: large ones by themselves, the others packed."""
    filling: dict[Any, tuple[Bucket, int]] = {}
    sizes: dict[Any, int] = {}
    for position, (shape, dtype) in enumerate(kinds):
        if dtype not in sizes:  # one that is unknown to us travels alone
            sizes[dtype] = item_bytes(dtype, backend) or LARGE_BYTES
        nbytes = math.prod(shape) * sizes[dtype]
        if nbytes == 0:
            continue
        if nbytes >= LARGE_BYTES:
            yield Bucket([position], [shape], is_packed=False)
            continue
        bucket, filled = filling.get(dtype) or (Bucket([], []), 0)
        if filled + nbytes > BUCKET_BYTES:
            yield bucket
            bucket, filled = Bucket([], []), 0
        bucket.positions.append(position)
        bucket.shapes.append(shape)
        filling[dtype] = bucket, filled + nbytes
    for bucket, _ in filling.values():
        yield bucket


def with_empty_ones(
    backend: Backend, kinds: Sequence[Kind], values: Sequence[Tensor], device: Device
) -> list[Tensor]:
    """The values of tensors of these kinds; those that are in no bucket have no elements."""
    return [
        backend.empty(kind.shape, kind.dtype, device) if value is None else value
        for kind, value in zip(kinds, values, strict=True)
    ]


def copied(backend: Backend, operation: str, x: Tensor, device: Device) -> Tensor:
    """``copy_to``, recorded in traces as ``operation``."""
    return call(
        backend, backend.copy_to, x, device, False,
        doing=lambda: (f"copying tensors to {device}", device),
        operation=operation,
        transfers=lambda: of_tensor(operation, x, device, backend),
    )  # fmt: skip


def unrecorded(backend: Backend) -> AbstractContextManager[Any]:
    """A scope in which autograd does not record, if there is autograd."""
    autograd = backend.autograd
    return nullcontext() if isinstance(autograd, Unsupported) else autograd.detached()


def _each_bucket(
    backend: Backend,
    kinds: Sequence[Kind],
    devices: Sequence[Device],
    exchanged: Callable[[Bucket, Copy], Sequence[Tensor]],
    operation: str,
) -> list[list[Tensor]]:
    """For each device a list of tensors, from what ``exchanged`` gives for each bucket."""
    made: list[list[Tensor]] = [[None] * len(kinds) for _ in devices]

    def work() -> None:
        for bucket in buckets_of(backend, kinds):
            flats = exchanged(bucket, partial(copied, backend, operation))
            for flat, into in zip(flats, made, strict=True):
                bucket.unpack(backend, flat, into)
        for device, into in zip(devices, made, strict=True):
            into[:] = with_empty_ones(backend, kinds, into, device)

    with unrecorded(backend):
        call(backend, work, doing=f"packing tensors for {operation}", operation=operation)
    return made
