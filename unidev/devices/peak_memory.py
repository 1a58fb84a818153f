"""``track_memory``: the most memory that was in use at once, by the framework's own count."""

from __future__ import annotations

import threading

from unidev.calls.framework_errors import framework_error, is_lack_of_memory
from unidev.devices.finding import as_device
from unidev.errors import ScopeError, UnidevError, UnsupportedOperation
from unidev.registry.loading import load_backend
from unidev.support.wording import bytes_text

TYPE_CHECKING = False  # not typing's: importing that takes as long as all of unidev
if TYPE_CHECKING:
    from unidev.contract.backend import Backend
    from unidev.contract.device import Device
    from unidev.devices.finding import DeviceLike

_lock = threading.Lock()
_open: list[PeakMemory] = []
"""Every tracker that is inside its ``with``: a framework has one counter for all of them."""


class PeakMemory:
    """What ``track_memory`` gives; bytes of the framework's tensors on one device."""

    def __init__(self, device: Device, backend: Backend) -> None:
        self.device = device
        self._backend = backend
        self._start_bytes: int | None = None
        self._seen = 0

    @property
    def start_bytes(self) -> int:
        """What was in use when the block began."""
        if self._start_bytes is None:
            raise ScopeError("nothing is tracked yet: `with unidev.track_memory(device) as peak:`")
        return self._start_bytes

    @property
    def peak_bytes(self) -> int:
        """The most that was in use at once since the block began, until now or until it ended."""
        _ = self.start_bytes
        with _lock:
            if self in _open:
                self._look()
            return self._seen

    @property
    def added_bytes(self) -> int:
        """By how much the peak is above what was in use when the block began."""
        return self.peak_bytes - self.start_bytes

    def __enter__(self) -> PeakMemory:
        """Let the framework's peak begin anew; trackers that are open already have seen theirs."""
        if self._start_bytes is not None:
            raise ScopeError("a tracker is for one `with`: call unidev.track_memory again.")
        peaks = self._backend.peaks
        with _lock:
            start = peaks.used_bytes(self.device)
            for each in _open:
                if each.device is self.device:
                    each._look()
            peaks.restart(self.device)
            self._start_bytes = self._seen = start
            _open.append(self)
        return self

    def __exit__(self, _cls: object, error: BaseException | None, _traceback: object) -> None:
        with _lock:
            if self not in _open:
                raise ScopeError(
                    "`with unidev.track_memory(device):` is left, but was not entered."
                )
            try:
                self._look()
            finally:
                _open.remove(self)
        own = self._backend.framework_errors
        if (
            isinstance(error, own)
            and not isinstance(error, UnidevError)
            and is_lack_of_memory(error)
        ):
            doing = f"what ran inside `with unidev.track_memory({str(self.device)!r})`"
            raise framework_error(error, self._backend.name, doing) from error

    def __repr__(self) -> str:
        if self._start_bytes is None:
            return f"<memory peak of {self.device}: not begun>"
        return f"<memory peak of {self.device}: {bytes_text(self.peak_bytes)}>"

    def _look(self) -> None:
        self._seen = max(self._seen, self._backend.peaks.peak_bytes(self.device))


def track_memory(device: DeviceLike, /) -> PeakMemory:
    """``with unidev.track_memory(device) as peak:`` counts the most memory that is in use at once.

    Args:
        device: a ``Device``, a string such as ``gpu:1``, or the framework's own device.

    Returns:
        A tracker for one ``with``: ``peak.peak_bytes`` in all, ``peak.added_bytes`` above what was
        in use when the block began. Counted are the framework's tensors on that device, of all
        threads, not what its allocator keeps in reserve. Trackers nest.

    The framework has one counter of the peak, which begins anew with the block: whoever else reads
    it, reads from there. Where the framework itself runs out of memory inside the block, that
    arrives as ``OutOfDeviceMemoryError``.

    Raises:
        UnsupportedOperation: the framework counts no peak there; says why.
        DeviceError: ``device`` makes no sense, or is not there.

        with unidev.track_memory("gpu") as peak:
            loss = step(net, batch)
        print(peak.peak_bytes)
    """
    target = as_device(device)
    backend = load_backend(target.backend)
    from unidev.contract.backend import Unsupported

    peaks = backend.peaks
    if isinstance(peaks, Unsupported):
        raise UnsupportedOperation("track_memory", peaks.reason, peaks.link)
    peaks.used_bytes(target)  # says here, at the call, if nobody counts on this device
    return PeakMemory(target, backend)
