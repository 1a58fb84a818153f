"""Translates a framework's errors into unidev's."""

from __future__ import annotations

from unidev.errors import FrameworkError, OutOfDeviceMemoryError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from unidev.contract.device import Device

    Making = tuple[tuple[int, ...], object]
    Doing = tuple[str] | tuple[str, Device] | tuple[str, Device, Making]
    """What was being done, on which device, and the shape and dtype of the new tensor."""

_EXHAUSTED = (
    "out of memory", "resourceexhausted",  # CUDA; TensorFlow and XLA
    "allocate memory", "failed to allocate",  # PyTorch on the host; MXNet
)  # fmt: skip


def framework_error(
    error: Exception,
    backend: str,
    doing: str,
    device: Device | None = None,
    made: Making | None = None,
) -> FrameworkError:
    """The error to raise for one that the framework raised while ``doing`` something.

    ``doing`` completes "while …": "making a tensor". ``made`` is the shape and dtype of the tensor
    that was being made, if any.
    """
    cause = f"{type(error).__name__}: {error}".strip()
    if not is_lack_of_memory(error):
        return FrameworkError(f"{backend} failed while {doing}. {cause}")
    try:
        from unidev.calls.out_of_memory import out_of_memory

        return out_of_memory(cause, backend, doing, device, made)
    except Exception:  # noqa: BLE001  however little memory is left, this error must be raised
        return OutOfDeviceMemoryError(f"{backend} ran out of memory while {doing}. {cause}")


def is_lack_of_memory(error: Exception) -> bool:
    """Whether this is a framework's error for running out of memory."""
    words = f"{type(error).__name__}: {error}".lower().replace("_", "")
    return isinstance(error, MemoryError) or any(sign in words for sign in _EXHAUSTED)
