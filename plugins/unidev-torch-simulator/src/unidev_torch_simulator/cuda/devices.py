"""Devices: how many there are, which is current, and what each is like."""
# ruff: noqa: N802  the names are torch's, which describes them

from __future__ import annotations

import os
import time
import uuid
import warnings
from functools import cache
from typing import TYPE_CHECKING, Any

from unidev_torch_simulator.models import model_of

if TYPE_CHECKING:
    import ctypes

    from unidev.contract import SimulatedGpus

CUDA = 1
"""``c10::DeviceType::CUDA``."""

_gpus: SimulatedGpus
_library: ctypes.CDLL


def add_to(bindings: Any, gpus: SimulatedGpus, library: ctypes.CDLL) -> None:
    """Give ``torch._C`` the functions about devices."""
    global _gpus, _library
    _gpus, _library = gpus, library
    major, minor = model_of(gpus.like).capability
    library.unidev_set_capability(10 * major + minor)
    bindings._has_cuda = True
    add_functions(bindings, globals())
    bindings._CudaDeviceProperties = CudaDeviceProperties


def add_functions(bindings: Any, namespace: dict[str, Any]) -> None:
    """Give ``torch._C`` all functions of a module of ours that bear its names."""
    for name, value in namespace.items():
        if name.startswith(("_cuda_", "_nccl_", "_cudnn_")) and callable(value):
            setattr(bindings, name, value)


def compiler() -> str | None:
    """The backend of ``torch.compile`` that replaces Inductor, if one was requested."""
    return _gpus.compile


@cache
def ops() -> Any:
    """The functions of our C++ library; once torch is imported."""
    import torch

    return torch.ops.unidev_sim


# -- which there are ------------------------------------------------------------------------------


@cache
def visible() -> tuple[int, ...]:
    """The simulated GPUs that the process sees, by their numbers without the variable.

    ``CUDA_VISIBLE_DEVICES`` is read at the first call, as by CUDA's driver when it is first asked.
    """
    import torch

    found: list[int] = []
    for chosen in torch.cuda._parse_visible_devices():
        number = _number_of_uuid(chosen) if isinstance(chosen, str) else chosen
        if not 0 <= number < _gpus.count or number in found:
            break  # CUDA takes none from the first wrong one on
        found.append(number)
    _library.unidev_set_device_count(len(found))
    return tuple(found)


def uuids() -> list[str]:
    """Those of all GPUs, whatever the variable leaves, as NVML has them."""
    return [f"GPU-{uuid_of(number)}" for number in range(_gpus.count)]


def _number_of_uuid(text: str) -> int:
    """The GPU whose UUID begins with ``text``, such as ``GPU-5f2a``; -1 if it is not one."""
    numbers = [number for number, own in enumerate(uuids()) if own.startswith(text)]
    return numbers[0] if len(numbers) == 1 else -1


def uuid_of(number: int) -> uuid.UUID:
    """The same in each process, so that two can tell whether they use one GPU."""
    return uuid.uuid5(uuid.NAMESPACE_OID, f"unidev simulated GPU {number}")


def _cuda_getDeviceCount() -> int:
    return len(visible())


def _cuda_init() -> None:
    import torch

    if not visible():
        raise RuntimeError("No CUDA GPUs are available")
    generators = (ops().default_generator(index) for index in range(len(visible())))
    torch.cuda.default_generators = tuple(generators)
    torch.cuda._get_device_properties = CudaDeviceProperties  # type: ignore[attr-defined]
    _library.unidev_set_used()
    _require_lazy_init_after_fork(torch)


@cache
def _require_lazy_init_after_fork(torch: Any) -> None:
    # torch's C++ for Python then asks torch.cuda._lazy_init again in a forked child: it refuses.
    import ctypes

    python = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_python.so"))
    name = "_ZN5torch5utils37register_fork_handler_for_device_initEN3c1010DeviceTypeE"
    getattr(python, name)(CUDA)


def _cuda_isInBadFork() -> bool:
    return bool(_library.unidev_is_forked())


# -- which is current -----------------------------------------------------------------------------


def _cuda_getDevice() -> int:
    index: int = ops().current_device()
    return index


def _cuda_setDevice(index: int) -> None:
    import torch

    torch.cuda.init()  # type: ignore[no-untyped-call]  # as in C++: it refuses in a fork
    if index >= 0:
        ops().set_device(index)


def _cuda_exchangeDevice(index: int) -> int:
    if index < 0:
        return -1
    import torch

    torch.cuda.init()  # type: ignore[no-untyped-call]
    before: int = ops().current_device()
    if index != before:
        ops().set_device(index)
    return before


def _cuda_maybeExchangeDevice(index: int) -> int:
    # Not the same object as the function above: Dynamo tells the two apart.
    return _cuda_exchangeDevice(index)


def _cuda_synchronize() -> None:
    ops().synchronize(ops().current_device())


def _cuda_hasPrimaryContext(index: int) -> bool:
    return 0 <= index < len(visible())


def _cuda_canDeviceAccessPeer(device: int, peer: int) -> bool:
    return device != peer


def _cuda_sleep(cycles: int) -> None:
    # Tests hold a GPU up by it, here the caller: at one GHz, and no longer than a second.
    time.sleep(min(cycles / 1e9, 1.0))


# -- what each is like ----------------------------------------------------------------------------


class CudaDeviceProperties:
    """What ``torch.cuda.get_device_properties`` gives, under torch's own names."""

    def __init__(self, index: int) -> None:
        model = model_of(_gpus.like)
        number = visible()[index]
        self.name = f"{model.name} (simulated)"
        self.major, self.minor = model.capability
        self.total_memory: int = ops().memory_info(index)[1]
        self.multi_processor_count = model.multiprocessors
        self.L2_cache_size = model.l2_bytes
        self.max_threads_per_multi_processor = model.threads_of_multiprocessor
        self.max_threads_per_block = 1024
        self.warp_size = 32
        self.regs_per_multiprocessor = 65536
        self.shared_memory_per_block = 48 << 10
        self.shared_memory_per_block_optin = model.shared_memory_optin
        self.shared_memory_per_multiprocessor = model.shared_memory_optin + 1024
        self.is_integrated = self.is_multi_gpu_board = 0
        # Unknown: a simulated GPU has no clock and no bus.
        self.clock_rate = self.memory_clock_rate = self.memory_bus_width = 0
        self.pci_bus_id, self.pci_device_id, self.pci_domain_id = number, 0, 0
        self.gcnArchName = self.name
        self.uuid = uuid_of(number)

    def __repr__(self) -> str:
        return (
            f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
            f"total_memory={self.total_memory >> 20}MB, "
            f"multi_processor_count={self.multi_processor_count}, uuid={self.uuid}, "
            f"pci_bus_id={self.pci_bus_id}, pci_device_id=0, pci_domain_id=0, "
            f"L2_cache_size={self.L2_cache_size >> 20}MB)"
        )


# -- the build ------------------------------------------------------------------------------------


def _cuda_getArchFlags() -> str:
    return " ".join(
        f"sm_{major}{minor}" for major, minor in ((7, 5), (8, 0), (8, 6), (8, 9), (9, 0))
    )


def _cuda_getCompiledVersion() -> int:
    return 0  # as torch.version.cuda is None: there is no CUDA


NCCL_VERSION = (2, 29, 7)
"""What ``torch.cuda.nccl.version()`` gives: programs choose by it what they may call."""


def _nccl_version() -> int:
    major, minor, patch = NCCL_VERSION
    return (major << 32) | (minor << 16) | patch


def _nccl_version_suffix() -> bytes:
    return b""


def _cuda_get_sync_debug_mode() -> int:
    found: int = ops().sync_debug_mode()
    return found


def _cuda_set_sync_debug_mode(mode: int) -> None:
    warnings.warn(
        "Synchronization debug mode is a prototype feature and does not yet detect all "
        "synchronizing operations", stacklevel=3,
    )  # fmt: skip
    ops().set_sync_debug_mode(mode)


def _cuda_get_cudnn_benchmark_limit() -> int:
    return 10


def _cuda_get_conv_benchmark_empty_cache() -> bool:
    return True


# Settings of libraries that simulated GPUs do not use: they change nothing there.


def _cuda_set_cudnn_benchmark_limit(limit: int) -> None: ...


def _cudnn_set_conv_benchmark_empty_cache(enable: bool) -> None: ...


def _cuda_clearCublasWorkspaces() -> None: ...


def _cuda_ipc_collect() -> None: ...
