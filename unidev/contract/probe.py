"""``Probe``: the part of the contract that only the conformance suite uses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from unidev.contract.backend import unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from contextlib import AbstractContextManager

    from unidev.contract.backend import Backend, Extent
    from unidev.contract.device import Device
    from unidev.contract.layers import Array, Tensor
    from unidev.contract.training_probe import AutogradProbe, ModelProbe


class Probe(ABC):
    """What only the conformance suite needs from a backend, through the framework's *own* calls.

    It must not use the backend's methods (except where a default does), because the suite judges
    them by it. The suite calibrates it before each run, which exposes a probe that misreports.
    """

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    @abstractmethod
    def make(self, array: Array, device: Device) -> Tensor:
        """A tensor with the values and dtype of ``array``, in new memory on ``device``."""

    @abstractmethod
    def read(self, x: Tensor) -> bytes:
        """The bytes of the elements in C order, whatever the strides and dtype."""

    @abstractmethod
    def same_memory(self, x: Tensor) -> Tensor:
        """Another tensor object that shares all memory of ``x``, elements in the same order."""

    @abstractmethod
    def views(self, x: Tensor) -> Mapping[str, Tensor]:
        """A matrix ``transposed``, ``sliced`` (``[1:, ::2]``) and ``broadcast`` (``(3, *shape)``).

        These are views if the framework has views.
        """

    def more_views(self, x: Tensor) -> Mapping[str, Tensor]:  # noqa: ARG002
        """Further layouts of a tensor with four axes, as far as the framework has them.

        ``rows``: ``[1:-1]`` of the first axis, a contiguous part. ``reversed``: ``[::-1]`` of it,
        if strides may be negative. ``permuted``: the last axis as the second, without a gap in
        memory, as images with channels last are. By default, none: override it, so that the suite
        copies such tensors, too.
        """
        return {}

    @abstractmethod
    def global_state(self) -> Mapping[str, object]:
        """The framework's defaults (device, dtype, RNG state, placement policy), comparable."""

    def extents(self, x: Tensor) -> Sequence[Extent]:
        """The complete storage behind ``x``; by default the backend's answer, hence calibration."""
        return self.backend.extents(x)

    def allocated_bytes(self, device: Device) -> int:
        """Bytes allocated on ``device``; by default the C library's count for host memory."""
        from unidev.hardware.host_memory import allocated_bytes  # only where pytest is

        return allocated_bytes(device)

    def contexts(self) -> Collection[Device]:
        """The GPUs on which this process has a context; by default, as CUDA's driver reports it.

        Must create none. Called only in processes of the suite's own: it may prevent a later fork
        from using the GPUs. Not called where GPUs are simulated.

        Raises:
            UnsupportedOperation: nothing reports it.
        """
        from unidev.hardware.cuda_contexts import indices_with_context

        gpus = self.backend.device_count("gpu")
        return [self.backend.device("gpu", i) for i in indices_with_context() if i < gpus]

    def specials(self, device: Device) -> Mapping[str, Tensor]:  # noqa: ARG002
        """More kinds of tensor to copy: variables, parameters, strings, ragged, sparse."""
        return {}

    write: Callable[[Tensor, float], None] = unsupported("the framework's tensors are immutable")
    """Overwrites every element of a tensor with one value, in place."""

    gradient: Callable[[Callable[[Tensor], Tensor], Array, Device], Array] = unsupported(
        "the framework has no autograd"
    )
    """``gradient(function, array, device)``: the gradient of the sum of ``function(x)`` with
    respect to ``x``, a differentiable tensor made from ``array`` on ``device``."""

    deleted: Callable[[Device], Tensor] = unsupported(
        "the framework does not delete a tensor that is in use"
    )
    """A tensor on the device whose memory was deleted or donated."""

    cut_short: Callable[[Device], Sequence[Tensor]] = unsupported(
        "the framework does not shorten the memory of a tensor that is in use"
    )
    """Tensors on the device whose memory ends before their last element, but is not empty: a
    matrix, and a view that begins at the end of what is left."""

    read_out: Callable[[Tensor], object] = unsupported("the backend has no tracer to test with it")
    """Reads a tensor's values into Python, by a call of the framework that the tracer records."""

    current: Callable[[], Mapping[str, object]] = unsupported(
        "the framework has no current device or stream besides its scopes"
    )
    """The device and the streams that work goes to which names none, in this thread; comparable."""

    side_stream: Callable[[Device], AbstractContextManager[object]] = unsupported(
        "the framework has no streams"
    )
    """Inside ``with probe.side_stream(gpu):``, that GPU and a new stream of it are the current ones
    of this thread."""

    # For the profile ``train``; see ``unidev/contract/training_probe.py``.

    autograd: AutogradProbe = unsupported("the framework has no autograd")
    """Gradients in more detail."""

    models: ModelProbe = unsupported("the backend has no sample models")
    """Sample models and optimizers."""
