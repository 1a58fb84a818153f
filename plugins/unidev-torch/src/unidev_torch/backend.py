"""PyTorch's devices and tensors, in unidev's terms."""

from __future__ import annotations

import platform
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch

from unidev.contract import Backend, Memory, part
from unidev.errors import UnsupportedDtypeError, UnsupportedOperation
from unidev_torch import accelerator, tensors
from unidev_torch.accelerator import ACCELERATORS, TorchCopyStream
from unidev_torch.containers import CONTAINERS, opened
from unidev_torch.scopes import Made, NativeScope

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    import numpy as np

    from unidev.contract import BackendSpec, CopyStream, Device

# Looked up once: try_gpu is a hot path, where each lookup is measurable.
_current_accelerator = torch.accelerator.current_accelerator


class TorchBackend(Backend):
    """Tensors of PyTorch and its subclasses, on the CPU and on torch's one accelerator."""

    probe = part("unidev_torch.probe:TorchProbe")
    models = part("unidev_torch.models:TorchModels")
    autograd = part("unidev_torch.autograd:TorchAutograd")
    layers = part("unidev_torch.nn.layers:TorchLayers")
    loader = part("unidev_torch.data_loaders:TorchLoader")
    functions = part("unidev_torch.nn:TorchFunctions")
    collectives = part("unidev_torch.collectives:TorchCollectives")
    group_engine = part("unidev_torch.group.engine:TorchEngine")
    installation = part("unidev_torch.installation:TorchInstallation")
    interop = part("unidev_torch.memory.interop:TorchInterop")
    tracer = part("unidev_torch.tracer:TorchTracer")
    peaks = part("unidev_torch.memory:peaks_of")
    estimator = part("unidev_torch.memory.estimating:TorchEstimator")
    pinned = part("unidev_torch.memory:pinning_of")

    # On the host: Linux's words, Windows's, and those of shared memory.
    framework_errors = (*Backend.framework_errors, AssertionError)  # of fake tensors
    out_of_memory_words = ("allocate memory", "not enough memory", "failed to allocate")
    out_of_memory_numbers = (
        "tried to allocate {requested}", "of which {free} is free", "total capacity of {total}",
    )  # fmt: skip
    model_types = (torch.nn.Module,)
    optimizer_types = (torch.optim.Optimizer,)
    containers = CONTAINERS
    opened = staticmethod(opened)
    have_memory = staticmethod(tensors.are_covered)
    extents = staticmethod(tensors.extents)
    watch_made = staticmethod(Made)

    def __init__(self, spec: BackendSpec, simulated_count: int) -> None:
        super().__init__(spec, simulated_count)
        self._devices: dict[torch.device, Device] = {}
        """Filled on first use: the meaning of a ``torch.device`` never changes."""
        # Of simulated ones named `cuda`, CUDA_VISIBLE_DEVICES may leave fewer, as of real ones.
        is_fixed = simulated_count > 0 and self._accelerator_type() != "cuda"
        self._fixed_count = simulated_count if is_fixed else None

    @property
    def tensor_types(self) -> tuple[type, ...]:
        """``torch.Tensor``, parameters and other subclasses included."""
        return (torch.Tensor,)

    @cached_property
    def dtypes(self) -> Mapping[str, torch.dtype]:
        """All that NumPy has, plus bfloat16."""
        return {name: getattr(torch, name) for name in tensors.NAMES}

    def dtypes_on(self, device: Device) -> Sequence[str]:
        """As torch reports it: on MPS no float64, on XPU only where the card has it."""
        return tensors.NAMES if device.kind == "cpu" else tensors.names_on(device.native)

    # -- devices ------------------------------------------------------------------------------

    def device_count(self, kind: str) -> int:
        """One CPU, regardless of its cores; as many GPUs as torch's accelerator has.

        Queries torch each time until the number is fixed: by torch, when it initialises the
        accelerator, or by simulation. None where NVIDIA's driver is too old for this torch, and
        one where GPUs are divided (MIG).
        """
        if kind == "cpu":
            return 1
        if self._fixed_count is not None:
            return self._fixed_count
        found = _current_accelerator()
        if found is None:
            return 0
        module = torch.get_device_module(found)
        count: int = module.device_count()
        if accelerator.is_initialized(module):
            self._fixed_count = count
        elif count and found.type == "cuda" and not self.simulated_count:
            if accelerator.is_driver_too_old():
                return 0
            return 1 if count > 1 and accelerator.is_one_instance() else count
        return count

    def native_device(self, kind: str, index: int) -> torch.device:
        """``torch.device("cpu")`` without an index, as on torch's own tensors."""
        if kind == "cpu":
            return torch.device("cpu")
        accelerator_type = self._accelerator_type()
        if accelerator_type is None:
            raise LookupError(f"this torch has no accelerator, so there is no {kind}:{index}")
        return torch.device(accelerator_type, index)

    def parse_native(self, spec: object) -> tuple[str, int] | None:
        """A ``torch.device`` or its spelling. Without an index, torch means the current device."""
        if isinstance(spec, str):
            try:
                device = torch.device(spec)
            except (RuntimeError, ValueError):
                return None
            found, number = self._kind_and_index(device), spec.partition(":")[2]
            # torch keeps the index in a byte: its cuda:256 is cuda:0
            return found and (found[0], int(number or found[1]))
        return self._kind_and_index(spec) if isinstance(spec, torch.device) else None

    def hardware_name(self, kind: str, index: int) -> str:
        """As the driver reports it; the query initialises CUDA, and creates no context."""
        if kind == "cpu":
            return platform.processor() or platform.machine()
        native = self.native_device(kind, index)
        name_of = getattr(torch.get_device_module(native), "get_device_name", None)
        return str(native) if name_of is None else str(name_of(index))

    def device_of(self, x: torch.Tensor) -> Device:
        """From ``x.device``."""
        try:
            return self._devices[x.device]
        except KeyError:
            return self._find_device(x.device)

    def traced(self, x: torch.Tensor) -> bool:
        """While ``torch.compile`` follows; its tensors have a device, but no memory."""
        if torch.compiler.is_compiling():
            return isinstance(x, torch.Tensor)
        return type(x).__name__ == "FakeTensor"

    def synchronize(self, device: Device) -> None:
        """Does nothing for the CPU, whose work is done when torch's calls return.

        Nor for a GPU that this process has not used: waiting would create CUDA's context there.
        """
        if device.kind == "gpu" and accelerator.has_work(device):
            torch.accelerator.synchronize(device.native)

    def native_scope(self, device: Device) -> NativeScope:
        """``with torch.device(...)``, which applies to this thread alone, or to this task."""
        return NativeScope(device.native)

    def batch_iterator(self, batches: Iterable[Any]) -> Iterator[Any]:
        """A ``DataLoader`` is read outside of ``with device:``."""
        from unidev_torch.data_loaders import Reading

        if isinstance(batches, torch.utils.data.DataLoader):
            return Reading(batches)
        return iter(batches)

    def copy_stream(self, device: Device) -> CopyStream | None:
        """A stream of its own on CUDA and XPU."""
        if device is self.cpu or device.native.type not in accelerator.STREAM_ORDERED:
            return None
        return TorchCopyStream(device.native)

    def thread_settings(self) -> AbstractContextManager[None]:
        """Whether autograd records, which PyTorch keeps for each thread."""
        return _grad_mode(torch.is_grad_enabled())

    def memory(self, device: Device) -> Memory:
        """Bytes in tensors and in the allocator, by torch; free and total bytes, by the driver."""
        if device.kind == "cpu":
            raise UnsupportedOperation("memory", "torch keeps no allocator statistics for the CPU")
        module = torch.get_device_module(device.native)
        if not hasattr(module, "mem_get_info"):
            raise UnsupportedOperation(
                "memory", f"torch.{device.native.type} does not report how much memory is free"
            )
        free, total = module.mem_get_info(device.index)
        memory = Memory(module.memory_allocated(device.index), free, total)
        if not hasattr(module, "memory_reserved"):
            return memory
        return memory.with_reserved(module.memory_reserved(device.index))

    def shares_host_memory(self, device: Device) -> bool:
        """CUDA's, HIP's and Level Zero's word, once torch has initialised them."""
        module = torch.get_device_module(device.native)
        if not accelerator.is_initialized(module):  # reading properties would initialise it
            return False
        properties = module.get_device_properties(device.index)
        names = ("is_integrated", "is_integrated_gpu")  # the second is XPU's
        return any(getattr(properties, name, False) for name in names)

    # -- tensors ------------------------------------------------------------------------------

    def copy_to(self, x: torch.Tensor, device: Device, non_blocking: bool) -> torch.Tensor:
        """``clone`` on the same device, else ``to(copy=True)``.

        Torch's ``non_blocking`` is safe only between accelerators. A copy from pinned memory is
        still reading it after the call returns; nothing shows that one to the CPU is still
        arriving, so that ``synchronize(device_of(y))`` could not wait for it.
        """
        is_here = self.device_of(x) is device
        tensors.check_memory(x)
        if is_here:
            copied = x.clone()
        else:
            tensors.check_movable(x, is_simulated=self.simulated_count > 0)
            ordered = (
                non_blocking
                and device is not self.cpu
                and x.device.type in accelerator.STREAM_ORDERED
            )
            copied = x.to(device.native, non_blocking=ordered, copy=True)
        if device is not self.cpu:
            accelerator.keep_until_read(x, is_simulated=self.simulated_count > 0)
        return copied

    def copy_if_there(self, x: torch.Tensor, device: Device) -> torch.Tensor | None:
        """``clone`` of a contiguous tensor in a storage that covers it; or None, to look closer."""
        if device is self.cpu:
            # As `is_covered`, without its call.
            if (
                x.is_cpu
                and x.nbytes <= len(x.untyped_storage())
                and x.is_contiguous()
                and not x.storage_offset()
            ):
                return x.clone()
        elif self._devices[x.device] is device and tensors.is_covered(x):
            copied = x.clone()
            accelerator.keep_until_read(x, is_simulated=self.simulated_count > 0)
            return copied
        return None

    def check_memory(self, x: torch.Tensor) -> None:
        """Compares the storage's length with the last element's offset."""
        tensors.check_memory(x)

    def from_numpy(
        self, array: np.ndarray[Any, Any], dtype: torch.dtype, device: Device
    ) -> torch.Tensor:
        """Copies into memory of torch's own."""
        return tensors.from_numpy(array, dtype, device.native)

    def to_numpy(self, x: torch.Tensor) -> np.ndarray[Any, Any]:
        """A new array in C order."""
        return tensors.to_numpy(x)

    def empty(self, shape: tuple[int, ...], dtype: torch.dtype, device: Device) -> torch.Tensor:
        """``torch.empty``."""
        return torch.empty(shape, dtype=dtype, device=device.native)

    def zeros(self, shape: tuple[int, ...], dtype: torch.dtype, device: Device) -> torch.Tensor:
        """``torch.zeros``."""
        return torch.zeros(shape, dtype=dtype, device=device.native)

    def full(
        self, shape: tuple[int, ...], value: Any, dtype: torch.dtype, device: Device
    ) -> torch.Tensor:
        """``torch.full``."""
        return torch.full(shape, value, dtype=dtype, device=device.native)

    def new_like(self, x: torch.Tensor, value: int | None, device: Device) -> torch.Tensor | None:
        """By torch's own, which keeps strides, sparse and jagged layouts, and subclasses."""
        is_strided = type(x) is torch.Tensor and x.layout is torch.strided
        if is_strided and x.is_contiguous() and not (x.is_nested or x.is_quantized):
            return None
        return tensors.new_like(x, value, device.native, is_simulated=self.simulated_count > 0)

    def cast(self, x: torch.Tensor, dtype: torch.dtype, device: Device) -> torch.Tensor:
        """``to`` with device and dtype; a complex tensor is never converted to a real one."""
        tensors.check_memory(x)
        if x.is_complex() and not dtype.is_complex and x.numel():
            raise UnsupportedDtypeError(
                f"converting a {x.dtype} tensor to {dtype} would drop its imaginary part: "
                "take x.real, x.imag or x.abs()."
            )
        converted = x.detach().to(device=device.native, dtype=dtype, copy=True)
        accelerator.keep_until_read(x, is_simulated=self.simulated_count > 0)
        return converted

    # -- torch.device to Device -----------------------------------------------------------------

    def _accelerator_type(self) -> str | None:
        found = _current_accelerator()
        return None if found is None else found.type

    def _kind_and_index(self, device: torch.device) -> tuple[str, int] | None:
        if device.type == "cpu":
            return "cpu", device.index or 0
        accelerator_type = self._accelerator_type()
        if device.type == accelerator_type:
            return "gpu", self._current_index() if device.index is None else device.index
        if accelerator_type is None and device.type in ACCELERATORS:
            return "gpu", device.index or 0  # a valid name for a device that this machine lacks
        return None

    def _find_device(self, native: torch.device) -> Device:
        found = self._kind_and_index(native)
        if found is None:
            raise UnsupportedOperation(
                f"a tensor on torch's device {str(native)!r}",
                "it has a shape but no memory; torch.empty_like(x, device=...) makes one that has"
                if native.type == "meta"
                else "unidev knows the CPU and torch.accelerator's devices",
            )
        device = self._devices[native] = self.device(*found)
        return device

    def _current_index(self) -> int:
        # The query would initialise the accelerator; until then the current index is 0.
        if not accelerator.is_initialized(torch.get_device_module(self._accelerator_type())):
            return 0
        return torch.accelerator.current_device_index()


def _need_a_closer_look(*_: Any) -> None:
    """``copy_if_there`` for torch.compile, which cannot follow ``untyped_storage``."""


TorchBackend.copy_if_there._torchdynamo_inline = _need_a_closer_look  # type: ignore[attr-defined]


@contextmanager
def _grad_mode(is_enabled: bool) -> Iterator[None]:
    with torch.set_grad_enabled(is_enabled):  # which sets it where it is made
        yield
