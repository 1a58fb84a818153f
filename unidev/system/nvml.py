"""Queries NVIDIA's driver through nvidia-ml-py, without initialising CUDA or any framework."""

from __future__ import annotations

import contextlib
import warnings
from concurrent import futures
from dataclasses import replace
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Any

from unidev.system.facts import (
    FAILS,
    LOST,
    MISMATCH,
    NO_ANSWER,
    NO_LIBRARY,
    NO_PERMISSION,
    NOT_ASKED,
    NOT_LOADED,
    WORKS,
    Driver,
    Gpu,
    GpuProcess,
    UnreadableGpu,
)
from unidev.system.gpu_memory import read_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import TypeVar

    T = TypeVar("T")
    DescribeProcess = Callable[[int], tuple[str | None, tuple[str, ...]]]
    """Returns the name of a process, and the shared libraries that it has loaded."""

WAIT_S = 10.0
"""After which a driver does not answer."""
MOST_GPUS = 1024
"""A driver that reports more is wrong: to describe them would take minutes."""

_STATES = {
    "NVML_ERROR_LIBRARY_NOT_FOUND": NO_LIBRARY,
    "NVML_ERROR_DRIVER_NOT_LOADED": NOT_LOADED,
    "NVML_ERROR_NO_PERMISSION": NO_PERMISSION,
    "NVML_ERROR_LIB_RM_VERSION_MISMATCH": MISMATCH,
}
_STATES_OF_ONE = {
    "NVML_ERROR_NO_PERMISSION": NO_PERMISSION,
    # It fell off the bus, or has failed so that only a reset brings it back.
    "NVML_ERROR_GPU_IS_LOST": LOST,
    "NVML_ERROR_RESET_REQUIRED": LOST,
}


def import_nvml() -> Any:
    """The module ``pynvml`` of nvidia-ml-py, or None."""
    try:
        with warnings.catch_warnings():
            # The other distribution that provides this module, pynvml, warns of its deprecation.
            warnings.simplefilter("ignore", FutureWarning)
            import pynvml  # type: ignore[import-untyped]
    except ImportError:
        return None
    return pynvml


def ask_driver(question: Callable[[Any], T], nvml: Any = None) -> T | None:
    """``question(nvml)`` of NVIDIA's driver, or None if there is none, or it has no answer.

    ``nvml`` is the module ``pynvml``, by default the installed one. A driver that hangs is waited
    for ``WAIT_S`` seconds.
    """
    nvml = import_nvml() if nvml is None else nvml
    if nvml is None:
        return None

    def answer() -> T:
        nvml.nvmlInit()
        try:
            return question(nvml)
        finally:
            with contextlib.suppress(nvml.NVMLError):
                nvml.nvmlShutdown()

    with contextlib.suppress(futures.TimeoutError, nvml.NVMLError):
        return _within(WAIT_S, answer)
    return None


def ask_in_time(ask: Callable[[], Driver], wait_s: float) -> Driver:
    """``ask()``, or ``NO_ANSWER`` after ``wait_s``: a driver that lost its card may hang."""
    try:
        return _within(wait_s, ask)
    except futures.TimeoutError:  # the builtin from Python 3.11 on
        return Driver("cuda", NO_ANSWER, f"no answer within {wait_s:g} s")
    except Exception as error:  # noqa: BLE001  the module is third-party, and may be another one
        return Driver("cuda", FAILS, f"nvidia-ml-py raised {type(error).__name__}: {error}")


def _within(wait_s: float, ask: Callable[[], T]) -> T:
    """``ask()`` in a thread that is left to itself after ``wait_s``, with TimeoutError."""
    future = futures.Future[Any]()

    def answer() -> None:
        try:
            future.set_result(ask())
        except BaseException as error:  # noqa: BLE001  raised where it is waited for
            future.set_exception(error)

    Thread(target=answer, daemon=True).start()
    found: T = future.result(wait_s)
    return found


def ask_nvml(nvml: Any, describe: DescribeProcess) -> Driver:
    """The driver's report; ``nvml`` is the module, or None if it is not installed."""
    if nvml is None:
        return Driver("cuda", NOT_ASKED, "nvidia-ml-py is not installed")
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return Driver("cuda", _state(nvml, error, _STATES), str(error))
    try:
        count = nvml.nvmlDeviceGetCount()
        if count > MOST_GPUS:
            return Driver("cuda", FAILS, f"it reports {count} GPUs")
        # Each GPU by itself: one that is lost, or that this process may not use, hides no other.
        found = [_gpu(nvml, index, describe) for index in range(count)]
        return Driver(
            "cuda",
            WORKS,
            version=text(nvml.nvmlSystemGetDriverVersion()),
            cuda_version=".".join(map(str, cuda_version(nvml))),
            gpus=tuple(each for each in found if isinstance(each, Gpu)),
            unreadable=tuple(each for each in found if isinstance(each, UnreadableGpu)),
        )
    except nvml.NVMLError as error:
        return Driver("cuda", FAILS, str(error))
    finally:
        with contextlib.suppress(nvml.NVMLError):
            nvml.nvmlShutdown()


def _state(nvml: Any, error: Any, states: Mapping[str, str]) -> str:
    for name, state in states.items():
        if error.value == getattr(nvml, name):
            return state
    return FAILS


def cuda_version(nvml: Any) -> tuple[int, int]:
    """The newest CUDA version that the driver supports, such as ``(12, 4)``."""
    number = nvml.nvmlSystemGetCudaDriverVersion_v2()  # 12040 for 12.4
    return number // 1000, number % 1000 // 10


def _gpu(nvml: Any, index: int, describe: DescribeProcess) -> Gpu | UnreadableGpu:
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
        architecture = f"sm_{major}{minor}"
        whole = _named(nvml, handle, index, architecture)
        parent = f"GPU {index}, {whole.name}"
        parts = tuple(
            _with_memory(nvml, part, _named(nvml, part, index, architecture, parent), describe)
            for part in instances(nvml, handle)
        )
        return _with_memory(nvml, handle, replace(whole, parts=parts), describe)
    except nvml.NVMLError as error:
        return UnreadableGpu(index, _state(nvml, error, _STATES_OF_ONE), str(error))


def named_gpus(nvml: Any) -> tuple[list[Gpu], int]:
    """The GPUs with their UUIDs and their instances (MIG), and how many are not described."""
    found: list[Gpu] = []
    count = nvml.nvmlDeviceGetCount()
    for index in range(min(count, MOST_GPUS)):
        with contextlib.suppress(nvml.NVMLError):  # of a lost card, which hides no other
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            parts = tuple(_named(nvml, part, index) for part in instances(nvml, handle))
            found.append(replace(_named(nvml, handle, index), parts=parts))
    return found, count - len(found)


def _named(
    nvml: Any, handle: Any, index: int, architecture: str | None = None, parent: str | None = None
) -> Gpu:
    name, uuid = nvml.nvmlDeviceGetName(handle), nvml.nvmlDeviceGetUUID(handle)
    return Gpu("cuda", index, text(name), text(uuid), architecture, parent=parent)


def _with_memory(nvml: Any, handle: Any, gpu: Gpu, describe: DescribeProcess) -> Gpu:
    """``gpu``, a GPU or an instance (MIG), with its memory and the processes that hold it."""
    memory = read_memory(nvml, handle, gpu)._asdict()
    return replace(gpu, **memory, processes=tuple(_processes(nvml, handle, describe)))


def _processes(nvml: Any, handle: Any, describe: DescribeProcess) -> Iterator[GpuProcess]:
    found = _or_none(nvml, partial(nvml.nvmlDeviceGetComputeRunningProcesses, handle))
    for each in found or ():
        # Not the driver's name for it: that may contain a path or arguments, or be another user's.
        name, libraries = describe(each.pid)
        yield GpuProcess(each.pid, name, each.usedGpuMemory, libraries)


def instances(nvml: Any, handle: Any) -> Iterator[Any]:
    """The handles of the instances (MIG) of a GPU."""
    mode = _or_none(nvml, lambda: nvml.nvmlDeviceGetMigMode(handle)[0])
    if not mode:
        return
    for index in range(_or_none(nvml, partial(nvml.nvmlDeviceGetMaxMigDeviceCount, handle)) or 0):
        part = _or_none(nvml, partial(nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, index))
        if part is not None:
            yield part


def _or_none(nvml: Any, ask: Callable[[], Any]) -> Any:
    """``ask()``, or None if the driver does not report it for this card or to this user."""
    try:
        return ask()
    except nvml.NVMLError as error:
        if _state(nvml, error, _STATES_OF_ONE) == LOST:
            raise
        return None


def text(value: str | bytes) -> str:
    """Text, which early versions of the module give as bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value
