"""The module ``torch.sim``: the functions that torch looks for in a device's module.

Names and meanings are those of ``torch.cuda``. Work on a simulated device is done when the call
returns, so nothing here waits, unless devices are late.
"""
# ruff: noqa: D103  torch.cuda's documentation describes them

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import torch

from unidev_torch_simulator.models import model_of

if TYPE_CHECKING:
    from types import TracebackType

_ops: Any = torch.ops.unidev_sim
_count: int = _ops.device_count()  # fixed for the lifetime of the process
_Where = torch.device | str | int | None


def _index(device: _Where) -> int:
    if device is None:
        return current_device()
    if isinstance(device, int):
        return device
    device = torch.device(device)
    if device.type != "sim":
        raise ValueError(f"expected a simulated device such as 'sim:0', got {device}")
    return current_device() if device.index is None else device.index


def is_available() -> bool:
    return _count > 0


def is_initialized() -> bool:
    return True


def init() -> None:
    """Does nothing: there is nothing to initialise."""


_lazy_init = init
_initialized = True  # torch.utils.checkpoint keeps the state of random numbers only where it is


def _is_in_bad_fork() -> bool:
    return False  # host memory survives a fork


def device_count() -> int:
    return _count


def current_device() -> int:
    index: int = _ops.current_device()
    return index


def set_device(device: _Where) -> None:
    _ops.set_device(_index(device))


class device:  # noqa: N801  torch.cuda's name
    """Makes ``device`` this thread's current device inside a ``with`` block."""

    def __init__(self, device: _Where) -> None:
        self.index = _index(device)
        self._before = threading.local()

    def __enter__(self) -> None:
        stack = self._before.__dict__.setdefault("stack", [])
        stack.append(current_device())
        set_device(self.index)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        set_device(self._before.stack.pop())


def synchronize(device: _Where = None) -> None:
    _ops.synchronize(_index(device))


# -- streams ------------------------------------------------------------------------------------


class Stream(torch.Stream):
    """A name: work is done when a call returns."""

    def __new__(cls, device: _Where = None, priority: int = 0) -> Stream:
        """Make a stream of ``device``, by default the current one."""
        where = torch.device("sim", _index(device))
        return super().__new__(cls, device=where, priority=priority)


class Event(torch.Event):
    """A moment."""

    def __new__(cls, enable_timing: bool = False) -> Event:
        """Make an event, with a time if ``enable_timing``."""
        return super().__new__(cls, device="sim", enable_timing=enable_timing)


def current_stream(device: _Where = None) -> torch.Stream:
    return torch.accelerator.current_stream(_index(device))


def set_stream(stream: torch.Stream) -> None:
    torch.accelerator.set_stream(stream)


def stream(stream: torch.Stream | None) -> AbstractContextManager[Any]:
    return nullcontext() if stream is None else stream


model: str | None = None
"""The word of ``UNIDEV_SIMULATE_LIKE``, such as ``H100``."""


def get_device_name(device: _Where = None) -> str:
    index = _index(device)
    if model is None:
        return f"simulated GPU {index} (host memory)"
    return f"{model_of(model).name} (simulated)"


# -- memory -------------------------------------------------------------------------------------


def memory_allocated(device: _Where = None) -> int:
    """Bytes that live tensors hold on ``device``, exactly as requested."""
    current: int = _ops.memory_stats(_index(device))[0]
    return current


def max_memory_allocated(device: _Where = None) -> int:
    peak: int = _ops.memory_stats(_index(device))[1]
    return peak


memory_reserved = memory_allocated
max_memory_reserved = max_memory_allocated


def reset_peak_memory_stats(device: _Where = None) -> None:
    _ops.reset_peak(_index(device))


def mem_get_info(device: _Where = None) -> tuple[int, int]:
    """Free and total bytes: of the limit that was set, else of the host, which all share."""
    free, total = _ops.memory_info(_index(device))
    return free, total


def empty_cache() -> None:
    """Does nothing: there is no cache."""


# -- random numbers -----------------------------------------------------------------------------


def manual_seed(seed: int) -> None:
    _ops.seed(current_device(), _as_int64(seed))


def manual_seed_all(seed: int) -> None:
    for index in range(_count):
        _ops.seed(index, _as_int64(seed))


def initial_seed() -> int:
    seed: int = _ops.initial_seed(current_device())
    return seed % 2**64


def get_rng_state(device: _Where = None) -> torch.Tensor:
    state: torch.Tensor = _ops.rng_state(_index(device))
    return state


def set_rng_state(new_state: torch.Tensor, device: _Where = None) -> None:
    _ops.set_rng_state(_index(device), new_state)


def _as_int64(seed: int) -> int:
    """The same 64 bits as torch.manual_seed's, as the signed type that operators take."""
    if not -(2**63) <= seed < 2**64:
        raise RuntimeError(f"the seed {seed} has more than 64 bits")
    return seed - 2**64 if seed >= 2**63 else seed


# -- autocast -----------------------------------------------------------------------------------


def get_amp_supported_dtype() -> list[torch.dtype]:
    return [torch.float16, torch.bfloat16]


def is_bf16_supported() -> bool:
    return True
