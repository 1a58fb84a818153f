"""The judge of copies: by the addresses of bytes, by writing, and by reading back.

``Evidence`` is what a check has observed: extents, bytes, values, in a few lines of JSON.

*Disjoint* means that no byte of the complete storage extents overlaps while both tensors are alive:
freed addresses are reused, so the caller holds both tensors. An extent that is empty or has no
address proves nothing, and is an error.

Everything here uses the probe, which uses the framework's own calls, and what any user sees
(``device_of``, ``shape``, ``dtype``); never the methods of the backend under test.
"""

from __future__ import annotations

import ctypes
import inspect
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import unidev
from unidev_conformance.judging.outcomes import InconclusiveError
from unidev_conformance.kit.differences import difference

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from unidev.contract.backend import Extent
    from unidev.contract.probe import Probe
    from unidev.device import Device

_ROUNDED_BYTES = 4096
"""A block of memory may be so much larger, or twice as large, as was asked for."""
_MOST_ENTRIES = 8
"""So many are kept under one name; those beyond are only counted."""
_MOST_CHARACTERS = 200


class Oracle:
    """Judges with one probe, and records evidence."""

    def __init__(self, probe: Probe, evidence: Evidence) -> None:
        self._probe = probe
        self._evidence = evidence

    def storage(self, x: Any) -> list[Extent]:
        """The extents behind ``x``, each with an address and a length.

        Raises:
            InconclusiveError: there are none, or one is null or empty.
        """
        extents = list(self._probe.extents(x))
        if not extents or any(not each.address or each.nbytes <= 0 for each in extents):
            raise InconclusiveError(f"the probe returned the extents {extents}: they prove nothing")
        return extents

    def shares(self, x: Any, y: Any) -> bool:
        """Whether the two share any byte; both stay alive during this call."""
        mine, other = self.storage(x), self.storage(y)
        self._evidence.add("extents", [shown(mine), shown(other)])
        return overlapping_bytes(mine, other) > 0

    def check_disjoint(self, x: Any, y: Any, where: str) -> None:
        """``y`` shares no byte with ``x``, and has room for its elements."""
        if y is x:
            raise AssertionError(f"{where}: the copy is the source, the same object")
        mine, other = self.storage(x), self.storage(y)
        self._evidence.add("extents", [shown(mine), shown(other)])
        shared = overlapping_bytes(mine, other)
        if shared:
            raise AssertionError(
                f"{where}: the copy shares {shared} bytes with its source: source "
                f"{shown(mine)}, copy {shown(other)}"
            )

    def check_room(self, y: Any, nbytes: int, where: str) -> None:
        """The storage of ``y`` has a byte for each byte of its elements."""
        has = sum(each.nbytes for each in self.storage(y))
        if has < nbytes:
            raise AssertionError(f"{where}: {nbytes} bytes of elements in {has} bytes of memory")

    def check_no_more(self, y: Any, nbytes: int, where: str) -> None:
        """The storage of ``y`` has no room for much more, though allocators round up."""
        has = sum(each.nbytes for each in self.storage(y))
        if has > 2 * nbytes + _ROUNDED_BYTES:
            raise AssertionError(
                f"{where}: {has} bytes of memory for {nbytes} bytes of elements: the copy has room "
                "for what its source is a view of"
            )

    def check_bytes(self, x: Any, expected: bytes, where: str) -> None:
        """The elements of ``x`` are these bytes, in C order."""
        self.check_content(self._probe.read(x), expected, where)

    def check_content(self, found: bytes, expected: bytes, where: str) -> None:
        """The bytes that were read before are those expected."""
        if found != expected:
            raise AssertionError(f"{where}: {difference(found, expected)}")

    def check_memory(self, x: Any, device: Device, expected: bytes, where: str) -> None:
        """The memory of ``x`` has these bytes, if this process can look there itself."""
        if device.kind == "cpu" or device.is_simulated:
            found = ctypes.string_at(self.storage(x)[0].address, len(expected))
            self.check_content(found, expected, where)

    def check_device(self, x: Any, device: Device, where: str) -> None:
        """``x`` reports that it is on ``device``."""
        found = unidev.device_of(x)
        if found is not device:
            raise AssertionError(f"{where}: on {found!r}, not on {device!r}")

    def check_kind(self, x: Any, y: Any, where: str) -> None:
        """``y`` has the shape and dtype of ``x``."""
        if tuple(y.shape) != tuple(x.shape):
            raise AssertionError(f"{where}: shape {tuple(y.shape)} instead of {tuple(x.shape)}")
        if y.dtype != x.dtype:
            raise AssertionError(f"{where}: dtype {y.dtype} instead of {x.dtype}")

    def check_copy(self, x: Any, y: Any, device: Device, where: str) -> None:
        """``y`` is a true copy of ``x`` on ``device``; neither is empty."""
        content = self._probe.read(x)
        self.check_disjoint(x, y, where)
        self.check_device(y, device, where)
        self.check_kind(x, y, where)
        self.check_bytes(y, content, where)
        self.check_room(y, len(content), where)

    def check_writes_apart(self, x: Any, y: Any, where: str) -> None:
        """Writes through one do not change the other; overwrites both ``x`` and ``y``.

        The memory written to must be the original memory: a copy deferred until the first write
        would have the right values, but would not be a copy.
        """
        before = self.storage(x), self.storage(y)
        # The copy is not read before the source is written to: reading might complete it.
        content = self._probe.read(x)
        self._write(x, 77, where)
        self.check_bytes(y, content, f"{where}, the copy after writing to the source")
        content = self._probe.read(x)
        self._write(y, 99, where)
        self.check_bytes(x, content, f"{where}, the source after writing to the copy")
        after = self.storage(x), self.storage(y)
        if before != after:
            raise AssertionError(
                f"{where}: writing moved the memory, from {[shown(e) for e in before]} to "
                f"{[shown(e) for e in after]}: the copy was deferred until then"
            )
        self._evidence.add("written", where)

    def check_all_disjoint(self, tensors: Sequence[Any], where: str) -> None:
        """No two of them share a byte; each has elements."""
        extents = sorted(
            (each.address, each.address + each.nbytes, number)
            for number, x in enumerate(tensors)
            for each in self.storage(x)
        )
        for (_, end, one), (start, _, other) in pairwise(extents):
            if start < end:
                raise AssertionError(f"{where}: number {one} and {other} share memory")

    def check_elements_apart(self, tensors: Sequence[Any], where: str) -> None:
        """No element belongs to two of them, even if they share a buffer; overwrites all."""
        for number, x in enumerate(tensors):
            before = [self._probe.read(other) for other in tensors]
            self._write(x, 90 + number, where)
            for at, (other, content) in enumerate(zip(tensors, before, strict=True)):
                if at != number:
                    self.check_bytes(other, content, f"{where}: {at} after writing to {number}")

    def _write(self, x: Any, value: float, where: str) -> None:
        old = self._probe.read(x)
        self._probe.write(x, value)
        if self._probe.read(x) == old:
            raise InconclusiveError(f"{where}: the probe wrote {value}, and nothing changed")


def overlapping_bytes(mine: Sequence[Extent], other: Sequence[Extent]) -> int:
    """How many bytes are in both."""
    return sum(
        max(0, min(p.address + p.nbytes, q.address + q.nbytes) - max(p.address, q.address))
        for p in mine
        for q in other
    )


def shown(extents: Sequence[Extent]) -> str:
    """Addresses and lengths, for messages and evidence."""
    return ", ".join(f"{each.address:#x}+{each.nbytes}" for each in extents)


class Evidence:
    """Collected while a check runs; goes into the report whatever the outcome."""

    def __init__(self, on_entry: Callable[[], None] | None = None) -> None:
        """``on_entry`` is called with each entry and device: the check goes on."""
        self._on_entry = on_entry
        self._entries: dict[str, list[Any]] = {}
        self._counts: dict[str, int] = {}
        self._devices: dict[str, None] = {}

    def add(self, name: str, value: object) -> None:
        """Add ``value`` to the entries under ``name``."""
        self.show_life()
        entries = self._entries.setdefault(name, [])
        self._counts[name] = self._counts.get(name, 0) + 1
        if len(entries) < _MOST_ENTRIES:
            entries.append(_short(value))

    def touch(self, *devices: Device) -> None:
        """Record that the check used these devices."""
        self.show_life()
        self._devices.update(dict.fromkeys(str(device) for device in devices))

    def show_life(self) -> None:
        """Report that the check goes on: its time limit counts from here."""
        if self._on_entry is not None:
            self._on_entry()

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices that the check used."""
        return tuple(self._devices)

    def as_dict(self) -> dict[str, Any]:
        """Names to values; ``… of`` gives the total if not all were kept."""
        found: dict[str, Any] = {}
        for name, entries in self._entries.items():
            found[name] = entries[0] if self._counts[name] == 1 else entries
            if self._counts[name] > len(entries):
                found[f"{name}, first {len(entries)} of"] = self._counts[name]
        return found


def _short(value: object) -> object:
    if isinstance(value, str) and len(value) > _MOST_CHARACTERS:
        return value[:_MOST_CHARACTERS] + "…"
    return value


def line_of(method: Any) -> str:
    """A method of the probe, and where the plugin defines it."""
    code = getattr(inspect.unwrap(method), "__code__", None)
    if code is None:
        return f"the probe's {method}"
    return f"{code.co_name}, line {code.co_firstlineno} of {Path(code.co_filename).name}"
