"""The available devices, and the device that a string or an object specifies."""

from __future__ import annotations

from unidev.backends.boundary import errors_of
from unidev.backends.loading import backend_of_namespace, load_backend
from unidev.backends.scopes import innermost_device
from unidev.backends.selection import EMBEDDED, active_backend, is_numpy_selected
from unidev.device import Device, registry
from unidev.errors import BackendMismatchError, DeviceNotFoundError, DeviceSpecError
from unidev.system.arguments import non_negative_integer
from unidev.system.wording import shown
from unidev.tensors.device_messages import beside_another, listed, not_a_device, not_available

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from unidev.contract.backend import Backend, Memory

    class _OfType(Protocol):
        """``torch.device``."""

        @property
        def type(self) -> str: ...
        @property
        def index(self) -> int | None: ...

    class _OfDeviceType(Protocol):
        """``mx.Context``, TensorFlow's ``LogicalDevice``."""

        @property
        def device_type(self) -> str: ...

    DeviceLike = Device | str | int | _OfType | _OfDeviceType
    """A Device, unidev's or the framework's spelling, a GPU's index, or the framework's own object.

    To a type checker, the object of a framework that has no types is ``Any``, which is accepted.
    """

MOST_INDEX = 2**31 - 1
"""Frameworks store indexes in at most 32 bits."""
KINDS = ("cpu", "gpu")
"""Understood by every backend, whatever devices it has."""


class _First(int):
    """The index where none was passed: 0, and with ``free`` any."""


_FIRST = _First(0)


def cpu() -> Device:
    """The host device of the selected backend, ``cpu:0``."""
    return _there(active_backend(), "cpu", 0)


def gpu(index: int = _FIRST, *, free: int | str | None = None) -> Device:
    """The accelerator ``index`` of the selected backend: CUDA, ROCm, MPS, XPU, or simulated.

    With ``free``, such as ``"8GiB"``, it must have that much free memory now, and without
    ``index``, it is the first that has. As ``try_gpu``, this reserves nothing.

    Raises:
        DeviceNotFoundError: it is not available; lists the devices that are, and explains why the
            backend has no GPU if it has none. Or it has too little free memory; lists the free
            memory of each GPU and the processes that hold the rest, this user's by name.
        DeviceSpecError: ``index`` is not a non-negative integer, or ``free`` is not a size.
        UnsupportedOperation: with ``free``: free memory cannot be read without a context.
    """
    if free is None:
        return _there(active_backend(), "gpu", _checked_index(index))
    from unidev.tensors.free_memory import bytes_wanted, free_memory, too_little

    wanted, backend = bytes_wanted(free), active_backend()
    first = _there(backend, "gpu", _checked_index(index))
    found = free_memory(_gpus(backend) if index is _FIRST else [first], backend)
    fits = [each.device for each in found if each.free_bytes >= wanted]
    if not fits:
        raise DeviceNotFoundError(too_little(found, wanted), spec=str(first))
    return fits[0]


def as_device(spec: DeviceLike, /) -> Device:
    """The device that ``spec`` specifies, once it is known to be available.

    Args:
        spec: a ``Device``; a string in unidev's spelling (``gpu``, ``gpu:1``), which takes
            precedence, or the framework's (``cuda:1``, ``/GPU:1``); an integer, also NumPy's,
            such as a worker's ``LOCAL_RANK``: ``1`` is ``gpu:1``; or the framework's own device
            object. A string or an integer means a device of the selected backend; ``gpu`` is
            ``gpu:0``.

    Raises:
        DeviceSpecError: ``spec`` does not specify a device.
        DeviceNotFoundError: the device is not available; lists those that are.

    >>> import unidev
    >>> unidev.as_device("cpu") is unidev.cpu()
    True
    """
    if isinstance(spec, Device):
        backend = load_backend(spec.backend)
    elif isinstance(spec, (str, int)):
        backend = active_backend()
    else:
        owner = backend_of_namespace(type(spec))
        if owner is None or owner.parse_native(spec) is None:
            owner = active_backend()  # it says what is no device, and takes NumPy's integers
        backend = owner
    return resolve_device(spec, backend)


def list_devices() -> list[Device]:
    """Every device of the selected backend: CPUs first, then GPUs, each by index.

    Creates no GPU context and allocates no device memory.

    >>> import unidev
    >>> [str(device) for device in unidev.list_devices()][0]
    'cpu:0'
    """
    return devices_of(active_backend())


def num_gpus() -> int:
    """The number of GPUs of the selected backend, simulated ones included. Initialises none."""
    return active_backend().device_count("gpu")


def try_gpu(
    index: int = _FIRST, *, free: int | str | None = None, most_free: bool = False
) -> Device:
    """``gpu(index)`` if it is available, else ``cpu()``.

    Only this function and ``try_all_gpus`` fall back to another device.

    Args:
        index: the GPU, by default the first.
        free: memory that must be free now: bytes, or a string in KiB, MiB or GiB, such as
            ``"8GiB"``. Without ``index``, the first GPU that has so much.
        most_free: choose the GPU with the most free memory; among equals, the first.

    Free memory is read from NVIDIA's driver, from the host where a GPU shares its memory, or from
    the simulator, without creating a context on any GPU. What this process's allocator has in
    reserve is not free. **This reserves nothing**: another process may take the memory first.

    Raises:
        DeviceSpecError: ``index`` is not a non-negative integer, ``free`` is not a size, or
            ``most_free`` is passed with ``index``.
        UnsupportedOperation: with ``free`` or ``most_free``, where free memory cannot be read
            without a context (Metal, XPU, ROCm, a card that the driver does not identify).

    >>> import unidev
    >>> str(unidev.try_gpu(63))
    'cpu:0'
    """
    if free is not None or most_free is not False:
        return _try_free(index, free, most_free=most_free)
    backend = active_backend()
    if type(index) is not int or index < 0:
        index = _checked_index(index)
    if index < backend.device_count("gpu"):
        return Device(backend.name, "gpu", index)
    return backend.cpu


def try_all_gpus(*, free: int | str | None = None) -> list[Device]:
    """Every GPU of the selected backend, or ``[cpu()]`` if there is none.

    With ``free``, every GPU with that much free memory, read as by ``try_gpu``. Reserves nothing.

    Raises:
        DeviceSpecError: ``free`` is not a size.
        UnsupportedOperation: with ``free``, where free memory cannot be read without a context.
    """
    if free is None:
        backend = active_backend()
        return _gpus(backend) or [cpu()]
    from unidev.tensors.free_memory import bytes_wanted, free_memory

    wanted, backend = bytes_wanted(free), active_backend()
    found = free_memory(_gpus(backend), backend)
    return [each.device for each in found if each.free_bytes >= wanted] or [backend.cpu]


def synchronize(device: DeviceLike | None = None) -> None:
    """Block until all work queued on ``device`` is done; by default, on the backend's devices."""
    devices = list_devices() if device is None else [as_device(device)]
    for each in devices:
        backend = load_backend(each.backend)
        with errors_of(backend, f"synchronizing {each}"):
            backend.synchronize(each)


def memory(device: DeviceLike) -> Memory:
    """The used, free and total memory of ``device``, in bytes.

    Returns:
        ``(used_bytes, free_bytes, total_bytes)`` as the framework counts them; ``used_bytes`` is
        that of its own tensors where it reports them. ``.reserved_bytes`` is what its allocator
        holds, in tensors and in reserve, or None. For a real NVIDIA GPU, ``.driver`` has the
        driver's counts for all processes, and ``.driver.holders`` lists the processes; else it is
        None. If ``.is_shared``, the GPU has no memory of its own: free and total are the host's.

    May create the device's context.

    Raises:
        DeviceError: ``device`` is invalid or not available.
        UnsupportedOperation: the framework keeps no count for this device; gives the reason.
    """
    target = as_device(device)
    backend = load_backend(target.backend)
    with errors_of(backend, f"reading the memory of {target}"):
        counted = backend.memory(target)
    if target.kind == "cpu" or target.is_simulated:
        return counted
    from unidev.backends.driver_memory import with_driver

    return with_driver(counted, target, backend)


def devices_of(backend: Backend) -> list[Device]:
    """Every device of ``backend``, in the order of its kinds."""
    return [
        backend.device(kind, index)
        for kind in backend.kinds
        for index in range(backend.device_count(kind))
    ]


def default_device(device: DeviceLike | None) -> Device:
    """Where a new tensor goes: ``device``, else the innermost ``with device:``, else ``cpu:0``.

    Only devices of the selected backend count. Like a framework's own default device, the scope
    stays in effect inside ``with use_backend(name):``, and does not affect another framework.
    """
    if device is not None:
        return as_device(device)
    backend = active_backend()
    return innermost_device(backend.name) or backend.cpu


def resolve_device(spec: DeviceLike, backend: Backend) -> Device:
    """The device of ``backend`` that ``spec`` specifies, once it is known to be available.

    Raises:
        BackendMismatchError: it is a device of another backend.
        DeviceSpecError: ``spec`` does not specify a device.
        DeviceNotFoundError: the device is not available.
    """
    if isinstance(spec, Device):
        if spec.backend != backend.name:
            raise BackendMismatchError(
                f"{spec} is a device of the {spec.backend} backend, but the tensor belongs to "
                f"{backend.name}. Pass a device of {backend.name}, or convert the tensor: "
                f"unidev.convert(x, {spec.backend!r}, device={str(spec)!r}).",
                backend=spec.backend,
            )
        device = spec
    else:
        device = backend.device(*_kind_and_index(spec, backend))
        if backend.name == EMBEDDED and device.is_simulated and not is_numpy_selected():
            raise DeviceNotFoundError(beside_another(device), spec=spec)
    return _ready(device.backend, device.kind, device.index, spec if type(spec) is str else "")


def _ready(backend: str, kind: str, index: int, typed: str) -> Device:
    device = Device(backend, kind, index)
    try:
        _ = device.native  # checks, the first time, that the device is available
    except DeviceNotFoundError as error:
        if not typed or typed.startswith(kind):
            raise
        kinds = " and ".join(load_backend(backend).kinds)
        raise DeviceNotFoundError(
            f"{shown(typed)} means {device}: unidev's kinds of device are {kinds}. {error}",
            spec=typed,
        ) from None
    return device


_ready._dynamo_marked_constant = True  # type: ignore[attr-defined]
"""As by torch._dynamo.assume_constant_result: torch.compile calls it while it compiles."""


def check_device(device: Device) -> None:
    """Raise DeviceNotFoundError unless ``device`` is available now."""
    backend = load_backend(device.backend)
    known = device.kind in backend.kinds
    if not known or not 0 <= device.index < backend.device_count(device.kind):
        raise DeviceNotFoundError(
            not_available(device, devices_of(backend), backend), spec=str(device)
        )


def _gpus(backend: Backend) -> list[Device]:
    return [Device(backend.name, "gpu", i) for i in range(backend.device_count("gpu"))]


def _try_free(index: int, free: int | str | None, *, most_free: bool) -> Device:
    from unidev.tensors.free_memory import bytes_wanted, free_memory

    if not isinstance(most_free, bool):
        raise DeviceSpecError(
            f"most_free must be True or False, not {shown(most_free)}.", spec=most_free
        )
    wanted = 0 if free is None else bytes_wanted(free)
    if most_free and index is not _FIRST:
        raise DeviceSpecError(
            "most_free chooses among all GPUs, and an index names one: pass one of the two, or the "
            f'index with free: try_gpu({shown(index)}, free="8GiB").',
            spec=index,
        )
    backend, number = active_backend(), _checked_index(index)
    gpus = _gpus(backend)
    found = free_memory(gpus if index is _FIRST else gpus[number : number + 1], backend)
    if most_free:
        found.sort(key=lambda each: each.free_bytes, reverse=True)
    fits = (each.device for each in found if each.free_bytes >= wanted)
    return next(fits, backend.cpu)


def _there(backend: Backend, kind: str, index: int) -> Device:
    device = backend.device(kind, index)
    _ = device.native  # checks, the first time, that the device is available
    return device


def _kind_and_index(spec: object, backend: Backend) -> tuple[str, int]:
    if isinstance(spec, str):
        kind, colon, index = spec.partition(":")
        if kind in (*KINDS, *backend.kinds) and (not colon or _is_number(index)):
            return kind, _checked_index(int(index or 0))
    elif isinstance(spec, int):
        return "gpu", _checked_index(spec)
    native = backend.parse_native(spec)
    if native is not None:
        return native[0], _checked_index(native[1])
    from numbers import Integral

    if isinstance(spec, Integral):  # NumPy's
        return "gpu", _checked_index(spec)
    owner = None if isinstance(spec, str) else backend_of_namespace(type(spec))
    if owner is not None and owner is not backend and owner.parse_native(spec) is not None:
        raise BackendMismatchError(
            f"{shown(spec)} is a device of the {owner.name} backend. Pass a device of "
            f"{backend.name}: {listed(devices_of(backend))}.",
            backend=owner.name,
        )
    raise DeviceSpecError(not_a_device(spec, devices_of(backend)), spec=spec)


def _is_number(text: str) -> bool:
    return len(text) <= len(str(MOST_INDEX)) and text.isascii() and text.removeprefix("-").isdigit()


def _checked_index(index: object) -> int:
    if index is _FIRST:
        return 0
    number = non_negative_integer(index, MOST_INDEX)
    if number is None:
        raise DeviceSpecError(
            f"a device index must be a non-negative integer, not {shown(index)}.", spec=index
        )
    return number


def _checked_key(backend: object, kind: object, index: object) -> tuple[str, str, int]:
    number = non_negative_integer(index, MOST_INDEX)
    if not isinstance(backend, str) or not isinstance(kind, str) or number is None:
        raise DeviceSpecError(
            "a Device takes a backend's name, a kind, and a non-negative integer as the index, not "
            f"{shown((backend, kind, index))}.",
            spec=index,
        )
    return str(backend), str(kind), number


def _html(device: Device) -> str:
    from unidev.system.tables import Table, as_html

    return as_html([Table(("device", "backend"), [(str(device), device.backend)])])


def _hardware_name(device: Device) -> str:
    backend = load_backend(device.backend)
    with errors_of(backend, f"reading the name of {device}"):
        name = backend.hardware_name(device.kind, device.index)
        if name != backend.native_name(device.kind, device.index):
            return name
    from unidev.backends.driver_memory import driver_gpu

    card = driver_gpu(device, backend)
    return name if card is None else card.name


registry.checked_key = _checked_key
registry.check_device = check_device
registry.hardware_name = _hardware_name
registry.html = _html
