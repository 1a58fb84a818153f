"""``track_memory``: peak memory, by the framework's own count."""

from __future__ import annotations

from unidev.backends.framework_errors import framework_error, is_lack_of_memory
from unidev.backends.loading import load_backend
from unidev.errors import ScopeError, UnidevError, UnsupportedOperation
from unidev.system.forking import fork_safe_lock
from unidev.system.wording import bytes_text
from unidev.tensors.devices import as_device

TYPE_CHECKING = False
if TYPE_CHECKING:
    from unidev.contract.backend import Backend
    from unidev.device import Device
    from unidev.tensors.devices import DeviceLike

_lock = fork_safe_lock()
_open: list[PeakMemory] = []
"""Every tracker that is inside its ``with``: they share the framework's one counter."""


class PeakMemory:
    """The tracker of ``track_memory``: bytes of the framework's tensors on one device."""

    def __init__(self, device: Device, backend: Backend) -> None:
        self.device = device
        self._backend = backend
        self._start_bytes: int | None = None
        self._seen = 0

    @property
    def start_bytes(self) -> int:
        """Memory in use when the block began."""
        if self._start_bytes is None:
            raise ScopeError(
                "this tracker has not started: use `with unidev.track_memory(device) as peak:`."
            )
        return self._start_bytes

    @property
    def peak_bytes(self) -> int:
        """Peak memory in use since the block began, up to now or to the end of the block."""
        _ = self.start_bytes
        with _lock:
            if self in _open:
                self._look()
            return self._seen

    @property
    def added_bytes(self) -> int:
        """``peak_bytes - start_bytes``."""
        return self.peak_bytes - self.start_bytes

    def __enter__(self) -> PeakMemory:
        """Reset the framework's peak, after every open tracker has read it."""
        if self._start_bytes is not None:
            raise ScopeError(
                "a tracker can be entered only once: call unidev.track_memory(device) again."
            )
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
                    "exit from `with unidev.track_memory(device):`, which was not entered."
                )
            try:
                self._look()
            finally:
                _open.remove(self)
        own = self._backend.framework_errors
        if (
            isinstance(error, own)
            and not isinstance(error, UnidevError)
            and is_lack_of_memory(error, self._backend.name)
        ):
            doing = f"running the block of `with unidev.track_memory({str(self.device)!r})`"
            raise framework_error(error, self._backend.name, doing) from error

    def __repr__(self) -> str:
        return f"<{self._title()}: {self._shown()}>"

    def _repr_html_(self) -> str:
        """For notebooks: what ``repr`` gives, as a table."""
        from unidev.system.tables import Table, as_html

        return as_html([Table((self._title(),), [[self._shown()]])])

    def _title(self) -> str:
        return f"peak memory of {self.device}"

    def _shown(self) -> str:
        return "not started" if self._start_bytes is None else bytes_text(self.peak_bytes)

    def _look(self) -> None:
        self._seen = max(self._seen, self._backend.peaks.peak_bytes(self.device))


def track_memory(device: DeviceLike, /) -> PeakMemory:
    """``with unidev.track_memory(device) as peak:`` measures the peak memory of the block.

    Args:
        device: a ``Device``, a string such as ``gpu:1``, or the framework's own device.

    Returns:
        A tracker for one ``with``: ``peak.peak_bytes`` is the peak, ``peak.added_bytes`` the part
        of it above what was in use when the block began. Both count the framework's tensors on
        that device, of all threads, without its allocator's reserve. Trackers nest.

    The framework has one peak counter, and the block resets it: other code that reads the counter
    sees the peak since then. Inside, the framework's lack of memory is ``OutOfDeviceMemoryError``.

    Raises:
        UnsupportedOperation: the framework does not count peak memory there; gives the reason.
        DeviceError: ``device`` is invalid or not available.

    An example::

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
    peaks.used_bytes(target)  # raises here, at the call, if this device has no counter
    return PeakMemory(target, backend)
