"""Paddle's devices and tensors, in unidev's terms. Importing this module imports Paddle."""

from __future__ import annotations

import math
import platform
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

import unidev
import unidev_paddle
from unidev.contract import Backend, Extent, Memory, part, unsupported
from unidev.errors import DeletedTensorError, UnsupportedDtypeError, UnsupportedOperation
from unidev_paddle import devices, memory
from unidev_paddle.copying import Move, copied_sparse, copy_cut, empty_at, move_cut, sparse_parts
from unidev_paddle.framework import (
    DTYPES,
    check_building,
    check_eager,
    core,
    in_static_graph,
    not_dense,
    paddle,
    run_as_written,
    symbolic,
)
from unidev_paddle.simulator import PaddleSimulator

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from unidev.contract import Array, BackendSpec, Device, Tensor

_MOST_ELEMENTS = 2**59  # at most 16 bytes each, which is 2**63 bytes

# Paddle rewrites the source of all that a traced function calls; ours must run as written. Without
# full_graph=True it rewrites frames instead, of which the second line keeps it.
paddle.jit.ignore_module([unidev, unidev_paddle])
run_as_written("unidev", "unidev_paddle", "optree")

# paddle.in_dynamic_mode() only tests `_state._dygraph_tracer_ is not None`, and saving a call
# matters in copy_to, which itself takes 0.8 µs.
_state = paddle.base.framework.global_var


class PaddleBackend(Backend):
    """Dense Tensors and Parameters of Paddle's dynamic graph."""

    probe = part("unidev_paddle.probe:PaddleProbe")
    models = part("unidev_paddle.models:PaddleModels")
    autograd = part("unidev_paddle.autograd:PaddleAutograd")
    layers = part("unidev_paddle.nn.layers:PaddleLayers")
    loader = part("unidev_paddle.data_loaders:PaddleLoader")
    functions = part("unidev_paddle.nn:PaddleFunctions")
    collectives = part("unidev_paddle.collectives:PaddleCollectives")
    group_engine = part("unidev_paddle.group.engine:PaddleEngine")
    installation = part("unidev_paddle.installation:PaddleInstallation")
    peaks = part("unidev_paddle.memory:PaddlePeaks")
    estimator = part("unidev_paddle.memory.estimating:PaddleEstimator")
    interop = part("unidev_paddle.memory.interop:PaddleInterop")
    tracer = part("unidev_paddle.tracer:PaddleTracer")
    makers = (paddle,)
    pinned = part("unidev_paddle.memory:pinning_of")

    framework_errors = (
        RuntimeError, ValueError, TypeError, IndexError, MemoryError, OSError, SystemError,
        AssertionError,
    )  # fmt: skip
    out_of_memory_words = ("resource exhausted", "allocate memory", "failed to allocate")
    out_of_memory_numbers = (  # on a GPU, on the host
        "cannot allocate {requested}", "available memory is only {free}",
        "alloc memory of {requested} size",
    )  # fmt: skip
    model_types = (paddle.nn.Layer,)
    optimizer_types = (paddle.optimizer.Optimizer,)
    native_scope = unsupported(
        "Paddle's default device is set for the whole process, not for each thread",
        "https://www.paddlepaddle.org.cn/documentation/docs/en/api/paddle/device/set_device_en.html",
    )

    def __init__(self, spec: BackendSpec, simulated_count: int) -> None:
        """Look for devices once, as Paddle does when it is imported."""
        super().__init__(spec, simulated_count)
        self._accelerators = (
            devices.simulated(simulated_count) if simulated_count else devices.real(core)
        )
        self._host = paddle.CPUPlace()
        # If so, all memory is on the CPU, pinned or not, for the lifetime of the process.
        self._is_host_only = not self._accelerators
        # The key is the hash of a place: Paddle's own == compares nothing else (place.h), and
        # costs twice as much.
        self._devices = {
            hash(self.native_device(kind, index)): self.device(kind, index)
            for kind in self.kinds
            for index in range(self.device_count(kind))
        }

    @property
    def tensor_types(self) -> tuple[type, ...]:
        """Includes symbolic variables, so that their error can name the reason."""
        return (paddle.Tensor, paddle.pir.Value, paddle.static.Variable)

    @cached_property
    def dtypes(self) -> Mapping[str, Any]:
        """See ``DTYPES``."""
        return {name: getattr(paddle, name) for name in DTYPES}

    def dtypes_on(self, device: Device) -> Sequence[str]:
        """All, or without those that simulated GPUs lack."""
        lacking = () if device.kind == "cpu" else PaddleSimulator.lacks
        return [name for name in DTYPES if name not in lacking]

    # -- devices ----------------------------------------------------------------------------------

    def device_count(self, kind: str) -> int:
        """One CPU, and every accelerator."""
        return 1 if kind == "cpu" else len(self._accelerators)

    def native_device(self, kind: str, index: int) -> Any:
        """A place."""
        return paddle.CPUPlace() if kind == "cpu" else self._accelerators[index].place(core)

    def native_name(self, kind: str, index: int) -> str:
        """In the form that ``paddle.set_device`` accepts."""
        return "cpu" if kind == "cpu" else str(self._accelerators[index])

    def hardware_name(self, kind: str, index: int) -> str:
        """The processor's name, or the driver's name of the device."""
        if kind == "cpu":
            return platform.processor() or platform.machine()
        if self.simulated_count:
            return f"simulated GPU {index}"
        accelerator = self._accelerators[index]
        if accelerator.device_type == "gpu":
            return str(paddle.device.cuda.get_device_name(accelerator.device_id))
        if accelerator.device_type == "xpu":  # Paddle knows the generation alone
            return f"Kunlun {core.get_xpu_device_version(accelerator.device_id).name}"
        return str(accelerator)

    def hardware_index(self, kind: str, index: int) -> int | None:
        """CUDA's number of its own GPUs; None for other accelerators, which CUDA does not count."""
        if kind == "cpu" or self.simulated_count:
            return index
        accelerator = self._accelerators[index]
        return accelerator.device_id if accelerator.device_type == "gpu" else None

    def parse_native(self, spec: object) -> tuple[str, int] | None:
        """``cuda:1``, ``xpu:0``, ``npu:0``, ``sim:1``; or a place. Pinned memory is none."""
        if isinstance(spec, str):
            return devices.parse_name(spec, self._accelerators)
        if isinstance(spec, core.Place):
            device = self._devices.get(hash(spec))
            return None if device is None else (device.kind, device.index)
        return None

    def device_of(self, x: Tensor) -> Device:
        """Pinned memory belongs to the CPU."""
        try:
            if x.is_dense():  # checked first: reading a symbolic variable's place warns
                if self._is_host_only and x._is_initialized():
                    return self.cpu
                return self._devices[hash(x.place)]
        except (KeyError, RuntimeError, AttributeError):
            pass
        return self._device_of_unusual(x)

    def traced(self, x: Tensor) -> bool:
        """A value in the program that ``to_static(full_graph=True)`` builds, or of a static one."""
        # Tensors of the dynamic graph are instances of `Variable`, too.
        return not isinstance(x, paddle.Tensor) and isinstance(x, self.tensor_types)

    def full_like(self, x: Tensor, value: Any) -> Tensor:
        """Filled where the program runs."""
        check_building("making a tensor like a symbolic variable")
        return paddle.full_like(x, value)

    def have_memory(self, xs: Sequence[Tensor]) -> bool:
        """By two questions each, where all memory is the CPU's."""
        if not self._is_host_only:
            return False
        try:
            return all([x.is_dense() and x._is_initialized() for x in xs])  # noqa: C419  faster
        except (AttributeError, RuntimeError):  # symbolic; no tensor
            return False

    def synchronize(self, device: Device) -> None:
        """Does nothing for the CPU, whose work is done when Paddle's calls return."""
        if device.kind != "cpu":
            paddle.device.synchronize(device.native)

    def thread_settings(self) -> AbstractContextManager[None]:
        """Whether autograd records, which Paddle keeps for each thread."""
        return _grad_mode(paddle.is_grad_enabled())

    def memory(self, device: Device) -> Memory:
        """In use: Paddle's tensors; on the CPU, free and total are the host's."""
        if device.kind == "cpu":
            return memory.of_cpu()
        if self.simulated_count:
            return memory.of_simulated(device.index)
        return memory.of_real(self._accelerators[device.index])

    # -- copies -----------------------------------------------------------------------------------

    def copy_to(self, x: Tensor, device: Device, non_blocking: bool) -> Tensor:
        """Blocks until the bytes have arrived, unless they stay on one accelerator.

        Paddle's non-blocking copies do not keep a pinned source alive and unchanged until they
        finish, so ``non_blocking`` is ignored.
        """
        if _state._dygraph_tracer_ is None:
            raise in_static_graph("copy_to")
        try:
            if not x.is_dense():  # a distributed tensor is not, either
                return copied_sparse(x, lambda part: self.copy_to(part, device, non_blocking))
            if self.device_of(x) is device:
                return x.clone()
        except (RuntimeError, AttributeError):
            self.device_of(x)  # the error if it is deleted, or symbolic
            raise
        return (move_cut if x.stop_gradient else Move.apply)(x, device.native)

    def copy_if_there(self, x: Tensor, device: Device) -> Tensor | None:
        """``clone``; without a gradient to keep, a copy that takes a tenth less time."""
        if _state._dygraph_tracer_ is None or not x.is_dense():
            return None
        if not self._is_host_only:
            return x.clone() if self._devices[hash(x.place)] is device else None
        if device is not self.cpu or not x._is_initialized():
            return None
        return copy_cut(x, self._host, True) if x.stop_gradient else x.clone()

    def cast(self, x: Tensor, dtype: Any, device: Device) -> Tensor:
        """Converted by Paddle on ``device``; without a gradient."""
        if not x.is_dense():
            raise not_dense(x)
        if dtype == paddle.float16:  # NumPy's conversion: Paddle's turns 4e-24 into 7e-05
            readable = x.detach().cast("float32") if x.dtype == paddle.bfloat16 else x
            return self.from_numpy(self.to_numpy(readable), dtype, device)
        if self._names.get(x.dtype) in PaddleSimulator.lacks:
            return self.copy_to(x.detach().cast(dtype), device, False)
        moved = self.copy_to(x, device, False)
        if 0 in x.shape:  # an empty result computed on the host is left there
            return self.empty(tuple(x.shape), dtype, device)
        return moved.detach().cast(dtype)

    def from_numpy(self, array: Array, dtype: Any, device: Device) -> Tensor:
        """Converted by NumPy on the host; to and from bfloat16, by Paddle."""
        check_eager("array")
        place = device.native
        wanted = self._names.get(dtype)
        if wanted is None:
            raise UnsupportedDtypeError(f"NumPy has no counterpart of Paddle's {dtype}.")
        if wanted == "bfloat16" and array.dtype.name == wanted:  # of ml_dtypes
            bits = paddle.to_tensor(array.view(np.int16), place=paddle.CPUPlace())
            return self.copy_to(bits.view(paddle.bfloat16), device, False)
        if wanted == "bfloat16":
            made = paddle.to_tensor(array, place=paddle.CPUPlace())
            return self.copy_to(made.cast(dtype), device, False)
        return paddle.to_tensor(array.astype(wanted, order="C", copy=False), place=place)

    def to_numpy(self, x: Tensor) -> Array:
        """A new array in C order."""
        self.device_of(x)  # Paddle returns an empty array for a deleted tensor
        check_eager("to_numpy")
        if not x.is_dense():  # on a sparse tensor, numpy() is a segmentation fault
            raise not_dense(x)
        if x.dtype not in self._dtypes_of_numpy:
            raise UnsupportedDtypeError(
                f"NumPy has no {str(x.dtype).rpartition('.')[2]}; convert it to float32: "
                "unidev.to_numpy(x.astype('float32'))."
            )
        values: Array = x.numpy()
        return values if values.flags.c_contiguous else values.copy(order="C")

    # -- new tensors ------------------------------------------------------------------------------

    def empty(self, shape: tuple[int, ...], dtype: Any, device: Device) -> Tensor:
        """Uninitialised memory."""
        check_eager("empty")
        _check_size(shape)
        return empty_at(shape, dtype, device.native)

    def full(self, shape: tuple[int, ...], value: Any, dtype: Any, device: Device) -> Tensor:
        """One kernel on the device; made on the host if the device has no such kernel."""
        check_eager("full")
        _check_size(shape)
        if 0 in shape:  # as in cast
            return self.empty(shape, dtype, device)
        # The public paddle.full changes Paddle's default place while it runs.
        return paddle._C_ops.full(shape, value, dtype, device.native)

    def new_like(self, x: Tensor, value: int | None, device: Device) -> None:  # noqa: ARG002
        """From shape and dtype; Paddle's own refuse sparse tensors."""
        check_eager("making a tensor like another")
        if not x.is_dense():
            raise not_dense(x)

    def extents(self, x: Tensor) -> Sequence[Extent]:
        """The allocation that holds ``x``, from the offset of ``x`` in it; of each sparse part."""
        self.device_of(x)
        if not x.is_dense():
            return [extent for part in sparse_parts(x) for extent in self.extents(part)]
        address = x.data_ptr()
        return [Extent(address - x.offset, x._holder_size()) if address else Extent(0, 0)]

    # -- the rest ---------------------------------------------------------------------------------

    @cached_property
    def _names(self) -> Mapping[Any, str]:
        return {own: name for name, own in self.dtypes.items()}

    @cached_property
    def _dtypes_of_numpy(self) -> frozenset[Any]:
        return frozenset(own for name, own in self.dtypes.items() if name != "bfloat16")

    def _device_of_unusual(self, x: Tensor) -> Device:
        if not isinstance(x, paddle.Tensor):
            raise symbolic(x)
        if x.is_dist():
            raise not_dense(x)
        try:
            place = x.place
        except RuntimeError as error:
            raise DeletedTensorError(
                "the tensor's memory has been freed (by _clear or _clear_data): make it again, or "
                "copy it before freeing it."
            ) from error
        device = self._devices.get(hash(place))  # for a sparse tensor
        if device is not None:
            return device
        if place.is_cuda_pinned_place() or place.is_xpu_pinned_place():
            return self.cpu
        raise UnsupportedOperation(
            f"the device of a tensor at {place}",
            "it is not one of the devices listed, which in this process are "
            + ", ".join(device.native_name for device in self._devices.values()),
        )


def _check_size(shape: tuple[int, ...]) -> None:
    # Paddle multiplies sizes in 64 bits without checking for overflow: (2**40, 2**40) becomes a
    # tensor of that shape without memory.
    if math.prod(shape) >= _MOST_ELEMENTS:
        raise MemoryError(f"a tensor of shape {shape} is larger than the address space.")


@contextmanager
def _grad_mode(is_enabled: bool) -> Iterator[None]:
    with paddle.set_grad_enabled(is_enabled):  # which sets it where it is made
        yield
