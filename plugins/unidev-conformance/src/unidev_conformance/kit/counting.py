"""Counting allocated bytes in a process with other activity.

The frameworks' threads, caches and logs allocate, too. So everything runs once before it is
measured, garbage is collected, measurements are megabytes, and there is a tolerance. A wrong
count is taken again a few times: noise comes and goes, a leak does not.

What runs first gets tensors of its own: a framework may keep with a tensor what its first copy
took (TensorFlow's mirrors), which later copies of that tensor no longer show.

A count can also be steady because it sees nothing: an allocator that pools freed memory hides it
from the C library. So each counter is calibrated before it is trusted.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import unidev
from unidev_conformance.judging.outcomes import InconclusiveError
from unidev_conformance.kit.inputs.samples import BIG_BYTES, big

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from unidev.contract.probe import Probe
    from unidev.device import Device
    from unidev_conformance.kit.oracle import Evidence

TOLERANCE_BYTES = 256 * 1024
"""Tolerated noise: a thirtieth of the measured size, ``samples.BIG_BYTES``."""
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
        """Check that the count follows a tensor that the probe makes and drops.

        Raises:
            InconclusiveError: it does not, so other measurements would prove nothing.
        """
        if self._is_calibrated:
            return
        # Each count collects garbage, and imports since the session began, as PyTorch's compiler
        # for its first optimizer, have left half a million objects.
        gc.collect()
        gc.freeze()

        def make() -> Any:
            return self._probe.make(big(), self._device)

        seen = []
        for _ in range(_ATTEMPTS):
            seen.append((self.held_by(make), self.left_by(make)))
            up, left = seen[-1]
            if abs(up - BIG_BYTES) <= TOLERANCE_BYTES and abs(left) <= TOLERANCE_BYTES:
                self._is_calibrated = True
                return
            # An allocator may hand out a larger free block, and count all of it (TensorFlow's BFC
            # does): once held, that block no longer interferes.
            self._held.append(make())
        raise InconclusiveError(
            f"the byte count of {self._device} is unusable: with a tensor of {BIG_BYTES} bytes "
            f"that the probe made and dropped, it rose by, and then kept, {seen}"
        )

    def now(self) -> int:
        """Bytes allocated once all garbage is collected and all work done."""
        gc.collect()
        return self._count()

    def held_by(self, make: Callable[..., Any], *fresh: Callable[[], Any]) -> int:
        """The increase of the count while the result of ``make`` is held.

        Each of ``fresh`` makes an argument, each time another one, which is not counted.
        """
        make(*_made(fresh))
        arguments = _made(fresh)
        before = self.now()
        held = make(*arguments)
        after = self.now()
        del held
        return after - before

    def left_by(self, use: Callable[..., object], *fresh: Callable[[], Any]) -> int:
        """The increase of the count once ``use`` has ended, before garbage is collected.

        ``fresh`` as for ``held_by``; the arguments are still alive.
        """
        use(*_made(fresh))
        arguments = _made(fresh)
        before = self.now()
        use(*arguments)
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
            f"{where}: the allocated bytes of {self._device} rose by {seen}, "
            f"not by {expected} ± {tolerance}"
        )


def _made(fresh: Sequence[Callable[[], Any]]) -> list[Any]:
    return [make() for make in fresh]
