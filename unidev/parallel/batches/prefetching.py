"""``prefetch``: the next batches on the device, while the step is at work on this one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unidev.backends.loading import backend_of_type
from unidev.device import Device
from unidev.errors import InvalidDataError
from unidev.parallel.batches.prefetch_thread import Reader
from unidev.system.arguments import size
from unidev.system.wording import kind_of, shown
from unidev.tensors.checks import check_memory
from unidev.tensors.devices import as_device

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from unidev.tensors.devices import DeviceLike


class Prefetched:
    """The iterable of ``prefetch``: each iteration reads the batches anew, in a thread of its own.

    Attributes:
        batches: what was passed to ``prefetch``.
        device: where the batches go, as it was passed.
        depth: how many batches are read ahead.
        dtype: that of floating-point numbers, as it was passed.
    """

    def __init__(
        self, batches: Iterable[Any], device: DeviceLike, depth: int, dtype: object = None
    ) -> None:
        self.batches = batches
        self.device = device
        self.depth = depth
        self.dtype = dtype

    def __iter__(self) -> Iterator[Any]:
        return Reader(self.batches, self.device, self.depth, self.dtype)

    def __repr__(self) -> str:
        return f"prefetch(<{kind_of(self.batches)}>, {str(self.device)!r}, depth={self.depth})"


class _Sized(Prefetched):
    """The iterable for batches that have a length, for progress bars."""

    batches: Any

    def __len__(self) -> int:
        return len(self.batches)


def prefetch(
    batches: Iterable[Any], device: DeviceLike, *, depth: int = 2, dtype: object = None
) -> Prefetched:
    """The batches of ``batches`` on ``device``, in order, some of them ahead of their use.

    A thread reads the batches, and moves each to the device as by ``device_put``, while the step
    runs::

        for X, y in unidev.prefetch(loader, unidev.try_gpu()):
            loss, gradients = step(net, X, y)

    Args:
        batches: any iterable of arrays, tensors, and nested containers of them: a ``DataLoader``,
            ``tf.data``, ``paddle.io``, gluon, a list, a generator. ``iter(batches)`` is called
            here, in the thread that iterates, so that the workers of a loader are forked there;
            the batches are asked for in the other thread.
        device: as for ``device_put``.
        depth: how many batches may be there before they are used, at least 1. Each takes memory on
            the device.
        dtype: as for ``device_put``.

    Returns:
        An iterable; ``len`` of it is that of ``batches``, if there is one. Every iteration begins
        anew. Every batch is in new memory, also if its tensors were on the device already: a loader
        may overwrite its own while the batch is in use. Leaves that are neither arrays nor tensors
        pass through unchanged.

    The thread has the backend, the ``with device:``, the traces and the guards of the thread that
    iterates, and the framework's settings per thread, such as ``no_grad``. If a loader changes
    these, the change stays in the reading thread. It ends with the iteration: at the last batch, on
    ``break``, on Ctrl-C, and when anything raises. Leaving early waits for the batch that the
    loader is making; after Ctrl-C, and at Python's end, 5 seconds at most.

    Raises:
        InvalidDataError: ``batches`` cannot be iterated, or ``depth`` is not a positive integer.
        DeletedTensorError: ``batches`` is a tensor whose memory is gone.
        UnsupportedOperation: an iteration that began before a fork goes on in the child.

    An error of the loader or of ``device_put`` is raised in the batch's place, with its traceback.

    >>> import numpy as np
    >>> import unidev
    >>> batches = [np.full(2, float(number)) for number in range(3)]
    >>> [x.tolist() for x in unidev.prefetch(batches, "cpu")]
    [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]
    """
    number = size("the depth of prefetch", depth)
    if not hasattr(batches, "__iter__") and not hasattr(batches, "__getitem__"):
        raise InvalidDataError(
            f"prefetch needs batches to iterate over, such as a DataLoader, not {shown(batches)}."
        )
    backend = backend_of_type(type(batches))
    if backend is not None:
        check_memory(backend, [batches])  # else MXNet's len() ends the process
    if type(device) is Device:
        as_device(device)  # is there; of a string, the first batch's framework decides
    return (_Sized if has_length(batches) else Prefetched)(batches, device, number, dtype)


def has_length(batches: Any) -> bool:
    """Whether ``len`` has an answer."""
    try:
        len(batches)
    # As TensorFlow's and PyTorch's for unknown lengths, of 0-d and nested tensors, and a range's.
    except (TypeError, NotImplementedError, AssertionError, OverflowError, RuntimeError):
        return False
    return True
