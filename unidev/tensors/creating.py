"""Making tensors, and reading their values."""

from __future__ import annotations

from unidev.backends.boundary import call
from unidev.backends.framework_errors import framework_error
from unidev.backends.loading import backend_of_type, load_backend, loaded_backends
from unidev.backends.scopes import innermost_device
from unidev.backends.transfers import from_host, of_tensor
from unidev.contract.dtypes import DTYPES, name_of, narrow_name, native_dtype, portable_name
from unidev.device import Device
from unidev.errors import (
    BackendMismatchError,
    InvalidDataError,
    UnsupportedDtypeError,
    UnsupportedOperation,
)
from unidev.system.arguments import real_number, sizes_of
from unidev.system.wording import kind_of, shown
from unidev.tensors.checks import has_device
from unidev.tensors.devices import default_device, resolve_device
from unidev.tensors.generator import draw
from unidev.tensors.kinds import backend_of_tensor, shape_of
from unidev.tensors.python_data import (
    always_fits,
    as_numpy,
    check_fits,
    checked_number,
    default_dtype,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    import numpy as np

    from unidev.backends.framework_errors import Doing
    from unidev.contract.backend import Backend
    from unidev.tensors.devices import DeviceLike

    Shape = int | tuple[int, ...]


def array(data: object, *, dtype: object = None, device: DeviceLike | None = None) -> Any:
    """Make a tensor from ``data``, always in new memory.

    Args:
        data: a number, nested lists or tuples of numbers, a NumPy array, or a tensor.
        dtype: a portable name, a NumPy dtype or the framework's own. By default, Python floats
            become float32, ints int64 (or what ``Backend.default_integer`` names) and bools bool;
            arrays and tensors keep their dtype.
        device: where to put it; by default the innermost ``with device:``, else ``cpu:0``.

    Blocks until the values have arrived. To a dtype that might not hold them, the values of a
    tensor are read on the host first. Whether gradients flow back to a tensor ``data`` depends
    on the framework; use ``copy_to`` where they must.

    Raises:
        NotATensorError: ``data`` contains something other than numbers.
        InvalidDataError: ragged lists, or a value that the dtype cannot hold.
        UnsupportedDtypeError: the framework does not have that dtype.
        BackendMismatchError: ``data`` and ``device`` belong to different frameworks.
        DeviceError: ``device`` is invalid or not available.

    >>> import unidev
    >>> with unidev.use_backend("numpy"):
    ...     unidev.array([1.0, 2.0]).dtype
    dtype('float32')
    """
    owner = None if _is_of_the_host(type(data)) else backend_of_type(type(data))
    if owner is not None:
        return array_of_tensor("array", data, dtype, device, owner)
    return array_of_data("array", data, dtype, device)


def array_of_data(operation: str, data: object, dtype: object, device: DeviceLike | None) -> Any:
    """``array`` of numbers and NumPy arrays, recorded in traces as ``operation``."""
    target = default_device(device)
    backend = loaded_backends[target.backend]
    wanted = None if dtype is None else native_dtype(dtype, backend)
    name = None if wanted is None else name_of(wanted, backend)
    values = _on_host(data, name, backend.default_integer)
    if wanted is None:
        wanted = native_dtype(values.dtype, backend)
    return _uploaded(operation, values, wanted, target, backend)


def uploader(operation: str, target: Device) -> Callable[[np.ndarray[Any, Any]], Any]:
    """A function that makes a tensor on ``target`` of an array, recorded as ``operation``.

    For many arrays: what depends on the device or a dtype is looked up once. ``target`` must exist.
    """
    import numpy as np

    backend = load_backend(target.backend)
    dtypes: dict[np.dtype[Any], Any] = {}  # those in which plain arrays are taken as they are

    def upload(array: np.ndarray[Any, Any]) -> Any:
        wanted = dtypes.get(array.dtype)
        if wanted is None or type(array) is not np.ndarray:
            values = _on_host(array, None, backend.default_integer)
            wanted = native_dtype(values.dtype, backend)
            if values is array:
                dtypes[array.dtype] = wanted
            array = values
        return _uploaded(operation, array, wanted, target, backend)

    return upload


def _on_host(data: object, dtype: str | None, integer: str) -> np.ndarray[Any, Any]:
    try:
        return as_numpy(data, dtype, integer)
    except MemoryError as error:
        raise framework_error(error, "NumPy", "reading the data on the host") from error


def _uploaded(
    operation: str, values: np.ndarray[Any, Any], dtype: Any, target: Device, backend: Backend
) -> Any:
    return call(
        backend, backend.from_numpy, values, dtype, target,
        doing=lambda: _making("making a tensor", values.shape, dtype, target),
        operation=operation,
        transfers=lambda: from_host(operation, values.shape, dtype, target, backend),
    )  # fmt: skip


def zeros(shape: Shape, *, dtype: object = None, device: DeviceLike | None = None) -> Any:
    """A tensor of zeros (float32 by default), made on the device, without a transfer.

    >>> import unidev
    >>> unidev.to_numpy(unidev.zeros((2, 2))).tolist()
    [[0.0, 0.0], [0.0, 0.0]]
    """
    return _new("zeros", shape, (), dtype, device)


def ones(shape: Shape, *, dtype: object = None, device: DeviceLike | None = None) -> Any:
    """A tensor of ones (float32 by default), made on the device, without a transfer."""
    return _new("full", shape, (1,), dtype, device)


def full(
    shape: Shape, value: object, *, dtype: object = None, device: DeviceLike | None = None
) -> Any:
    """A tensor filled with one number, made on the device, without a transfer.

    A framework that compiles a kernel for each shape may send up to 1 MiB from the host instead.
    By default, ``dtype`` follows the number, as of ``array``: float32, int64, bool or complex64.

    Raises:
        InvalidDataError: ``value`` is not a number, or one that the dtype cannot hold.
    """
    target = default_device(device)
    backend = load_backend(target.backend)
    if dtype is None:
        dtype = default_dtype(value, backend.default_integer)
    wanted = native_dtype(dtype, backend)
    number = checked_number(value, name_of(wanted, backend))
    return _new("full", shape, (number,), wanted, target)


def empty(shape: Shape, *, dtype: object = None, device: DeviceLike | None = None) -> Any:
    """A tensor with undefined values (float32 by default), made on the device."""
    return _new("empty", shape, (), dtype, device)


def arange(
    start: float, stop: float | None = None, step: float = 1, *,
    dtype: object = None, device: DeviceLike | None = None,
) -> Any:  # fmt: skip
    """Evenly spaced numbers from ``start`` to ``stop`` (exclusive), ``step`` apart.

    With one argument, from 0 to it. If all three are ints, so are the numbers, as of ``array``;
    else float32. Made on the host, then moved to the device.

    Raises:
        InvalidDataError: an argument is not a real number, ``step`` is 0, or the dtype too narrow.

    >>> import unidev
    >>> unidev.to_numpy(unidev.arange(3)).tolist()
    [0, 1, 2]
    """
    import numpy as np

    given = (0, start, step) if stop is None else (start, stop, step)
    bounds = [_bound(each) for each in given]
    if bounds[2] == 0:
        raise InvalidDataError("the step of arange cannot be 0.")
    is_int = all(isinstance(bound, int) for bound in bounds)
    try:
        values = _whole_numbers(range(*bounds)) if is_int else np.arange(*bounds, dtype=np.float64)  # type: ignore[arg-type]
    except MemoryError as error:
        raise framework_error(error, "the host", f"making arange{shown(given)}") from error
    except (ValueError, OverflowError) as error:
        raise InvalidDataError(f"arange{shown(given)} cannot be made: {error}") from error
    if dtype is None:
        target = default_device(device)
        dtype = loaded_backends[target.backend].default_integer if is_int else "float32"
        device = target
    return array_of_data("arange", values, dtype, device)


def _whole_numbers(counted: range) -> np.ndarray[Any, Any]:
    # Not np.arange, which is empty where a bound is beyond int64, and rounds the length to float64.
    import numpy as np

    if not counted:
        return np.zeros(0, np.int64)
    least, most = sorted((counted[0], counted[-1]))
    if least < -(2**63) or most >= (2**64 if least >= 0 else 2**63):
        raise OverflowError(f"neither int64 nor uint64 holds {least} and {most}")
    values = np.arange(len(counted), dtype=np.uint64)
    values *= np.uint64(counted.step % 2**64)  # modulo 2**64, so also backwards
    values += np.uint64(counted[0] % 2**64)
    return values if most >= 2**63 else values.view(np.int64)


def _bound(value: object) -> int | float:
    number = real_number(value)
    if number is None:
        raise InvalidDataError(
            f"arange needs real numbers in the range of float64, not {shown(value)} "
            f"({kind_of(value)})."
        )
    return number


def rand(shape: Shape, *, dtype: object = None, device: DeviceLike | None = None) -> Any:
    """Uniform random numbers in [0, 1), float32 by default, from unidev's generator on the host.

    The same numbers on every backend and device after ``seed(n)``.
    """
    return _random("rand", "random", shape, dtype, device)


def randn(shape: Shape, *, dtype: object = None, device: DeviceLike | None = None) -> Any:
    """Standard normal random numbers; otherwise like ``rand``."""
    return _random("randn", "standard_normal", shape, dtype, device)


def zeros_like(x: Any, /, *, device: DeviceLike | None = None) -> Any:
    """Zeros with the shape and dtype of ``x``, on its device unless another is given.

    Keeps what the framework's own function keeps: a subclass, a sparse or ragged layout and, on the
    device of ``x``, strides.

    Raises:
        UnsupportedOperation: the framework makes none like this kind of tensor.
    """
    return _new_like(x, 0, device)


def ones_like(x: Any, /, *, device: DeviceLike | None = None) -> Any:
    """Ones with the shape and dtype of ``x``, on its device unless another is given."""
    return _new_like(x, 1, device)


def empty_like(x: Any, /, *, device: DeviceLike | None = None) -> Any:
    """Undefined values in the shape and dtype of ``x``, on its device unless another is given."""
    return _new_like(x, None, device)


def to_numpy(x: Any, /) -> np.ndarray[Any, Any]:
    """The values of ``x`` as a new NumPy array: writable, sharing no memory, without gradients.

    ``x`` may be on any device. Blocks until the values have arrived.

    Raises:
        NotATensorError: ``x`` is not a tensor.
        UnsupportedDtypeError: NumPy does not have the dtype; states how to read the values.
    """
    return read("to_numpy", x, backend_of_tensor(x), is_explicit=False)


def read(operation: str, x: Any, backend: Backend, *, is_explicit: bool) -> np.ndarray[Any, Any]:
    """``to_numpy`` of a tensor, recorded in traces as ``operation``."""
    return call(
        backend, backend.to_numpy, x,
        doing="reading a tensor",
        operation=operation,
        transfers=lambda: of_tensor(operation, x, backend.cpu, backend),
        is_explicit=is_explicit,
    )  # fmt: skip


def _new(
    maker: str, shape: Shape, rest: tuple[Any, ...], dtype: object, device: DeviceLike | None
) -> Any:
    sizes = sizes_of(shape)
    target = device if type(device) is Device else default_device(device)
    backend = load_backend(target.backend)
    wanted = native_dtype("float32" if dtype is None else dtype, backend)
    _ = target.native  # checks, the first time, that the device is available
    return call(
        backend, getattr(backend, maker), sizes, *rest, wanted, target,
        doing=lambda: _making("making a tensor", sizes, wanted, target),
    )  # fmt: skip


def _new_like(x: Any, value: int | None, device: DeviceLike | None) -> Any:
    backend = backend_of_tensor(x)
    if device is None and backend.traced(x):
        doing = "making a tensor like a traced one"
        return call(backend, backend.full_like, x, value or 0, doing=doing)
    backend.check_memory(x)  # before anything else is asked of it
    target = backend.device_of(x) if device is None else resolve_device(device, backend)
    return call(
        backend, _made_like, backend, x, value, target,
        doing=lambda: _making_like(x, target),
    )  # fmt: skip


def _made_like(backend: Backend, x: Any, value: int | None, target: Device) -> Any:
    made = backend.new_like(x, value, target)
    if made is not None:
        return made
    if value:
        return backend.full(shape_of(x), value, x.dtype, target)
    return (backend.empty if value is None else backend.zeros)(shape_of(x), x.dtype, target)


def _making_like(x: Any, target: Device) -> Doing:
    try:
        return _making("making a tensor", shape_of(x), x.dtype, target)
    except (InvalidDataError, RuntimeError):  # a ragged or nested one
        return f"making a tensor like a {kind_of(x)} on {target}", target


def _random(
    operation: str, distribution: str, shape: Shape, dtype: object, device: DeviceLike | None
) -> Any:
    target = default_device(device)
    backend = load_backend(target.backend)
    wanted = native_dtype("float32" if dtype is None else dtype, backend)
    name = portable_name(wanted, backend)
    sizes = sizes_of(shape)
    floats = [each for each, dtype in DTYPES.items() if dtype.kind == "f"]
    if name not in floats:
        raise UnsupportedDtypeError(
            f"the dtype of random numbers must be {' or '.join(floats)}, not "
            f"{narrow_name(wanted) or shown(dtype)}."
        )
    made = array_of_data(operation, draw(distribution, sizes, name), wanted, target)
    if backend.traced(made) and not has_device(made, backend):  # a constant of the traced graph
        raise UnsupportedOperation(
            operation,
            "a function is being traced, and each of its calls would have the same numbers: draw "
            "them outside of it, and pass them",
        )
    return made


def array_of_tensor(
    operation: str, x: Any, dtype: object, device: DeviceLike | None, backend: Backend
) -> Any:
    """``array`` of a tensor, recorded in traces as ``operation``."""
    if device is None:
        target = innermost_device(backend.name) or backend.device("cpu", 0)
    else:
        try:
            target = resolve_device(device, backend)
        except BackendMismatchError as error:
            raise BackendMismatchError(
                f"{error} (array keeps a tensor in its own framework.)", backend=error.backend
            ) from None

    backend.check_memory(x)  # before anything else is asked of it
    wanted = x.dtype if dtype is None else native_dtype(dtype, backend)
    making: tuple[Any, ...] = (backend.copy_to, x, target, False)
    is_checked = wanted != x.dtype and not _always_fits(x.dtype, wanted, backend)
    if is_checked:
        making = (_checked_cast, x, wanted, target, backend)
    elif wanted != x.dtype:
        making = (backend.cast, x, wanted, target)
    return call(
        backend, *making,
        doing=lambda: _making("copying a tensor", tuple(x.shape), wanted, target, "to"),
        operation=operation,
        transfers=lambda: (
            *(of_tensor(operation, x, backend.cpu, backend) if is_checked else ()),
            *of_tensor(operation, x, target, backend),
        ),
        is_explicit=device is not None or innermost_device(backend.name) is not None,
    )  # fmt: skip


def _always_fits(dtype: Any, wanted: Any, backend: Backend) -> bool:
    source, name = name_of(dtype, backend), name_of(wanted, backend)
    return source is None or name is None or always_fits(source, name)  # quantized ones have none


def _checked_cast(x: Any, dtype: Any, target: Device, backend: Backend) -> Any:
    readable = x
    if portable_name(x.dtype, backend) in (None, "bfloat16"):  # which NumPy does not have
        readable = backend.cast(x, backend.dtypes["float32"], backend.cpu)
    check_fits(backend.to_numpy(readable), name_of(dtype, backend))
    return backend.cast(x, dtype, target)


def _is_of_the_host(cls: type) -> bool:
    """Whether it is Python's own or plain NumPy's, which every backend accepts."""
    return str(getattr(cls, "__module__", "")).partition(".")[0] in ("builtins", "numpy")


def _making(
    what: str, shape: tuple[int, ...], dtype: object, target: Device, where: str = "on"
) -> Doing:
    """The description, in errors, of a new tensor: words, device, and its shape and dtype."""
    return f"{what} of shape {shape} {where} {target}", target, (shape, dtype)
