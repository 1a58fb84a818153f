"""``Estimator``: the part of the contract for the memory of a training step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

from unidev.contract.optional import BackendPart
from unidev.errors import InvalidDataError, UnsupportedOperation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from unidev.device import Device


class StepMemory(NamedTuple):
    """The peak memory of a step on ``device``, in bytes."""

    device: Device
    by_kind: Mapping[str, int]
    """The part of each kind, such as ``parameters``, in the peak, which is their sum."""


class Estimator(BackendPart, ABC):
    """Runs a step on likenesses of its arguments, and counts the memory of their tensors."""

    takes_no_memory = False
    """Whether the likenesses have shapes and dtypes only, so that any batch can be tried."""

    @abstractmethod
    def run(
        self,
        step: Callable[..., object],
        arguments: Sequence[Any],
        leaves: Sequence[Any],
        shapes: Mapping[int, tuple[int, ...]],
    ) -> StepMemory:
        """The peak of ``step(*arguments)``, run twice, since optimizers make their state at first.

        Works on likenesses of the tensors, models and optimizers in ``arguments``, which it does
        not change. ``leaves`` are those of ``arguments`` and of the containers among them, as far
        as they can be opened. ``shapes`` has other shapes for some of their tensors, by ``id``.

        Raises:
            UnsupportedOperation: the step cannot be run in this way; says what in it.
            InvalidDataError: it uses a tensor that is not among its arguments.
        """

    def counted_device(self, tensors: Iterable[Any]) -> Device:
        """The device of all of ``tensors``, whose memory is counted.

        Raises:
            InvalidDataError: there are none.
            UnsupportedOperation: they are on several devices.
        """
        devices = list(dict.fromkeys(map(self.backend.device_of, tensors)))
        if not devices:
            raise InvalidDataError(
                "estimate_memory found neither a parameter nor a tensor among the step's "
                "arguments: pass them after the step, as in estimate_memory(step, net, optimizer, "
                "x, y)."
            )
        if len(devices) > 1:
            raise UnsupportedOperation(
                "estimate_memory of a model on several devices",
                f"it counts one device, and these are {', '.join(map(str, devices))}",
            )
        return devices[0]
