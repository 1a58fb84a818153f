"""Trees of host arrays and tensors: ``device_put`` brings them to a device, ``device_get`` back."""

from __future__ import annotations

import sys

from unidev.backends.loading import backend_of_type, load_backend
from unidev.contract.dtypes import DTYPES, native_dtype, portable_name, refuse_masked
from unidev.errors import InvalidDataError, UnsupportedDtypeError
from unidev.system.wording import shown
from unidev.tensors import containers
from unidev.tensors.creating import array_of_data, array_of_tensor, read, uploader
from unidev.tensors.device_messages import mixed_backends
from unidev.tensors.devices import as_device, resolve_device
from unidev.tensors.transfer import copied

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeVar

    import numpy as np

    from unidev.contract.backend import Backend
    from unidev.tensors.containers import OwnTo
    from unidev.tensors.devices import DeviceLike

    T = TypeVar("T")

_NO_NUMBERS = "OSUTMm"
"""The kinds of NumPy dtypes that hold objects, strings and times."""


def device_put(tree: Any, device: DeviceLike, *, dtype: object = None) -> Any:
    """``tree`` on ``device``: host arrays become tensors there, and tensors move if they must.

    Args:
        tree: an array, a tensor, or a nested container of them. Host arrays are NumPy's (on the
            NumPy backend those on ``cpu:0``) and objects with ``__array_interface__``; each becomes
            a tensor of the same shape and dtype in new memory, also on NumPy's own CPU. Tensors go
            as by ``as_in_device``, but JAX's are committed. Everything else passes through
            unchanged: numbers, NumPy's scalars among them, and arrays of strings, times or objects.
        device: as for ``copy_to``; a string or a number is a device of the framework whose tensors
            are in ``tree``, else of the selected backend.
        dtype: a floating-point dtype for the arrays and tensors that have another one, as by
            ``array``: float32, say, for NumPy's float64. All else keeps its own.

    Returns:
        A container of the same structure and types; ``tree`` itself if nothing had to move. An
        array or a tensor that occurs twice is copied once.

    Raises:
        DeviceError: ``device`` is invalid or not available.
        BackendMismatchError: tensors of two frameworks, or ``device`` is another framework's.
        UnsupportedDtypeError: the framework does not have an array's dtype, or ``dtype`` is not a
            floating-point one of its.
        NotATensorError, ContainerError: as of ``copy_to``. An object that is not registered and
            holds an array is an error, too; with ``dtype``, so is one that moves itself.
        InvalidDataError: a masked array, or a number that ``dtype`` cannot hold.
        OutOfDeviceMemoryError: it does not fit.

    Blocks until host arrays have been read: they may be changed afterwards.

    Semantics: JAX's ``device_put``, which may share memory with an array on the host.

    >>> import numpy as np
    >>> import unidev
    >>> batch = {"x": np.ones((2, 3), np.float32), "names": ["a", "b"]}
    >>> moved = unidev.device_put(batch, "cpu")
    >>> str(unidev.device_of(moved)), moved["names"], unidev.shares_memory(moved["x"], batch["x"])
    ('cpu:0', ['a', 'b'], False)
    """
    return put("device_put", tree, device, dtype, None)


def put(
    operation: str, tree: T, device: DeviceLike, dtype: object, copy: Callable[..., Any] | None
) -> T:
    """``device_put``, recorded as ``operation``; with ``copy``, all of it in new memory.

    By ``copy(x, target, backend)``, for tensors and, with a NumPy array as ``x``, for host arrays.
    """
    own_to: OwnTo = "refused" if dtype is not None else "moved" if copy is None else "copied"
    opened = containers.Opened(tree, is_array=_has_array_interface, own_to=own_to)
    found = _owner(opened.tensors)
    target = as_device(device) if found is None else resolve_device(device, found)
    owner, plain = load_backend(target.backend), _plain_array()
    upload = uploader(operation, target) if copy is None else lambda x: copy(x, target, owner)
    wanted = None if dtype is None else native_dtype(dtype, owner)
    if wanted is not None and not _is_float(wanted, owner):
        raise UnsupportedDtypeError(
            f"dtype is that of floating-point numbers, such as float32, not {shown(dtype)}."
        )

    def put_one(x: Any, backend: Backend | None) -> Any:
        values = x
        if type(x) is not plain:
            if backend is not None and not is_host_array(x, backend):
                if wanted is not None and x.dtype != wanted and _is_float(x.dtype, backend):
                    return array_of_tensor(operation, x, wanted, target, backend)
                if copy is not None:
                    return copy(x, target, backend)
                return x if backend.is_bound(x, target) else copied(operation, x, target, backend)
            values = _as_array(x)
        if wanted is not None and values.dtype.kind == "f":
            return array_of_data(operation, values, wanted, target)
        return x if values.dtype.kind in _NO_NUMBERS else upload(values)

    return opened.mapped(put_one)  # type: ignore[no-any-return]


def _is_float(dtype: Any, backend: Backend) -> bool:
    name = portable_name(dtype, backend)
    return name is not None and DTYPES[name].kind == "f"


def device_get(tree: Any) -> Any:
    """``tree`` with a new NumPy array for each tensor and each host array in it.

    Args:
        tree: a tensor, an array, or a container of them, on any devices, of any frameworks.

    Returns:
        A container of the same structure and types. The arrays are writable, without gradients, and
        share memory with nothing in ``tree``; one that occurs twice stays one.

    Blocks until the values have arrived.

    Raises:
        UnsupportedDtypeError: NumPy does not have a tensor's dtype.
        NotATensorError, ContainerError: as of ``copy_to``.

    Semantics: JAX's ``device_get``, whose arrays may be read-only or share memory.

    >>> import unidev
    >>> unidev.device_get([unidev.arange(3), "a"])
    [array([0, 1, 2]), 'a']
    """

    def get(x: Any, backend: Backend | None) -> Any:
        if backend is None:
            return _as_array(x).copy()
        return read("device_get", x, backend, is_explicit=True)

    return containers.Opened(tree, is_array=_has_array_interface).mapped(get)


def is_tensor(x: object, /) -> bool:
    """Whether ``x`` is a tensor of a framework whose backend is installed; NumPy's arrays are.

    >>> import unidev
    >>> unidev.is_tensor(unidev.zeros(3)), unidev.is_tensor([1.0])
    (True, False)
    """
    return backend_of_type(type(x)) is not None


def map_tensors(function: Callable[[Any], Any], tree: T) -> T:
    """``tree`` with ``function(tensor)`` in place of each tensor in it.

    Args:
        function: called once for each tensor, also for one that occurs twice; may return anything.
        tree: a tensor, or a nested container of tensors.

    Returns:
        A container of the same structure and types; ``tree`` itself if ``function`` returned each
        tensor itself. Everything else passes through unchanged.

    Raises:
        NotATensorError, ContainerError: as of ``copy_to``.
        InvalidDataError: ``function`` cannot be called.

    >>> import unidev
    >>> unidev.map_tensors(lambda x: x.shape, {"x": unidev.zeros((2, 3)), "n": 2})
    {'x': (2, 3), 'n': 2}
    """
    if not callable(function):
        raise InvalidDataError(f"map_tensors needs a function, not {shown(function)}.")
    return containers.replace_tensors(lambda x, _: function(x), tree)


def _owner(found: Sequence[tuple[Any, Backend | None]]) -> Backend | None:
    """The backend of the tensors among these, without host arrays, or None if there are none."""
    owner, plain = None, _plain_array()
    for x, backend in found:
        if backend is None or backend is owner or type(x) is plain or is_host_array(x, backend):
            continue
        if owner is not None:
            raise mixed_backends("one container holds tensors", owner, backend)
        owner = backend
    return owner


def _plain_array() -> type | None:
    """``numpy.ndarray``, whose own objects are on the host; None if NumPy is not imported."""
    return getattr(sys.modules.get("numpy"), "ndarray", None)


def is_host_array(x: Any, backend: Backend) -> bool:
    """Whether a tensor is an array on the host, which every framework can read."""
    return backend.spec.framework == "numpy" and backend.device_of(x) is backend.cpu


def _has_array_interface(x: object) -> bool:
    from inspect import getattr_static  # runs no code of the object's

    return (
        getattr_static(x, "__array_interface__", None) is not None
        and type(x).__module__ != "numpy"  # its scalars, which pass as numbers do
    )


def _as_array(x: Any) -> np.ndarray[Any, Any]:
    import numpy as np

    refuse_masked(type(x))
    return np.asarray(x)
