"""Streams and events: names and moments, and an order of work where devices are late."""
# ruff: noqa: N802  the names are torch's, which describes them

from __future__ import annotations

from typing import Any

from unidev_torch_simulator.cuda.devices import CUDA, add_functions, ops


def add_to(bindings: Any) -> None:
    """Give ``torch._C`` the functions and base classes of streams and events."""
    add_functions(bindings, globals())
    bindings._CudaStreamBase = _stream_base(bindings)
    bindings._CudaEventBase = _event_base(bindings)


def _index(index: int) -> int:
    return index if index >= 0 else int(ops().current_device())


def _cuda_getCurrentStream(index: int = -1) -> tuple[int, int, int]:
    return ops().current_stream(index), _index(index), CUDA


def _cuda_getDefaultStream(index: int = -1) -> tuple[int, int, int]:
    return 0, _index(index), CUDA


def _cuda_getCurrentRawStream(index: int) -> int:
    stream: int = ops().current_stream(index)
    return stream


def _cuda_setStream(stream_id: int = 0, device_index: int = 0, device_type: int = CUDA) -> None:  # noqa: ARG001
    if ops().current_device() != device_index:
        ops().set_device(device_index)
    ops().set_stream(device_index, stream_id)


def _cuda_isCurrentStreamCapturing() -> bool:
    return False


def _stream_base(bindings: Any) -> type:
    import torch

    class CudaStreamBase(bindings.Stream):  # type: ignore[misc]
        def __new__(
            cls, priority: int = 0, stream_id: int = 0, device_index: int = 0,
            device_type: int = 0, stream_ptr: int = 0,
        ) -> Any:  # fmt: skip
            if stream_ptr:
                raise NotImplementedError("GPUs simulated by unidev have no external streams")
            if stream_id or device_index or device_type:
                return super().__new__(
                    cls, stream_id=stream_id, device_index=device_index,
                    device_type=device_type or CUDA,
                )  # fmt: skip
            torch.cuda.init()  # type: ignore[no-untyped-call]
            device = torch.device("cuda", ops().current_device())
            return super().__new__(cls, device=device, priority=priority)

        @property
        def cuda_stream(self) -> int:
            return int(self.stream_id)

        @property
        def priority(self) -> int:
            # 32 of each, in guard.h; the default stream has the number 0.
            return -((int(self.stream_id) - 1) // 32) if self.stream_id else 0

        @staticmethod
        def priority_range() -> tuple[int, int]:
            return 0, -3  # torch's own pools have no others

    return CudaStreamBase


def _event_base(bindings: Any) -> type:
    import torch

    class CudaEventBase(bindings.Event):  # type: ignore[misc]
        def __new__(
            cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False,
            external: bool = False,
        ) -> Any:  # fmt: skip
            if interprocess or external:
                raise NotImplementedError(
                    "GPUs simulated by unidev share no events with other processes or libraries"
                )
            torch.cuda.init()  # type: ignore[no-untyped-call]
            return super().__new__(
                cls, device="cuda", enable_timing=enable_timing, blocking=blocking
            )

        def __init__(self, enable_timing: bool = False, *_: Any, **__: Any) -> None:
            self._is_timed = enable_timing

        def elapsed_time(self, end: Any) -> float:
            # torch.Event's own takes no object of a subclass (seen in 2.13).
            if not (self._is_timed and end._is_timed):
                raise ValueError("Both events must be created with argument 'enable_timing=True'.")
            if not (self.event_id and end.event_id):
                raise ValueError("Both events must be recorded before calculating elapsed time.")
            milliseconds: float = ops().elapsed_time(self.event_id, end.event_id)
            return milliseconds

        @property
        def cuda_event(self) -> int:
            return int(self.event_id)

        @classmethod
        def from_ipc_handle(cls, *given: Any) -> Any:
            raise NotImplementedError(
                "GPUs simulated by unidev share no events with other processes"
            )

    return CudaEventBase
