"""``Device``: a device, as a value; below the errors, which name devices."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn, Protocol

    class _Backend(Protocol):
        """What a device asks of its backend."""

        @property
        def simulated_count(self) -> int: ...
        @property
        def native_scope(self) -> Any: ...
        def native_device(self, kind: str, index: int) -> Any: ...
        def native_name(self, kind: str, index: int) -> str: ...


class Device:
    """One device of one backend: immutable, hashable, picklable.

    A process has one object per device, so ``is``, ``==`` and ``hash`` agree and are cheap. Users
    get devices from ``cpu()``, ``gpu(1)``, ``as_device("gpu:1")`` and the like, which check that
    the device is available; the constructor, which unpickling uses, does not.

    ``with device:`` makes it the default for new tensors in this thread: unidev's on every backend,
    and the framework's own if the framework has a default device per thread. Scopes nest, and an
    exception ends them too. An asynchronous task is inside its own scopes, and those that are open
    where it is created. Where the framework has one default for all tasks of a thread, as
    TensorFlow and MXNet have, a scope inside another task's is a ``ScopeError``.

    Attributes:
        backend: name of the backend, such as ``torch``.
        kind: ``cpu`` or ``gpu`` (any accelerator).
        index: device index among its kind, from 0.
        native: the framework's own device object; the first access checks that it is available.

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
        """The one object for this device, created on first use."""
        if type(index) is not int or type(kind) is not str or type(backend) is not str:
            return Device(*registry.checked_key(backend, kind, index))
        key = (backend, kind, index)
        device = _devices.get(key)
        if device is None:
            registry.checked_key(*key)
            device = object.__new__(cls)
            set_slot = object.__setattr__
            set_slot(device, "backend", backend)
            set_slot(device, "kind", kind)
            set_slot(device, "index", index)
            device = _devices.setdefault(key, device)  # atomic: two threads get one object
        return device

    def __getattr__(self, name: str) -> Any:
        # Reached only while the slot `native` is empty: later reads cost no call.
        if name != "native":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        registry.check_device(self)
        native = self._loaded_backend().native_device(self.kind, self.index)
        object.__setattr__(self, "native", native)
        return native

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a Device is immutable: {name!r} cannot be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a Device is immutable: {name!r} cannot be deleted")

    def __reduce__(self) -> tuple[type[Device], tuple[str, str, int]]:
        return Device, (self.backend, self.kind, self.index)

    def __str__(self) -> str:
        return f"{self.kind}:{self.index}"

    def __repr__(self) -> str:
        return f"<Device {self.kind}:{self.index} of {self.backend}>"

    def _repr_html_(self) -> str:
        """For notebooks; loads nothing."""
        return registry.html(self)

    def __enter__(self) -> Device:
        _ = self.native  # first of all: a device that is not available is an error here
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
        return registry.hardware_name(self)

    @property
    def is_simulated(self) -> bool:
        """Whether it simulates a GPU that this machine does not have."""
        return self.kind == "gpu" and self._loaded_backend().simulated_count > 0

    def _loaded_backend(self) -> _Backend:
        return registry.load_backend(self.backend)


class _Registry:
    """Functions that a device calls. Their modules register them: a device imports nothing."""

    checked_key: Callable[[object, object, object], tuple[str, str, int]]
    load_backend: Callable[[str], _Backend]
    check_device: Callable[[Device], None]
    hardware_name: Callable[[Device], str]
    enter: Callable[[Device], None]
    leave: Callable[..., None]
    html: Callable[[Device], str]


registry = _Registry()

_devices: dict[tuple[str, str, int], Device] = {}
