"""``Device``: which device, as a value."""

from __future__ import annotations

from unidev.support.numbers import non_negative_integer

TYPE_CHECKING = False  # not typing's: importing that takes as long as all of unidev
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from unidev.contract.backend import Backend


class Device:
    """One device of one backend: immutable, hashable, picklable.

    There is one object for one device in a process, so ``is``, ``==`` and ``hash`` agree and are
    cheap. Users get devices from ``cpu()``, ``gpu(1)``, ``as_device("gpu:1")`` and the like, which
    ask whether the device is there; the constructor, which unpickling uses, does not.

    ``with device:`` makes new tensors of this thread land there: unidev's on every backend, and the
    framework's own where the framework has a default device for each thread. Scopes nest, and end
    also on an exception.

    Attributes:
        backend: name of the backend, such as ``torch``.
        kind: ``cpu`` or ``gpu`` (any accelerator).
        index: which of its kind, from 0.
        native: the framework's own object. Asks whether the device is there, once.

    >>> import unidev
    >>> device = unidev.cpu()
    >>> str(device), device.kind, device.index
    ('cpu:0', 'cpu', 0)
    >>> device is unidev.as_device("cpu")
    True
    """

    __slots__ = ("__weakref__", "backend", "index", "kind", "native")

    backend: str
    kind: str
    index: int
    native: Any

    def __new__(cls, backend: str, kind: str, index: int) -> Device:
        """The one object for this device; made if it is the first time that it is named."""
        if type(index) is not int or type(kind) is not str or type(backend) is not str:
            return Device(*_checked_key(backend, kind, index))
        key = (backend, kind, index)
        device = _devices.get(key)
        if device is None:
            _checked_key(*key)
            device = object.__new__(cls)
            set_slot = object.__setattr__
            set_slot(device, "backend", backend)
            set_slot(device, "kind", kind)
            set_slot(device, "index", index)
            device = _devices.setdefault(key, device)  # atomic: two threads get one object
        return device

    def __getattr__(self, name: str) -> Any:
        # Reached only while the slot `native` is empty: reading it later costs no call.
        if name != "native":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        registry.check_device(self)
        native = self._loaded_backend().native_device(self.kind, self.index)
        object.__setattr__(self, "native", native)
        return native

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a Device cannot be changed: {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a Device cannot be changed: {name!r}")

    def __reduce__(self) -> tuple[type[Device], tuple[str, str, int]]:
        return Device, (self.backend, self.kind, self.index)

    def __str__(self) -> str:
        return f"{self.kind}:{self.index}"

    def __repr__(self) -> str:
        return f"<Device {self.kind}:{self.index} of {self.backend}>"

    def __enter__(self) -> Device:
        _ = self.native  # first of all: a device that is not there is an error here
        registry.enter(self)
        return self

    def __exit__(self, *exc_info: object) -> None:
        registry.leave(self, *exc_info)

    @property
    def native_name(self) -> str:
        """The framework's own spelling, such as ``cuda:1``."""
        return self._loaded_backend().native_name(self.kind, self.index)

    @property
    def name(self) -> str:
        """The hardware's name, such as ``NVIDIA H200``."""
        return self._loaded_backend().hardware_name(self.kind, self.index)

    @property
    def is_simulated(self) -> bool:
        """Whether it stands in for a GPU that this machine does not have."""
        return self.kind == "gpu" and self._loaded_backend().simulated_count > 0

    def _loaded_backend(self) -> Backend:
        return registry.load_backend(self.backend)


class _Registry:
    """What a device asks. Those who know put themselves in here: a device imports none of them."""

    load_backend: Callable[[str], Backend]
    check_device: Callable[[Device], None]
    enter: Callable[[Device], None]
    leave: Callable[..., None]


registry = _Registry()

MOST_INDEX = 2**31 - 1
"""Frameworks keep indexes in 32 bits, or fewer."""


def _checked_key(backend: object, kind: object, index: object) -> tuple[str, str, int]:
    from unidev.errors import DeviceSpecError
    from unidev.support.wording import shown

    number = non_negative_integer(index, MOST_INDEX)
    if not isinstance(backend, str) or not isinstance(kind, str) or number is None:
        raise DeviceSpecError(
            "a Device takes the name of a backend, a kind and an index, a non-negative integer, "
            f"not {shown((backend, kind, index))}.",
            spec=index,
        )
    return str(backend), str(kind), number


_devices: dict[tuple[str, str, int], Device] = {}
