"""The two verbs: ``copy_to``, which always copies, and ``as_in_device``, which does if it must."""

from __future__ import annotations

from unidev.calls.boundary import call
from unidev.calls.transfers import of_tensor
from unidev.contract.device import Device
from unidev.devices.finding import as_device, resolve_device
from unidev.errors import BackendMismatchError
from unidev.registry.loading import backend_of_type, copiers, device_getters
from unidev.tensors.classify import PLAIN
from unidev.tensors.containers import map_tensors

TYPE_CHECKING = False  # not typing's: importing that takes as long as all of unidev
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from unidev.calls.framework_errors import Doing
    from unidev.contract.backend import Backend
    from unidev.devices.finding import DeviceLike

    T = TypeVar("T")
    Transfer = Callable[[Any, DeviceLike, Backend, bool], Any]


def copy_to(x: T, device: DeviceLike, *, non_blocking: bool = False) -> T:
    """Copy ``x`` into newly allocated memory on ``device``, also if it is there already.

    Values, dtype and shape are kept to the bit; strides are not promised. No byte is shared with
    ``x``. The gradient flows back to ``x`` wherever the framework has autograd.

    Args:
        x: a tensor of any shape and dtype, or a nested container of them. What in a container is no
            tensor is passed through, and a tensor that stands twice stays one.
        device: a ``Device``, a string such as ``gpu:1``, or the framework's own device.
        non_blocking: may return before the bytes have arrived (``synchronize`` waits), never before
            ``x`` may be changed or dropped safely. Without it, blocks as the framework's own
            copies do: what reads the result waits.

    Returns:
        A tensor of the same framework, or a container of the same make.

    Raises:
        DeviceError: ``device`` makes no sense, or is not there.
        BackendMismatchError: ``device`` belongs to another framework than ``x``.
        NotATensorError, ContainerError: ``x`` is nothing that can be copied; says what to do.
        OutOfDeviceMemoryError: the copy does not fit. Nothing is changed, whatever is raised.

    Semantics: d2l's "Copying", ``copyto`` in MXNet; ``x.clone()`` in PyTorch where the device is
    the same, ``x.to(device, copy=True)`` where it is not.

    >>> import unidev
    >>> x = unidev.arange(6)
    >>> y = unidev.copy_to(x, "cpu")
    >>> y is x, unidev.shares_memory(x, y)
    (False, False)
    """
    try:
        copied = copiers[type(x)](x, device)
        if copied is not None:
            return copied  # type: ignore[no-any-return]
    except Exception:  # noqa: BLE001, S110  whatever it was, the thorough way meets it again
        pass
    return _each(x, device, non_blocking, _copy)


def as_in_device(x: T, device: DeviceLike, *, non_blocking: bool = False) -> T:
    """``x`` itself if it is on ``device`` already, else what ``copy_to(x, device)`` gives.

    "Itself" means the same object: ``as_in_device(x, d) is x``, nothing allocated, on every
    framework. Of a container, tensors that are there already stay themselves, and a container none
    of whose tensors moves is returned itself.

    Arguments, errors and the rest are ``copy_to``'s. Where a framework traces a graph
    (``tf.function``) a tensor has no device yet: ``UnsupportedOperation``.

    Semantics: ``as_in_ctx`` in MXNet, ``x.to(device)`` in PyTorch.

    >>> import unidev
    >>> x = unidev.arange(6)
    >>> unidev.as_in_device(x, "cpu") is x
    True
    """
    try:
        if device_getters[type(x)](x) is device:
            return x
    except KeyError:  # a container, or a type that is met for the first time
        if type(device) is Device and _is_all_there(x, device):
            _ = device.native  # asks, the first time, whether it is there: `x` may hold no tensor
            return x
    return _each(x, device, non_blocking, _move)


def _copy(x: Any, device: DeviceLike, backend: Backend, non_blocking: bool) -> Any:
    return _copied("copy_to", x, resolve_device(device, backend), backend, non_blocking)


def _copied(operation: str, x: Any, target: Device, backend: Backend, non_blocking: bool) -> Any:
    return call(
        backend, backend.copy_to, x, target, non_blocking,
        doing=lambda: _copying(x, target),
        operation=operation,
        transfers=lambda: of_tensor(operation, x, target, backend),
    )  # fmt: skip


def _move(x: Any, device: DeviceLike, backend: Backend, non_blocking: bool) -> Any:
    target = resolve_device(device, backend)
    if backend.device_of(x) is target:
        return x
    return _copied("as_in_device", x, target, backend, non_blocking)


def _each(x: T, device: DeviceLike, non_blocking: bool, transfer: Transfer) -> T:
    """``transfer`` for ``x``, whose type was not seen yet, or for each tensor in it."""
    backend = backend_of_type(type(x))
    if backend is not None:
        return transfer(x, device, backend, non_blocking)  # type: ignore[no-any-return]
    seen: Backend | None = None

    def one(tensor: Any, backend: Backend) -> Any:
        nonlocal seen
        if seen is not None and backend is not seen:
            raise BackendMismatchError(
                f"tensors of two backends, {seen.name} and {backend.name}, in one container. Make "
                f"them one framework's first: unidev.array(unidev.to_numpy(x), device=...).",
                backend=backend.name,
            )
        seen = backend
        return transfer(tensor, device, backend, non_blocking)

    moved = map_tensors(one, x)
    if seen is None:
        as_device(device)  # no tensor in it has asked yet whether this device makes sense
    return moved


def _is_all_there(tree: object, device: Device) -> bool:
    """Whether a quick look finds all tensors of plain dicts, lists and tuples on ``device``.

    False also where it would take optree to know.
    """
    if type(tree) is dict:
        items: Any = tree.values()
    elif type(tree) is list or type(tree) is tuple:
        items = tree
    else:
        return False
    for item in items:
        cls = type(item)
        getter = device_getters.get(cls)
        if getter is not None:
            if getter(item) is not device:
                return False
        elif cls not in PLAIN and not _is_nested_all_there(item, device):
            return False
    return True


def _is_nested_all_there(tree: object, device: Device) -> bool:
    try:
        return _is_all_there(tree, device)
    except RecursionError:  # very deep, or a cycle: the thorough way says which
        return False


def _copying(x: Any, device: Device) -> Doing:
    try:
        shape = tuple(x.shape)
    except (AttributeError, TypeError, ValueError):  # a tensor of several, or of unknown rank
        return f"a copy of a tensor to {device}", device
    doing = f"a copy of a tensor of shape {shape} to {device}"
    return doing, device, (shape, getattr(x, "dtype", None))
