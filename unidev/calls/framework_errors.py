"""What a framework raises, as an error of unidev's."""

from __future__ import annotations

from unidev.errors import FrameworkError, OutOfDeviceMemoryError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from unidev.contract.device import Device

    Making = tuple[tuple[int, ...], object]
    Doing = tuple[str] | tuple[str, Device] | tuple[str, Device, Making]
    """What was being done, on which device, and the shape and dtype of the tensor to be made."""

_EXHAUSTED = (
    "out of memory", "resourceexhausted",  # CUDA's; TensorFlow's and XLA's
    "allocate memory", "failed to allocate",  # torch's of the host; MXNet's
)  # fmt: skip


def framework_error(
    error: Exception,
    backend: str,
    doing: str,
    device: Device | None = None,
    made: Making | None = None,
) -> FrameworkError:
    """The error for what the framework itself raised while ``doing`` something on ``device``.

    ``made`` is the shape and the dtype of the tensor that was to be made, where one was.
    """
    said = f"{type(error).__name__}: {error}".strip()
    if not is_lack_of_memory(error):
        return FrameworkError(f"{backend} failed in {doing}. {said}")
    try:
        from unidev.calls.out_of_memory import out_of_memory

        return out_of_memory(said, backend, doing, device, made)
    except Exception:  # noqa: BLE001  whatever memory is left, this error has to come
        return OutOfDeviceMemoryError(f"{backend} has no memory left for {doing}. {said}")


def is_lack_of_memory(error: Exception) -> bool:
    """Whether that is how a framework says that there is no memory left."""
    words = f"{type(error).__name__}: {error}".lower().replace("_", "")
    return isinstance(error, MemoryError) or any(sign in words for sign in _EXHAUSTED)
