"""``pin``: tensors in page-locked host memory, from which a GPU reads faster."""

from __future__ import annotations

from unidev.backends.boundary import call
from unidev.contract.backend import Unsupported
from unidev.errors import UnsupportedOperation
from unidev.tensors.containers import replace_tensors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    from unidev.contract.backend import Backend

    T = TypeVar("T")


def pin(tree: T, /) -> T:
    """``tree`` with its tensors in page-locked (pinned) host memory.

    A GPU reads pinned memory about twice as fast as ordinary memory, but locking it takes longer
    than a copy, and the system cannot use it for anything else meanwhile: pin what is transferred
    more than once, or what another thread pins ahead of the transfer.

    Args:
        tree: a tensor on the CPU, or a nested container of them. Leaves that neither are nor hold
            tensors pass through unchanged; a tensor that occurs twice is copied once.

    Returns:
        A copy of each tensor in pinned memory, with the same shape, dtype and values, on ``cpu:0``;
        a tensor that is pinned already is returned itself. If all are, so is ``tree``. Gradients
        flow back to the source if the framework has autograd. Blocks until the values are there.

    ``copy_to`` and ``as_in_device`` read pinned memory before they return, also with
    ``non_blocking``, so it may be changed at once. Creates a GPU's context, for which it is locked.

    Raises:
        UnsupportedOperation: the framework does not pin memory, or has no GPU to pin it for; gives
            the reason. It does not return an ordinary copy instead. Or a tensor is on a GPU.
        NotATensorError, ContainerError: as of ``copy_to``.
        OutOfDeviceMemoryError: the host has too little memory that can be locked.

    Semantics: ``x.pin_memory()`` in PyTorch and Paddle. An example::

        if device.kind == "gpu":
            data = unidev.pin(data)
    """
    return replace_tensors(_pinned, tree)


def _pinned(x: Any, backend: Backend) -> Any:
    pinned = backend.pinned
    if isinstance(pinned, Unsupported):
        raise UnsupportedOperation("pin", pinned.reason, pinned.link)
    device = backend.device_of(x)
    if device is not backend.cpu:
        raise UnsupportedOperation(
            f"pinning a tensor on {device}",
            "only the host's memory can be pinned: copy it to the CPU first",
        )
    return call(
        backend, pinned, x,
        doing=lambda: (f"pinning a tensor of shape {tuple(x.shape)}", device),
        operation="pin",
    )  # fmt: skip
