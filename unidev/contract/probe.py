"""``Probe``: the part of the contract that only the conformance suite needs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from unidev.contract.backend import unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np

    from unidev.contract.backend import Backend, Extent
    from unidev.contract.device import Device
    from unidev.contract.training_probe import AutogradProbe, ModelProbe

    Tensor = Any
    Array = np.ndarray[Any, Any]


class Probe(ABC):
    """What only the conformance suite needs of a backend, by the framework's *own* calls.

    It must not go through the backend's methods (except where a default says so): it is what they
    are judged by. Before a run it is calibrated, so that one that lies is found out.
    """

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    @abstractmethod
    def make(self, array: Array, device: Device) -> Tensor:
        """A tensor of these values and the dtype of that name, in new memory on ``device``."""

    @abstractmethod
    def read(self, x: Tensor) -> bytes:
        """The elements' bytes in C order, whatever the strides and the dtype."""

    @abstractmethod
    def same_memory(self, x: Tensor) -> Tensor:
        """Another tensor object on the very memory of ``x``, elements in the same order."""

    @abstractmethod
    def views(self, x: Tensor) -> Mapping[str, Tensor]:
        """A matrix ``transposed``, ``sliced`` (``[1:, ::2]``), ``broadcast`` (``(3, *shape)``).

        Views where the framework has views.
        """

    @abstractmethod
    def global_state(self) -> Mapping[str, object]:
        """The framework's defaults: device, dtype, RNG state, placement policy. Comparable."""

    def extents(self, x: Tensor) -> Sequence[Extent]:
        """The whole storage behind ``x``; the backend's own by default, hence the calibration."""
        return self.backend.extents(x)

    def allocated_bytes(self, device: Device) -> int:
        """Bytes allocated on ``device``; by default the C library's count for host memory."""
        from unidev.hardware.host_memory import allocated_bytes  # only where pytest is

        return allocated_bytes(device)

    def specials(self, device: Device) -> Mapping[str, Tensor]:  # noqa: ARG002
        """More kinds of tensor that must copy: variables, parameters, strings, ragged, sparse."""
        return {}

    write: Callable[[Tensor, float], None] = unsupported("the framework's tensors are immutable")
    """Overwrites every element of a tensor in place with one value."""

    gradient: Callable[[Callable[[Tensor], Tensor], Array, Device], Array] = unsupported(
        "the framework has no autograd"
    )
    """``gradient(function, array, device)``: of the sum of ``function(x)`` with regard to ``x``, a
    differentiable tensor made of ``array`` on ``device``."""

    deleted: Callable[[Device], Tensor] = unsupported(
        "the framework does not delete a tensor that is in use"
    )
    """A tensor on the device whose memory was deleted or donated."""

    read_out: Callable[[Tensor], object] = unsupported(
        "the backend has no tracer to be judged by it"
    )
    """Reads the values of a tensor into Python, by a framework's call that the tracer records."""

    # For the profile ``train``; see ``unidev/contract/training_probe.py``.

    autograd: AutogradProbe = unsupported("the framework has no autograd")
    """Gradients in more detail."""

    models: ModelProbe = unsupported("the backend has no models to be judged by")
    """Sample models and optimizers."""
