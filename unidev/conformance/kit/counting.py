"""Counting allocated bytes in a process that is not quiet.

The frameworks' threads, caches and logs allocate, too. So: whatever is done is done once before,
garbage is collected, what is measured is megabytes, and a tolerance is stated. A count that is off
is taken again, a few times: noise comes and goes, a leak does not.

A count can also be quiet because it sees nothing: an allocator that keeps what is freed in a pool
of its own gives the C library no news. So each counter is calibrated before it is believed.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import unidev
from unidev.conformance.judging.outcomes import InconclusiveError
from unidev.conformance.kit.samples import BIG_BYTES, big

if TYPE_CHECKING:
    from collections.abc import Callable

    from unidev.conformance.kit.evidence import Evidence
    from unidev.contract.device import Device
    from unidev.contract.probe import Probe

TOLERANCE_BYTES = 256 * 1024
"""Noise that is let pass: a thirtieth of what is measured with, ``samples.BIG_BYTES``."""
_ATTEMPTS = 3


class Counter:
    """Counts the bytes allocated on one device."""

    def __init__(self, probe: Probe, evidence: Evidence, device: Device) -> None:
        self._probe = probe
        self._evidence = evidence
        self._device = device
        self._is_calibrated = False
        self._held: list[Any] = []

    def calibrate(self) -> None:
        """See whether the count goes up and down with a tensor that the probe makes and drops.

        Raises:
            InconclusiveError: it does not; what it says of others proves nothing.
        """
        if self._is_calibrated:
            return

        def make() -> Any:
            return self._probe.make(big(), self._device)

        seen = []
        for _ in range(_ATTEMPTS):
            seen.append((self.held_by(make), self.left_by(make)))
            up, left = seen[-1]
            if abs(up - BIG_BYTES) <= TOLERANCE_BYTES and abs(left) <= TOLERANCE_BYTES:
                self._is_calibrated = True
                return
            # An allocator may give a free piece that is larger, and count all of it (TensorFlow's
            # BFC does): held, that piece is in nobody's way any more.
            self._held.append(make())
        raise InconclusiveError(
            f"the count of {self._device} does not count: with a tensor of {BIG_BYTES} bytes that "
            f"the probe made and dropped it went up by, and then kept, {seen}"
        )

    def now(self) -> int:
        """Bytes allocated when all garbage is gone and all work done."""
        gc.collect()
        return self._count()

    def held_by(self, make: Callable[[], Any]) -> int:
        """By how much the count is up while the result of ``make`` is held."""
        make()
        before = self.now()
        held = make()
        after = self.now()
        del held
        return after - before

    def left_by(self, use: Callable[[], object]) -> int:
        """By how much the count is up once ``use`` has ended, before garbage is collected."""
        use()
        before = self.now()
        use()
        return self._count() - before

    def _count(self) -> int:
        unidev.synchronize(self._device)
        return self._probe.allocated_bytes(self._device)

    def check(self, measure: Callable[[], int], expected: int, tolerance: int, where: str) -> None:
        """``measure`` gives ``expected`` within ``tolerance`` in one of a few attempts."""
        self.calibrate()
        seen = []
        for _ in range(_ATTEMPTS):
            seen.append(measure())
            if abs(seen[-1] - expected) <= tolerance:
                self._evidence.add("bytes", f"{where}: {seen[-1]} of {expected}")
                return
        raise AssertionError(
            f"{where}: the allocated bytes of {self._device} are up by {seen}, "
            f"not by {expected} ± {tolerance}"
        )
