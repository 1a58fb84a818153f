"""The judge of copies: by where the bytes are, by writing, and by what is read back.

*Disjoint* means that no byte of the full storage extents overlaps while both tensors are alive: an
address that has been freed is given out again, so whoever asks holds both tensors. An extent that
is empty or has no address says nothing; who gets one has proved nothing, and errs.

Everything here goes by the probe, which uses the framework's own calls, and by what any user sees
(``device_of``, ``shape``, ``dtype``); nothing by the backend's methods that are being judged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import unidev
from unidev.conformance.judging.outcomes import InconclusiveError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unidev.conformance.kit.evidence import Evidence
    from unidev.contract.backend import Extent
    from unidev.contract.device import Device
    from unidev.contract.probe import Probe

_SHOWN_BYTES = 32


class Oracle:
    """Judges by one probe, and notes what it saw."""

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
            raise InconclusiveError(f"the probe gave the extents {extents}: they prove nothing")
        return extents

    def shares(self, x: Any, y: Any) -> bool:
        """Whether any byte stands behind both, which are alive as long as this call takes."""
        mine, other = self.storage(x), self.storage(y)
        self._evidence.add("extents", [shown(mine), shown(other)])
        return overlapping_bytes(mine, other) > 0

    def check_disjoint(self, x: Any, y: Any, where: str) -> None:
        """``y`` shares no byte with ``x``, and has room for what it holds."""
        if y is x:
            raise AssertionError(f"{where}: the copy is the source, the very same object")
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
            raise AssertionError(
                f"{where}: {nbytes} bytes of elements stand on {has} bytes of memory"
            )

    def check_bytes(self, x: Any, expected: bytes, where: str) -> None:
        """The elements of ``x`` are these bytes, in C order."""
        found = self._probe.read(x)
        if found != expected:
            raise AssertionError(f"{where}: {_difference(found, expected)}")

    def check_device(self, x: Any, device: Device, where: str) -> None:
        """``x`` says that it is on ``device``."""
        found = unidev.device_of(x)
        if found is not device:
            raise AssertionError(f"{where}: on {found!r}, not on {device!r}")

    def check_kind(self, x: Any, y: Any, where: str) -> None:
        """Shape and dtype of ``y`` are those of ``x``."""
        if tuple(y.shape) != tuple(x.shape):
            raise AssertionError(f"{where}: shape {tuple(y.shape)} in place of {tuple(x.shape)}")
        if y.dtype != x.dtype:
            raise AssertionError(f"{where}: dtype {y.dtype} in place of {x.dtype}")

    def check_copy(self, x: Any, y: Any, device: Device, where: str) -> None:
        """``y`` is a true copy of ``x`` on ``device``; neither is empty."""
        content = self._probe.read(x)
        self.check_disjoint(x, y, where)
        self.check_device(y, device, where)
        self.check_kind(x, y, where)
        self.check_bytes(y, content, where)
        self.check_room(y, len(content), where)

    def check_writes_apart(self, x: Any, y: Any, where: str) -> None:
        """What is written through one is not read through the other; ``x`` and ``y`` are spoilt.

        The memory written to must be the memory that was there before: a copy that is put off until
        somebody writes would be right in its values, and not a copy.
        """
        before = self.storage(x), self.storage(y)
        # The copy is not read before the source is written to: that might be what completes it.
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
                f"{[shown(e) for e in after]}: the copy was put off until then"
            )
        self._evidence.add("written", where)

    def _write(self, x: Any, value: float, where: str) -> None:
        old = self._probe.read(x)
        self._probe.write(x, value)
        if self._probe.read(x) == old:
            raise InconclusiveError(f"{where}: the probe wrote {value}, and nothing changed")


def overlapping_bytes(mine: Sequence[Extent], other: Sequence[Extent]) -> int:
    """How many bytes stand in both."""
    return sum(
        max(0, min(p.address + p.nbytes, q.address + q.nbytes) - max(p.address, q.address))
        for p in mine
        for q in other
    )


def shown(extents: Sequence[Extent]) -> str:
    """Addresses and lengths, for messages and evidence."""
    return ", ".join(f"{each.address:#x}+{each.nbytes}" for each in extents)


def _difference(found: bytes, expected: bytes) -> str:
    if len(found) != len(expected):
        return f"{len(found)} bytes in place of {len(expected)}"
    at = next(i for i, (a, b) in enumerate(zip(found, expected, strict=True)) if a != b)
    start = at - at % 16
    return (
        f"bytes differ from byte {at} of {len(expected)} on: "
        f"{found[start : start + _SHOWN_BYTES].hex(' ', 4)} in place of "
        f"{expected[start : start + _SHOWN_BYTES].hex(' ', 4)}"
    )
