"""The two transfer verbs: ``copy_to`` always copies, ``as_in_device`` only if it must."""

from __future__ import annotations

from unidev.backends.boundary import call
from unidev.backends.loading import backend_of_type, copiers, device_getters
from unidev.backends.transfers import of_tensor
from unidev.device import Device
from unidev.system.arguments import flag
from unidev.tensors.contents import values_of
from unidev.tensors.device_messages import mixed_backends
from unidev.tensors.devices import as_device, resolve_device
from unidev.tensors.kinds import PLAIN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from unidev.backends.framework_errors import Doing
    from unidev.contract.backend import Backend
    from unidev.tensors.devices import DeviceLike

    T = TypeVar("T")


def copy_to(x: T, device: DeviceLike, *, non_blocking: bool = False) -> T:
    """Copy ``x`` into newly allocated memory on ``device``, even if it is on that device already.

    Shape, dtype and values are identical, bit for bit; strides may differ. The copy shares no
    memory with ``x``. Gradients flow back to ``x`` if the framework has autograd.

    Args:
        x: a tensor of any shape and dtype, or a nested container of tensors. Leaves that neither
            are nor hold tensors pass through unchanged; a tensor that occurs twice is copied once.
            Two views of one memory become two tensors that share none.
        device: a ``Device``, a string such as ``gpu:1``, or the framework's own device.
        non_blocking: if True, may return before the bytes have arrived (``synchronize`` waits for
            them), but never before ``x`` can safely be changed or freed. So copies from the host
            block, also from pinned memory, and so do copies to the host on frameworks whose CPU
            tensors are read without waiting. If False, blocks as the framework's own copies do:
            any code that reads the result waits for it.

    Returns:
        A tensor of the same framework, or a container of the same structure and types.

    Raises:
        DeviceError: ``device`` is invalid or not available.
        BackendMismatchError: ``device`` and ``x`` belong to different frameworks.
        NotATensorError: ``x`` is neither a tensor nor a container, or contains a model.
        ContainerError: it contains an object that holds a tensor and is not registered
            (``register_container``), or itself; the message has the path.
        InvalidDataError: ``non_blocking`` is neither True nor False. Not checked for a tensor
            that is on ``device``.
        OutOfDeviceMemoryError: the copy does not fit.

    After any error, nothing has changed.

    Semantics: d2l's "Copying", ``copyto`` in MXNet; in PyTorch ``x.clone()`` on the same device,
    ``x.to(device, copy=True)`` on another.

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
    except Exception:  # noqa: BLE001, S110  the slow path below raises it again
        pass
    return _each(x, device, non_blocking, copy_to)  # type: ignore[no-any-return]


def as_in_device(x: T, device: DeviceLike, *, non_blocking: bool = False) -> T:
    """``x`` itself if it is on ``device`` already, else ``copy_to(x, device)``.

    "Itself" means the same object: ``as_in_device(x, d) is x``, and nothing is allocated, on every
    framework. In a container, tensors that are already on ``device`` stay the same objects; if no
    tensor moves, the container itself is returned. JAX's uncommitted arrays stay uncommitted, too,
    and follow their operands: ``place``, ``device_put`` and ``copy_to`` commit them.

    Arguments, blocking, gradients and errors are those of ``copy_to``. While a framework traces a
    graph (``tf.function``), tensors have no device yet: raises ``UnsupportedOperation``.

    Semantics: ``as_in_ctx`` in MXNet, ``x.to(device)`` in PyTorch.

    >>> import unidev
    >>> x = unidev.arange(6)
    >>> unidev.as_in_device(x, "cpu") is x
    True
    """
    try:
        if device_getters[type(x)](x) is device:
            return x
    except KeyError:  # a container, or a type seen for the first time
        if type(device) is Device and _is_all_there(x, device):
            _ = device.native  # checks that the device is available: `x` may hold no tensor
            return x
    return _each(x, device, non_blocking, as_in_device)  # type: ignore[no-any-return]


def copied(
    operation: str, x: Any, target: Device, backend: Backend, non_blocking: bool = False
) -> Any:
    """``copy_to`` of a tensor, recorded in traces as ``operation``."""
    return call(
        backend, backend.copy_to, x, target, non_blocking,
        doing=lambda: _copying(x, target),
        operation=operation,
        transfers=lambda: of_tensor(operation, x, target, backend),
    )  # fmt: skip


def moved(
    operation: str, x: Any, target: Device, backend: Backend, non_blocking: bool = False
) -> Any:
    """``as_in_device`` of a tensor, recorded in traces as ``operation``."""
    if backend.device_of(x) is target:
        return x
    return copied(operation, x, target, backend, non_blocking)


def _each(x: Any, device: DeviceLike, non_blocking: bool, verb: Callable[..., Any]) -> Any:
    """Transfer ``x``, whose type is new or which needs a closer look, or each tensor in it."""
    if non_blocking is not False:
        flag("non_blocking", non_blocking)
    backend = backend_of_type(type(x))
    if backend is not None:
        target, function = resolve_device(device, backend), copied if verb is copy_to else moved
        return function(verb.__name__, x, target, backend, non_blocking)
    from unidev.tensors.containers import replace_tensors  # imports optree: not for one tensor

    seen: Backend | None = None

    def one(tensor: Any, backend: Backend) -> Any:
        nonlocal seen, device
        if backend is not seen:
            if seen is not None:
                raise mixed_backends("one container holds tensors", seen, backend)
            seen, device = backend, resolve_device(device, backend)
        return verb(tensor, device, non_blocking=non_blocking)

    found = replace_tensors(one, x, own_to="copied" if verb is copy_to else "moved")
    if seen is None:
        as_device(device)  # `x` holds no tensor, so the device has not been checked yet
    return found


def _is_all_there(tree: object, device: Device) -> bool:
    """Whether all tensors in plain containers and known objects are on ``device``: a quick look.

    False also where only optree could decide.
    """
    if type(tree) is dict:
        items: Any = tree.values()
    elif type(tree) is list or type(tree) is tuple:
        items = tree
    else:
        values = values_of.get(type(tree))
        if values is None:
            return False
        items = values(tree)
    try:
        for item in items:
            cls = type(item)
            getter = device_getters.get(cls)
            if getter is not None:
                if getter(item) is not device:
                    return False
            elif cls not in PLAIN and not _is_all_there(item, device):
                return False
    except RecursionError:  # very deep, or a cycle: the slow path reports which
        return False
    return True


def _copying(x: Any, device: Device) -> Doing:
    try:
        shape = tuple(x.shape)
    except (AttributeError, TypeError, ValueError):  # a composite tensor, or of unknown rank
        return f"copying a tensor to {device}", device
    doing = f"copying a tensor of shape {shape} to {device}"
    return doing, device, (shape, getattr(x, "dtype", None))
