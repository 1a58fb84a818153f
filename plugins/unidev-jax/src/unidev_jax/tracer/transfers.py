"""What moves when JAX's arrays are read, copied or computed with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.errors import UnsupportedOperation
from unidev_jax.arrays import TRACER, is_tracing, value_of
from unidev_jax.framework import jax
from unidev_jax.tracer.names import called, is_jaxs_own
from unidev_jax.tracer.sight import Sight, are_one, parts_of, shard_shape, transfer
from unidev_jax.variables import plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from unidev.contract import Backend, Device, PlannedTransfer

    Planned = list[PlannedTransfer]


class Transfers:
    """Plans the transfers of a call. JAX's own refusals come later, and report nothing here."""

    def __init__(self, backend: Backend) -> None:
        self._sight = Sight(backend)

    def read(self, x: Any, operation: str) -> Planned:
        """The values of ``x``, an array, go to the host."""
        cpu = self._sight.cpu
        sources = [(part, self._sight.device_of(part)) for part in parts_of(x)]
        if not any(source is not None and source.kind != "cpu" for _, source in sources):
            return []
        name = called(operation)
        return [
            transfer(name, part, source, cpu)
            for part, source in sources
            if source is not None and source.kind != "cpu"
        ]

    def put(self, x: Any, wanted: Any, operation: str) -> Planned:
        """``x``, one leaf, goes to a device or a sharding; without one, NumPy's to the default."""
        if isinstance(x, np.ndarray):
            found = self._put_host(x, wanted, operation)
        elif is_array(x) and wanted is not None:
            found = self._put_array(x, wanted, operation)
        else:
            return []
        return found and _renamed(found, called(operation))

    def operands(self, leaves: Iterable[Any], name: str, *, is_operation: bool = True) -> Planned:
        """All of ``leaves`` go to where one program computes with them.

        That is where the committed arrays are, or JAX's default device. Committed arrays on several
        devices are refused, or sharded: a blind spot.
        """
        found = _split(leaves)
        if found is None:
            return []
        arrays, hosts = found
        target = self._target_of(arrays)
        if target is None or (hosts and not arrays and is_tracing()):
            return []
        placed = [(x, self._sight.device_of(x)) for x in arrays]
        moved = [
            transfer(name, x, source, target)
            for x, source in placed
            if source is not None and not are_one(source, target)
        ]
        if target.kind != "cpu":
            moved += [transfer(name, x, self._sight.cpu, target) for x in hosts]
        if not moved or is_jaxs_own():
            return []
        if not is_operation or all(source is not target for _, source in placed):
            return _renamed(moved, called(name))
        return _renamed(moved, f"{name.rpartition('.')[2]} of mixed operands")

    def _target_of(self, arrays: Sequence[Any]) -> Device | None:
        committed = {self._sight.device_of(x) for x in arrays if x.committed}
        if not committed:
            return self._sight.default()
        return committed.pop() if len(committed) == 1 else None

    def _put_host(self, x: Any, wanted: Any, operation: str) -> Planned:
        sight = self._sight
        if wanted is None:
            default = sight.default()
            targets: Sequence[Device] = [] if default is None else [default]
            shape = x.shape
        else:
            targets = sight.devices_in(wanted)
            shape = shard_shape(x, wanted) if len(targets) > 1 else x.shape
        return [
            transfer(operation, x, sight.cpu, target, shape)
            for target in targets
            if target.kind != "cpu"
        ]

    def _put_array(self, x: Any, wanted: Any, operation: str) -> Planned:
        source = self._sight.device_of(x)
        if source is None:
            return []  # on several devices, or in another memory: a blind spot
        targets = self._sight.devices_in(wanted)
        shape = shard_shape(x, wanted) if len(targets) > 1 else None
        return [
            transfer(operation, x, source, target, shape)
            for target in targets
            if not are_one(source, target)
        ]


def is_array(x: Any) -> bool:
    """Whether ``x`` has memory of JAX's, whose values NumPy can have."""
    return (
        isinstance(x, jax.Array)
        and not isinstance(x, TRACER)
        and isinstance(x.dtype, np.dtype)
        and not x.is_deleted()
    )


def _split(leaves: Iterable[Any]) -> tuple[list[Any], list[Any]] | None:
    """JAX's arrays and NumPy's; None if one has no values yet, or there are only numbers.

    Arrays that are differentiated have values: JAX computes with them at once.
    """
    arrays, hosts = [], []
    for each in leaves:
        leaf = plain(each)
        if isinstance(leaf, TRACER):
            try:
                leaf = value_of(leaf)
            except UnsupportedOperation:
                return None
        if isinstance(leaf, np.ndarray):
            hosts.append(leaf)
        elif is_array(leaf):
            arrays.append(leaf)
    return (arrays, hosts) if arrays or hosts else None


def _renamed(moved: Planned, name: str) -> Planned:
    return [each._replace(operation=name) for each in moved]
