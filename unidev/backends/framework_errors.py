"""Translates a framework's errors into unidev's."""

from __future__ import annotations

import math

from unidev.backends.loading import loaded_backends
from unidev.contract.dtypes import portable_name
from unidev.errors import FrameworkError, OutOfDeviceMemoryError, UnsupportedDtypeError
from unidev.system.wording import error_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from unidev.contract.backend import Backend
    from unidev.device import Device

    Making = tuple[tuple[int, ...], object]
    Doing = tuple[str] | tuple[str, Device] | tuple[str, Device, Making]
    """The work in progress, its device, and the shape and dtype of the new tensor."""

_EXHAUSTED = (
    "out of memory",  # CUDA, ROCm, Metal and XPU
    "out of device memory", "out of host memory",  # Level Zero and SYCL
    "error memory allocation",  # CUDA's and HIP's own names of that error
    "alloc failed", "resource allocation failed",  # cuBLAS, cuDNN, cuSOLVER
    "device allocation failed", "host allocation failed",  # cuDNN 9
)  # fmt: skip
"""Parts of the drivers' and vendors' libraries' messages; each backend adds its framework's."""
_ADDRESSES = 2**57
"""As many bytes as 64-bit processors address, at most."""


def framework_error(
    error: Exception,
    backend: str,
    doing: str,
    device: Device | None = None,
    made: Making | None = None,
) -> FrameworkError | UnsupportedDtypeError:
    """The error to raise for one that the framework raised while ``doing`` something.

    ``doing`` completes "while …": "making a tensor". ``made`` is the shape and dtype of the tensor
    that was being made, if any: the error may be that the device does not carry the dtype. One that
    no memory can hold is a lack of memory, whatever the framework says of sizes beyond 64 bits.
    """
    cause = error_text(error).strip()
    known = [] if made is None else [size for size in made[0] if isinstance(size, int)]
    if not (math.prod(known) >= _ADDRESSES or is_lack_of_memory(error, backend)):
        if device is not None and made is not None:
            refusal = _refused_dtype(made[1], device, loaded_backends.get(backend), cause)
            if refusal is not None:
                return refusal
        return FrameworkError(f"{backend} failed while {doing}. {cause}")
    try:
        from unidev.backends.out_of_memory import out_of_memory

        return out_of_memory(cause, backend, doing, device, made)
    except Exception:  # noqa: BLE001  however little memory is left, this error must be raised
        return OutOfDeviceMemoryError(f"{backend} ran out of memory while {doing}. {cause}")


def _refused_dtype(
    dtype: object, device: Device, backend: Backend | None, cause: str
) -> UnsupportedDtypeError | None:
    name = None if backend is None else portable_name(dtype, backend)
    if backend is None or name is None:
        return None
    carried = backend.dtypes_on(device)
    if name in carried:
        return None
    return UnsupportedDtypeError(
        f"{device} has no {name}; it has {', '.join(carried)}. Convert the tensor before it goes "
        f"there: unidev.array(x, dtype='float32'). {cause}"
    )


def is_lack_of_memory(error: Exception, backend: str) -> bool:
    """Whether this is an error of ``backend``'s framework for running out of memory."""
    if isinstance(error, MemoryError):
        return True
    loaded = loaded_backends.get(backend)
    own = () if loaded is None else loaded.out_of_memory_words
    message = _joined(error_text(error))
    return any(_joined(words) in message for words in (*_EXHAUSTED, *own))


def _joined(words: str) -> str:
    """``OUT_OF_MEMORY``, ``OutOfMemory`` and ``out of memory``, all as ``outofmemory``."""
    return words.lower().replace("_", "").replace(" ", "")
