"""``convert``: tensors of one framework become tensors of another, on the same memory or copied."""

from __future__ import annotations

from unidev.backends.boundary import call, errors_of
from unidev.backends.loading import (
    backend_of_type,
    backends_by_type,
    device_getters,
    loaded_backends,
)
from unidev.backends.observer import thread
from unidev.backends.selection import backend_named
from unidev.backends.transfers import known_shape, nbytes_of, planned
from unidev.contract.dtypes import portable_name
from unidev.contract.optional import Unsupported
from unidev.errors import (
    BackendMismatchError,
    DeviceNotFoundError,
    InvalidDataError,
    UnidevError,
    UnsupportedDtypeError,
    UnsupportedOperation,
)
from unidev.system.wording import kind_of, shown
from unidev.tensors.devices import devices_of, resolve_device
from unidev.tensors.python_data import as_numpy
from unidev.tensors.transfer import copied

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from unidev.backends.framework_errors import Doing
    from unidev.contract.backend import Backend
    from unidev.contract.interop import Interop
    from unidev.device import Device
    from unidev.tensors.devices import DeviceLike
    from unidev.values import PlannedTransfer


def convert(
    x: Any, backend: str, *, device: DeviceLike | None = None, copy: bool | None = None
) -> Any:
    """``x`` as a tensor of another framework, on the same memory where that is possible.

    Shape, dtype and values are identical, bit for bit; strides may differ. The memory is shared by
    DLPack. Gradients are cut: none flows back to ``x``.

    Args:
        x: a tensor of any framework, or a nested container of tensors, also of several. A tensor
            that occurs twice is converted once; everything that is not a tensor passes through
            unchanged. Tensors of ``backend`` itself go as by ``as_in_device``, or ``copy_to`` if
            ``copy`` is True, also with their gradients.
        backend: the name of the backend to convert to: ``"numpy"``, ``"torch"``.
        device: a device of ``backend``. By default, the one where the tensor is: ``cpu:0`` for the
            CPU, the same GPU for a GPU. ``with device:`` does not matter here.
        copy: None shares memory if it can, and copies otherwise; also if ``x`` is read-only
            (TensorFlow's tensors, NumPy's read-only arrays) and the result would be writable. False
            shares memory, or raises an error. True copies.

    Returns:
        A tensor, or a container of the same structure and types. On shared memory, what is written
        through one is read through the other; each keeps the memory alive. NumPy's arrays on
        memory that nothing may write to are read-only. The memory keeps its place and size: from
        then on PyTorch refuses ``x.resize_`` to more elements, as after ``x.numpy()``, and NumPy
        ``x.resize`` while the result exists. PyTorch does not refuse it on a GPU, nor
        ``x.share_memory_()``: the result must not be used after these.

    Raises:
        NotATensorError, ContainerError: as of ``copy_to``.
        BackendNotFoundError, FrameworkNotInstalledError: there is no such backend, or framework.
        UnsupportedDtypeError: ``backend`` does not have the dtype of ``x``.
        UnsupportedOperation: memory cannot be shared, and ``copy`` is False; the message has the
            reason, such as another device or a simulated GPU.
        DeviceError: ``device`` is invalid or not available; or ``backend`` does not have the GPU.
        InvalidDataError: ``copy`` is not True, False or None.

    Blocks until queued writes to ``x`` and copies are done. Afterwards frameworks do not wait for
    each other: synchronize the device between a write to one tensor and a read of the other.

    Semantics: ``from_dlpack`` of the array API, between any two frameworks and devices.

    >>> import numpy as np
    >>> import unidev
    >>> x = np.arange(3)
    >>> unidev.convert({"x": x, "name": "first"}, "numpy")["x"] is x
    True
    """
    if device is None and (copy is None or copy is False):
        made = _shared_quickly(x, backend)
        if made is not None:
            return made
    if not (copy is None or copy is True or copy is False):
        raise InvalidDataError(
            f"copy must be True, False or None, not {shown(copy)}: None shares memory if it can."
        )
    target = backend_named(backend)
    place = None if device is None else _place(device, target)

    def one(tensor: Any, source: Backend) -> Any:
        return _Conversion(tensor, source, target, place, copy).made()

    source = backend_of_type(type(x))
    if source is not None:
        return one(x, source)
    from unidev.tensors.containers import replace_tensors  # imports optree: not for one tensor

    return replace_tensors(one, x)


class _Way:
    """From one framework to another, by memory of the CPU."""

    __slots__ = ("dtypes", "failures", "giver", "here", "ids", "taker")

    def __init__(self, source: Backend, target: Backend) -> None:
        self.dtypes = _carried_by_both(source, target)
        self.ids = frozenset(map(id, self.dtypes))  # hashing those of TensorFlow takes long
        self.here = source.cpu
        self.giver: Interop = source.interop
        self.taker: Interop = target.interop
        frameworks = (*source.framework_errors, *target.framework_errors)
        self.failures: tuple[type[Exception], ...] = (UnidevError, BufferError, *frameworks)


_ways: dict[tuple[Backend, Backend], _Way] = {}


def _shared_quickly(x: Any, backend: str) -> Any:
    """``x`` on the CPU as a tensor of ``backend`` on the same memory; None if in doubt."""
    getter = device_getters.get(type(x))
    target = loaded_backends.get(backend) if type(backend) is str else None
    if getter is None or target is None or thread.recorder is not None:
        return None
    source = backends_by_type[type(x)]
    if source is target:
        return None
    way = _ways.get((source, target))
    if way is None:
        way = _ways[source, target] = _Way(source, target)
    try:
        dtype = x.dtype
        if (id(dtype) not in way.ids and dtype not in way.dtypes) or getter(x) is not way.here:
            return None
        is_read_only = way.giver.is_immutable(x)
        if is_read_only and not way.taker.keeps_read_only:
            return None
        return way.taker.adopt(way.giver.export(x), is_read_only)
    except way.failures:
        return None  # what is slower copies, or raises it with the words for it


def _carried_by_both(source: Backend, target: Backend) -> frozenset[Any]:
    """The source's dtypes that both carry by DLPack."""
    if isinstance(source.interop, Unsupported) or isinstance(target.interop, Unsupported):
        return frozenset()
    names = {*source.interop.dtypes()} & {*target.interop.dtypes()}
    return frozenset(own for name, own in source.dtypes.items() if name in names)


def _place(device: DeviceLike, target: Backend) -> Device:
    try:
        return resolve_device(device, target)
    except BackendMismatchError as error:
        raise BackendMismatchError(
            f"{shown(device)} is not a device of {target.name}, which the tensor is converted to: "
            f"pass one of {', '.join(map(str, devices_of(target)))} as a string.",
            backend=error.backend,
        ) from None


class _Conversion:
    """One tensor on its way to another framework."""

    def __init__(
        self, x: Any, source: Backend, target: Backend, device: Device | None, copy: bool | None
    ) -> None:
        self.x, self.source, self.target, self.copy = x, source, target, copy
        self.here = source.device_of(x)
        self.near = _counterpart(self.here, source, target)
        """The device of the target with the memory that ``x`` is in."""
        self.device = device or self.near or _same_index(self.here, source, target)

    def made(self) -> Any:
        """A tensor of the target on the device."""
        if self.source is self.target:
            return self._of_one_framework()
        wanted = self._dtype()
        obstacle = "" if self.copy is True else self._obstacle()
        if self.copy is not True and not obstacle:
            try:
                return self._called(self._shared)
            except UnsupportedOperation as error:
                obstacle = error.reason
            except BufferError as error:  # DLPack's own
                obstacle = str(error).rstrip(".")
        shape = known_shape(self.x)
        if shape is not None and 0 in shape:  # no memory to share; MXNet takes none
            return self._called(lambda: self.target.empty(shape, wanted, self.device))
        if self.copy is False:
            raise UnsupportedOperation(
                f"convert(x, {self.target.name!r}, copy=False)",
                f"{obstacle}. Without copy=False, convert copies",
            )
        return self._called(lambda: self._copied(wanted))

    def _of_one_framework(self) -> Any:
        is_there = self.here is self.device
        if self.copy is None:
            is_there = self.source.is_bound(self.x, self.device)
        if self.copy is not True and is_there:
            return self.x
        if self.copy is False:
            raise UnsupportedOperation(
                f"convert(x, {self.target.name!r}, copy=False)", self._elsewhere()
            )
        return copied("convert", self.x, self.device, self.source)

    def _dtype(self) -> Any:
        """The target's dtype for that of ``x``, which it has on the device."""
        dtype = self.x.dtype
        name = portable_name(dtype, self.source)
        wanted = None if name is None else self.target.dtypes.get(name)
        if name is None and self.source.spec.framework == "numpy":  # in another byte order?
            # Or added to NumPy's own, as the bfloat16 of ml_dtypes.
            wanted = self.target.parse_dtype(dtype.newbyteorder("="))
        carried = self.target.dtypes_on(self.device)
        if wanted is None or portable_name(wanted, self.target) not in (None, *carried):
            raise UnsupportedDtypeError(
                f"{self.target.name} has no dtype {name or dtype} on {self.device}, which this "
                f"tensor of {self.source.name} has; it has {', '.join(carried)}. Cast it to one of "
                "these first."
            )
        return wanted

    def _obstacle(self) -> str:
        """Why memory cannot be shared, as far as that is known without trying."""
        for backend in (self.source, self.target):
            if isinstance(backend.interop, Unsupported):
                return f"{backend.name} does not share memory: {backend.interop.reason}"
        if self.here.is_simulated:
            return f"{self.here} of {self.source.name} is simulated, with memory of its own"
        if self.device is not self.near:
            return self._elsewhere()
        if not self._is_carried():
            names = f"{self.source.name} and {self.target.name}"
            is_swapped = not getattr(self.x.dtype, "isnative", True)  # as only NumPy's may be
            return (
                "its byte order is not the machine's: pass x.astype(x.dtype.newbyteorder('='))"
                if is_swapped
                else f"{names} do not exchange this dtype by DLPack"
            )
        if self.source.interop.is_immutable(self.x) and not self.target.interop.keeps_read_only:
            return (
                f"this {kind_of(self.x)} cannot be written to, but a tensor of {self.target.name} "
                "on its memory could"
            )
        return ""

    def _elsewhere(self) -> str:
        return f"the tensor is on {self.here} of {self.source.name}, not on {self.device}"

    def _shared(self) -> Any:
        giver, taker = self.source.interop, self.target.interop
        is_read_only = giver.is_immutable(self.x)
        with errors_of(self.source, self._doing):
            if self.here.kind != "cpu":
                self.source.synchronize(self.here)
            exported = giver.export(self.x)
        return taker.adopt(exported, is_read_only)

    def _copied(self, wanted: Any) -> Any:
        """By sharing and copying, else through NumPy, else by a packed copy that is shared."""
        if self.near is not None and self._is_carried():
            try:
                return self._moved(self._shared())
            except (UnsupportedOperation, BufferError):
                pass  # NumPy needs neither strides nor an alignment
        giver, taker = self.source.interop, self.target.interop
        if portable_name(self.x.dtype, self.source) != "bfloat16":  # which NumPy does not have
            with errors_of(self.source, self._doing):
                values = self.source.to_numpy(self.x)
            return self.target.from_numpy(as_numpy(values, None), wanted, self.device)
        with errors_of(self.source, self._doing):
            exported = giver.export(giver.packed(self.x))
        made = taker.adopt(exported, False)
        return made if self.device is self.target.cpu else self._moved(made)

    def _moved(self, shared: Any) -> Any:
        made = self.target.copy_to(shared, self.device, False)
        self.target.synchronize(self.device)  # nothing else waits until the source has been read
        return made

    def _is_carried(self) -> bool:
        # Compared, not looked up: legacy arrays of MXNet have classes of NumPy for dtypes.
        return any(self.x.dtype == own for own in _carried_by_both(self.source, self.target))

    def _called(self, function: Callable[[], Any]) -> Any:
        return call(
            self.target, function,
            doing=self._doing, operation="convert", transfers=self._transfers,
        )  # fmt: skip

    def _doing(self) -> Doing:
        shape = known_shape(self.x)
        names = f"{self.source.name} to {self.target.name}"
        doing = f"converting a tensor of shape {shape} from {names}"
        if shape is None:
            return doing, self.device
        return doing, self.device, (shape, self.x.dtype)

    def _transfers(self) -> Sequence[PlannedTransfer]:
        if self.device is self.near:
            return ()
        nbytes = nbytes_of(self.x, self.source)
        return (planned("convert", self.here, self.device, nbytes, known_shape(self.x)),)


def _counterpart(here: Device, source: Backend, target: Backend) -> Device | None:
    """The device of ``target`` that has the memory of ``here``, a device of ``source``."""
    if source is target:
        return here
    if here.kind == "cpu":
        return target.cpu
    number = source.hardware_index(here.kind, here.index)
    if source.simulated_count or target.simulated_count or number is None:
        return None
    return next(
        (
            target.device(here.kind, index)
            for index in _indices(here.kind, target)
            if target.hardware_index(here.kind, index) == number
        ),
        None,
    )


def _same_index(here: Device, source: Backend, target: Backend) -> Device:
    """The device of ``target`` with the name of ``here``, where none has its memory."""
    is_simulated = source.simulated_count or target.simulated_count
    is_known = not is_simulated and source.hardware_index(here.kind, here.index) is not None
    if is_known or here.index not in _indices(here.kind, target):
        raise DeviceNotFoundError(
            f"the tensor is on {here} of {source.name}, a GPU that {target.name} does not have. "
            f"Name a device: convert(x, {target.name!r}, device={str(target.cpu)!r}).",
            spec=str(here),
        )
    return target.device(here.kind, here.index)


def _indices(kind: str, backend: Backend) -> range:
    return range(backend.device_count(kind) if kind in backend.kinds else 0)
