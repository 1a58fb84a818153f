"""``split_batch`` and ``gather``: the rows of a batch on several devices, and together again."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from unidev.backends.boundary import call
from unidev.errors import InvalidDataError
from unidev.parallel.devices.arguments import (
    Aligned,
    check_whole,
    checked_devices,
    checked_weights,
    common_rows,
    one_backend,
)
from unidev.parallel.devices.packing import copied
from unidev.system.wording import count_text
from unidev.tensors.containers import Opened
from unidev.tensors.devices import resolve_device
from unidev.tensors.kinds import rows_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeVar

    from unidev.contract.backend import Backend
    from unidev.device import Device
    from unidev.tensors.devices import DeviceLike

    T = TypeVar("T")


def split_batch(
    batch: T, devices: Sequence[DeviceLike], *, weights: Sequence[float] | None = None
) -> list[T]:
    """Split the rows of ``batch`` over ``devices``: a list of shards, one on each, in order.

    A shard is in new memory and shares none with ``batch`` or another shard. Gradients flow back to
    ``batch`` if the framework has autograd.

    Args:
        batch: a tensor, or a nested container of tensors with the same number of rows, which is
            their first dimension. Non-tensor leaves pass through to each shard.
        devices: of the framework of ``batch``; one may be listed twice.
        weights: a positive number for each device, in proportion to which it gets rows, rounded by
            largest remainder. None: the numbers of rows differ by at most one, larger ones first.

    Returns:
        For each device a container of the same structure and types. Dtypes are kept.

    Raises:
        InvalidDataError: the numbers of rows differ, a tensor has no dimension, a device would get
            no row, or the weights are not one positive number for each device; the message has the
            paths and the numbers.
        DeviceError: there are no devices, or one is invalid or not available.
        NotATensorError, ContainerError: ``batch`` cannot be split.
        UnsupportedOperation: nor can a sparse or nested tensor in it; the message says what can.

    >>> import unidev
    >>> shards = unidev.split_batch({"x": unidev.arange(5)}, ["cpu", "cpu"])
    >>> [unidev.to_numpy(shard["x"]).tolist() for shard in shards]
    [[0, 1, 2], [3, 4]]
    """
    tree, backend = _batch(batch)
    targets = checked_devices(devices, backend)
    sizes = shares(_rows(tree), len(targets), checked_weights(weights, len(targets), "each device"))
    if 0 in sizes:
        raise InvalidDataError(
            f"a batch of {count_text(sum(sizes), 'row')} over {len(targets)} devices would leave "
            f"{targets[sizes.index(0)]} (number {sizes.index(0)}) without a row: the shares are "
            f"{', '.join(map(str, sizes))}. Use fewer devices, a larger batch, or other weights."
        )
    shards, start = [], 0
    for target, size in zip(targets, sizes, strict=True):
        shards.append(_rows_on(tree, backend, target, range(start, start + size)))
        start += size
    return shards


def rows_for(batch: T, device: Device, number: int, count: int) -> T:
    """The shard ``number`` of ``count`` of those that ``split_batch`` makes, on ``device``."""
    tree, backend = _batch(batch)
    sizes = shares(_rows(tree), count, None)
    if 0 in sizes:
        raise InvalidDataError(
            f"a batch of {count_text(sum(sizes), 'row')} over {count} workers would leave worker "
            f"{sizes.index(0)} without a row: use fewer workers, or a larger batch."
        )
    start = sum(sizes[:number])
    found: T = _rows_on(tree, backend, device, range(start, start + sizes[number]))
    return found


def _batch(batch: Any) -> tuple[Opened, Backend]:
    tree = Opened(batch)
    backend = one_backend(tree.tensors, "batch")
    check_whole([tree], backend, is_packed=False)
    return tree, backend


def _rows_on(tree: Opened, backend: Backend, device: Device, rows: range) -> Any:
    made: dict[int, Any] = {}
    for x, _ in tree.tensors:
        if id(x) not in made:
            doing = f"taking rows {rows.start} to {rows.stop} of a tensor"
            part = call(backend, backend.collectives.rows, x, rows.start, rows.stop, doing=doing)
            made[id(x)] = copied(backend, "split_batch", part, device)
    return tree.with_tensors(made[id(x)] for x, _ in tree.tensors)


def gather(shards: Sequence[T], device: DeviceLike) -> T:
    """The rows of all ``shards`` in order, in new memory on ``device``: undoes ``split_batch``.

    Gradients flow back to the shards if the framework has autograd.

    Args:
        shards: tensors, or nested containers of one structure, each on any device. Tensors at the
            same place may differ only in their first dimension, which may be 0.
        device: where the result goes.

    Returns:
        A container of the structure and types of the shards; its non-tensor leaves are those of the
        first shard.

    Raises:
        InvalidDataError: structures, shapes or dtypes do not match, or a tensor has no dimension;
            the message has the paths.
        UnsupportedContainerError: ``shards`` is not a list.
        UnsupportedOperation: as of ``split_batch``.
        DeviceError: ``device`` is invalid or not available.

    >>> import unidev
    >>> unidev.to_numpy(unidev.gather([unidev.arange(2), unidev.arange(3)], "cpu")).tolist()
    [0, 1, 0, 1, 2]
    """
    found = Aligned(shards, "shards")
    backend = found.backend
    target = resolve_device(device, backend)
    found.kinds(first_dimension=False)
    whole = []
    for parts in zip(*found.lists, strict=True):
        there = [
            x if len(parts) > 1 and backend.is_bound(x, target)
            else copied(backend, "gather", x, target)
            for x in parts
        ]  # fmt: skip
        whole.append(
            call(backend, backend.collectives.concatenate, there, doing="gathering rows")
            if len(parts) > 1
            else there[0]
        )
    return found.with_tensors([whole] * len(found.lists))[0]  # type: ignore[no-any-return]


def shares(rows: int, count: int, weights: Sequence[float] | None) -> list[int]:
    """How many of ``rows`` each of ``count`` gets: by largest remainder, the first ones first."""
    parts = [Fraction(weight) for weight in weights or [1] * count]
    quotas = [rows * part / sum(parts) for part in parts]
    sizes = [int(quota) for quota in quotas]
    by_remainder = sorted(range(count), key=lambda number: sizes[number] - quotas[number])
    for number in by_remainder[: rows - sum(sizes)]:
        sizes[number] += 1
    return sizes


def _rows(tree: Opened) -> int:
    return common_rows(
        (rows_of(x) for x, _ in tree.tensors),
        lambda position: f"batch{tree.path(position)}",
        "so it has no rows to split: split_batch takes tensors of at least one dimension",
        "the tensors of a batch must have the same number of rows, their first dimension",
    )
