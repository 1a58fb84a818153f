"""Many tensors travel as few: packed by dtype into buckets, reduced or copied, and unpacked."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from unidev.calls.boundary import call
from unidev.calls.transfers import nbytes_of, of_tensor
from unidev.contract.backend import Unsupported
from unidev.contract.dtypes import portable_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    from unidev.contract.backend import Backend
    from unidev.contract.device import Device

    Tensor = Any

BUCKET_BYTES = 32 << 20
"""The most bytes in a bucket."""
LARGE_BYTES = 4 << 20
"""Tensors of as many bytes travel by themselves: packing them would only cost memory."""


class Bucket(NamedTuple):
    """Tensors of one dtype that travel together, by their positions in the list."""

    positions: list[int]
    is_packed: bool

    def packed(self, backend: Backend, tensors: Sequence[Tensor], device: Device) -> Tensor:
        """The tensors at these positions as one: new memory, if it lies on ``device`` already."""
        if self.is_packed:
            return backend.collectives.pack([tensors[position] for position in self.positions])
        x = tensors[self.positions[0]]
        return backend.copy_to(x, device, False) if backend.device_of(x) is device else x

    def unpack(
        self, backend: Backend, flat: Tensor, like: Sequence[Tensor], into: list[Tensor]
    ) -> None:
        """Put the parts of ``flat``, in the shapes of ``like``, at these positions of ``into``."""
        parts = [flat]
        if self.is_packed:
            shaped = [like[position] for position in self.positions]
            parts = list(backend.collectives.unpack(flat, shaped))
        for position, part in zip(self.positions, parts, strict=True):
            into[position] = part


def reduce_to(  # noqa: PLR0913  what, where and how, and how it is reported
    backend: Backend,
    lists: Sequence[Sequence[Tensor]],
    device: Device,
    op: str,
    weights: Sequence[float] | None = None,
    *,
    operation: str = "all_reduce",
) -> list[Tensor]:
    """What stands at the same place in each list, reduced in order, in new memory on ``device``.

    ``weights``, one for each list, are those of a mean. The lists hold tensors of the same shapes
    and dtypes, each on one device.
    """
    combined, factors = combination(op, len(lists), weights)

    def reduced(bucket: Bucket, copy: Any) -> list[Tensor]:
        flats = [bucket.packed(backend, tensors, device) for tensors in lists]
        return [backend.collectives.reduce(flats, device, combined, factors, copy)]

    return _each_bucket(backend, lists[0], [(device, lists[0])], reduced, operation)[0]


def all_reduced(
    backend: Backend,
    lists: Sequence[Sequence[Tensor]],
    devices: Sequence[Device],
    op: str,
    weights: Sequence[float] | None = None,
) -> list[list[Tensor]]:
    """As ``reduce_to``, but on the device of each list."""
    combined, factors = combination(op, len(lists), weights)

    def reduced(bucket: Bucket, copy: Any) -> Sequence[Tensor]:
        flats = [bucket.packed(backend, tensors, devices[0]) for tensors in lists]
        return backend.collectives.all_reduce(flats, combined, factors, copy)

    targets = list(zip(devices, lists, strict=True))
    return _each_bucket(backend, lists[0], targets, reduced, "all_reduce")


def copied_to(
    backend: Backend, sources: Sequence[Tensor], devices: Sequence[Device], operation: str
) -> list[list[Tensor]]:
    """The values of ``sources``, which lie on one device, in new memory on each of ``devices``."""

    def copies(bucket: Bucket, copy: Any) -> Iterator[Tensor]:
        flat = bucket.packed(backend, sources, devices[0])
        return (copy(flat, device) for device in devices)

    targets = [(device, sources) for device in devices]
    return _each_bucket(backend, sources, targets, copies, operation)


def write_over(
    backend: Backend,
    sources: Sequence[Tensor],
    targets: Sequence[Sequence[Tensor]],
    operation: str = "broadcast",
) -> None:
    """Write the values of ``sources``, which lie on one device, to each list of ``targets``.

    Each list is on one device, too; its tensors stay the same objects.
    """
    if not sources:
        return
    devices = [backend.device_of(tensors[0]) for tensors in targets]
    values = copied_to(backend, sources, devices, operation)
    for tensors, new in zip(targets, values, strict=True):
        write(backend, tensors, new)


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
    parts = [1.0] * count if weights is None else weights
    total = sum(parts)
    return "sum", [part / total for part in parts]


def buckets_of(backend: Backend, tensors: Sequence[Tensor]) -> Iterator[Bucket]:
    """All that are not empty, in order: large ones by themselves, the others packed."""
    open_buckets: dict[Any, tuple[list[int], int]] = {}
    packable: dict[Any, bool] = {}
    for position, x in enumerate(tensors):
        nbytes = nbytes_of(x, backend)
        if nbytes == 0:
            continue
        dtype = x.dtype
        if dtype not in packable:
            packable[dtype] = portable_name(dtype, backend) is not None
        if nbytes >= LARGE_BYTES or not packable[dtype]:
            yield Bucket([position], False)
            continue
        positions, filled = open_buckets.get(dtype, ([], 0))
        if filled + nbytes > BUCKET_BYTES:
            yield Bucket(positions, True)
            positions, filled = [], 0
        positions.append(position)
        open_buckets[dtype] = positions, filled + nbytes
    for positions, _ in open_buckets.values():
        yield Bucket(positions, True)


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
    return nullcontext() if isinstance(autograd, Unsupported) else autograd.no_grad()


def _each_bucket(
    backend: Backend,
    like: Sequence[Tensor],
    targets: Sequence[tuple[Device, Sequence[Tensor]]],
    exchanged: Any,
    operation: str,
) -> list[list[Tensor]]:
    """For each target a list of tensors, from what ``exchanged`` gives it for each bucket."""
    made: list[list[Tensor]] = [[None] * len(like) for _ in targets]

    def work() -> None:
        for bucket in buckets_of(backend, like):
            flats = exchanged(bucket, partial(copied, backend, operation))
            for flat, (_, tensors), into in zip(flats, targets, made, strict=True):
                bucket.unpack(backend, flat, tensors, into)
        for (device, _), into in zip(targets, made, strict=True):
            for position, x in enumerate(like):
                if into[position] is None:  # empty
                    into[position] = backend.empty(tuple(x.shape), x.dtype, device)

    with unrecorded(backend):
        call(backend, work, doing=f"packing tensors for {operation}", operation=operation)
    return made
