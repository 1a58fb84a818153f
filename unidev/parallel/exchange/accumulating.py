"""Losses and gradients of several steps as one: their mean by rows, or their sum."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unidev.backends.boundary import call
from unidev.contract.dtypes import portable_name
from unidev.errors import InvalidDataError
from unidev.parallel.devices.packing import Kind, buckets_of, kinds_of, unrecorded, with_empty_ones

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from unidev.contract.backend import Backend
    from unidev.device import Device

    Tensor = Any

_NARROW = ("float16", "bfloat16")
"""These are added up in float32: a mean of many steps would lose its last bits in each."""


class Accumulated:
    """What several steps gave, packed, in memory of its own.

    Attributes:
        rows: those of all steps.
    """

    def __init__(self, backend: Backend, device: Device, *, is_mean: bool) -> None:
        self.rows = 0
        self._backend = backend
        self._device = device
        self._is_mean = is_mean
        self._names: list[str] = []
        self._kinds: list[Kind] = []
        self._flats: list[Tensor] = []

    def add(self, found: Mapping[str, Tensor], rows: int) -> None:
        """Add what a step gave, by name, with its rows."""
        names, kinds = list(found), kinds_of(list(found.values()))
        if self.rows and (names, kinds) != (self._names, self._kinds):
            raise InvalidDataError(
                "the gradients of this step differ from the accumulated ones in names, shapes or "
                "dtypes: train the same parameters until the gradients are exchanged."
            )
        flats, self._flats = self._flats, []  # scaled in place: half of a sum is none
        with unrecorded(self._backend):
            total = call(
                self._backend, self._sums, flats, list(found.values()), kinds, rows,
                doing="accumulating gradients",
            )  # fmt: skip
        self.rows += rows
        self._names, self._kinds, self._flats = names, kinds, total

    def tensors(self) -> dict[str, Tensor]:
        """The mean or the sum, of the shapes and dtypes of one step; what was added up is gone."""
        flats, self._flats = self._flats, []
        with unrecorded(self._backend):
            found = call(self._backend, self._unpacked, flats, doing="accumulating gradients")
        return dict(zip(self._names, found, strict=True))

    def _sums(
        self, flats: Sequence[Tensor], tensors: list[Tensor], kinds: list[Kind], rows: int
    ) -> list[Tensor]:
        use, backend, device = self._backend.collectives, self._backend, self._device
        all_rows = self.rows + rows
        total = []
        for number, bucket in enumerate(buckets_of(backend, kinds)):
            flat, dtype = bucket.packed(backend, tensors, device), kinds[bucket.positions[0]].dtype
            if self._is_narrow(dtype):
                flat = backend.cast(flat, backend.dtypes["float32"], device)
            if self._is_mean:
                flat = use.scale(flat, rows / all_rows)
            if flats:
                before = flats[number]
                if self._is_mean:
                    before = use.scale(before, self.rows / all_rows)
                flat = use.combine(before, flat, "sum")
            total.append(flat)
        return total

    def _unpacked(self, flats: Sequence[Tensor]) -> list[Tensor]:
        backend = self._backend
        found: list[Tensor] = [None] * len(self._kinds)
        for flat, bucket in zip(flats, buckets_of(backend, self._kinds), strict=True):
            dtype = self._kinds[bucket.positions[0]].dtype
            whole = backend.cast(flat, dtype, self._device) if self._is_narrow(dtype) else flat
            bucket.unpack(backend, whole, found)
        return with_empty_ones(backend, self._kinds, found, self._device)

    def _is_narrow(self, dtype: Any) -> bool:
        return portable_name(dtype, self._backend) in _NARROW
