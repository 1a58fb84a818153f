"""``Probe``: the part of the contract that only the conformance suite uses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

from unidev.contract.optional import BackendPart, declinable, optional

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from unidev.contract.backend import Extent
    from unidev.contract.hardware_probe import HardwareProbe
    from unidev.contract.layers import Array, Tensor
    from unidev.contract.training_probe import AutogradProbe, ModelProbe
    from unidev.device import Device
    from unidev.values import PlannedTransfer

    Contained = tuple[Any, Callable[[Any], Sequence[Tensor]]]
    """A container, and the function that returns all tensors in one of that kind."""


class TransferExample(NamedTuple):
    """A call of the framework, and the transfers that a tracer reports while it runs, in order."""

    call: Callable[[], object]
    transfers: Sequence[PlannedTransfer]
    """Empty if nothing moves between devices. An empty ``operation`` stands for any name."""


class Probe(BackendPart, ABC):
    """Access to a backend for the conformance suite alone, through the framework's *own* calls.

    It must not use the backend's methods (except where a default does), because the suite judges
    them by it. The suite calibrates it before each run, which exposes a probe that misreports.
    """

    @abstractmethod
    def make(self, array: Array, device: Device) -> Tensor:
        """A tensor with the values and dtype of ``array``, in new memory on ``device``.

        ``array`` has been read when this returns, whatever its size and alignment.
        """

    @abstractmethod
    def read(self, x: Tensor) -> bytes:
        """The bytes of the elements in C order, whatever the strides and dtype."""

    @abstractmethod
    def same_memory(self, x: Tensor) -> Tensor:
        """Another tensor object that shares all memory of ``x``, elements in the same order.

        A view, or, if the framework has none, another handle of the same buffer.
        """

    @abstractmethod
    def views(self, x: Tensor) -> Mapping[str, Tensor]:
        """A matrix ``transposed``, ``sliced`` (``[1:, ::2]``) and ``broadcast`` (``(3, *shape)``).

        These are views if the framework has views; else new tensors with these elements.
        """

    def more_views(self, x: Tensor) -> Mapping[str, Tensor]:  # noqa: ARG002
        """Further layouts of a tensor with four axes, as far as the framework has them.

        ``rows``: ``[1:-1]`` of the first axis, a contiguous part. ``reversed``: ``[::-1]`` of it,
        and ``mirrored`` of the last one, if strides may be negative. ``permuted``: the last axis as
        the second, without a gap in memory, as images with channels last are. By default, none.
        """
        return {}

    def dtype_spellings(self) -> Mapping[str, Sequence[object]]:
        """Further spellings of dtypes, by name, besides those in ``Backend.dtypes``: JAX's types.

        Where there are some, ``Backend.parse_dtype`` reads them.
        """
        return {}

    @abstractmethod
    def global_state(self) -> Mapping[str, object]:
        """The framework's defaults (device, dtype, RNG state, placement policy), comparable.

        States of random generators have ``random`` or ``rng`` in their names: some checks draw.
        """

    def extents(self, x: Tensor) -> Sequence[Extent]:
        """The complete storage behind ``x``; by default the backend's answer, hence calibration.

        Computes ``x`` first, if it is pending.
        """
        return self.backend.extents(x)

    @declinable("allocated bytes can be counted")
    def allocated_bytes(self, device: Device) -> int:
        """Bytes allocated on ``device``; by default the C library's count for host memory.

        If the framework gives memory back late, in threads of its own, poll until the count stays.
        """
        from unidev.system.host_memory import allocated_bytes  # only where pytest is

        return allocated_bytes(device)

    def contexts(self) -> Collection[Device]:
        """The GPUs on which this process has a context; by default, as CUDA's driver reports it.

        Must create none. Called only in processes of the suite's own: it may prevent a later fork
        from using the GPUs. Not called where GPUs are simulated.

        Raises:
            UnsupportedOperation: nothing reports it.
        """
        from unidev.system.cuda import indices_with_context

        gpus = self.backend.device_count("gpu")
        return [self.backend.device("gpu", i) for i in indices_with_context() if i < gpus]

    def specials(self, device: Device) -> Mapping[str, Tensor]:  # noqa: ARG002
        """New tensors on ``device`` of the framework's further kinds, each under a name of its own.

        Name here whatever ``make`` and the views do not give: variables and parameters (called so),
        strings, ragged, sparse, quantized, masked and read-only ones, lazily conjugated ones, other
        byte orders, those on a "mapped file" (called so, and writable), dtypes that ``dtypes``
        lacks. ``read`` and ``extents`` must cover each of their parts, such as indices and masks.
        ``copy_to`` on their own device must work; to move or to read one may be refused.
        """
        return {}

    def references(self, device: Device) -> Mapping[str, Tensor]:  # noqa: ARG002
        """Tensors on ``device`` that refer to memory outside of them: to objects, to variables.

        The backend must refuse to copy and to read them.
        """
        return {}

    def containers(self, device: Device) -> Mapping[str, Contained]:  # noqa: ARG002
        """New objects of the framework's own containers, filled with tensors on ``device``.

        Packed sequences, results with several fields, arrays of tensors. Each comes with a function
        that returns all tensors in a container of that kind, in a fixed order.
        """
        return {}

    def transfers(self, gpu: Device) -> Iterable[TransferExample]:  # noqa: ARG002
        """New examples of calls that read from ``gpu``, send to it or move operands there.

        Every spelling that the framework has, with the bytes that its kernels would move; and calls
        beside them that move nothing. The tracer must report these transfers and no others.
        """
        return ()

    write: Callable[[Tensor, float], None] = optional(
        "tensors can be written to", "the framework's tensors are immutable"
    )
    """Overwrites every element of a tensor with one value, in place."""

    gradient: Callable[[Callable[[Tensor], Tensor], Array, Device], Array] = optional(
        "gradients, also through `copy_to`", "the framework has no autograd"
    )
    """``gradient(function, array, device)``: the gradient of the sum of ``function(x)`` with
    respect to ``x``, a differentiable tensor made from ``array`` on ``device``.

    Of a complex result, both parts of each element are added to the sum. Must take float32; raises
    ``UnsupportedOperation`` for a dtype with respect to which the framework does not differentiate.
    """

    elsewhere: Callable[[], Mapping[str, tuple[Tensor, Sequence[str]]]] = optional(
        "tensors on several devices, or on none",
        "the probe makes no tensor that is not on one device",
    )
    """Tensors that ``Backend.device_of`` refuses, though this process can read all of them.

    Sharded over several devices, replicated, in a GPU's pinned host memory; each with the words of
    the refusal for where it is. ``read`` and ``extents`` cover each part. Empty for one device.
    """

    deleted: Callable[[Device], Tensor] = optional(
        "tensors that the framework deletes while in use",
        "the framework does not delete a tensor that is in use",
    )
    """A tensor on the device whose memory was deleted or donated."""

    cut_short: Callable[[Device], Mapping[str, Tensor]] = optional(
        "live tensors whose memory has been resized to less than they need",
        "the framework never shortens the memory of a live tensor",
    )
    """Tensors on the device whose memory ends before their last element, but is not empty.

    One for each layout in memory: from its beginning, from an offset on, with strides, in parts.
    """

    unbound: Callable[[Device], Tensor] = optional(
        "tensors that are computed with wherever the others are",
        "the backend's probe makes no tensor that is computed with elsewhere",
    )
    """A float32 tensor on the device that takes part in computations on others, until it is placed
    or copied."""

    loader: Callable[[Array], Iterable[Tensor]] = optional(
        "loaders that shuffle, which the conformance suite reads",
        "the backend's probe makes no loader that shuffles",
    )
    """``loader(array)``: the framework's own, which gives its rows in an order that it draws."""

    loaders: Callable[[Array, int], Mapping[str, Iterable[Any]]] = optional(
        "loaders of batches, which the conformance suite shares out",
        "the backend's probe makes no loader of batches",
    )
    """``loaders(numbers, size)``: the framework's own, that make batches of ``size`` numbers.

    By name: "in order", "dropping" a last one that has fewer, "shuffled" (if it can be, without a
    seed); each by a function of the user's, that makes ``{"x": numbers}``. Those of which the names
    begin with "refused" have an order of their own: by a sampler, with replacement, in part."""

    read_out: Callable[[Tensor], object] = optional(
        "transfers that the conformance suite can judge",
        "the backend has no tracer to test with it",
    )
    """Reads a tensor's values into Python, by a call of the framework that the tracer records."""

    current: Callable[[], Mapping[str, object]] = optional(
        "a current device, which the conformance suite can watch",
        "the framework has no current device or stream besides its scopes",
    )
    """The device and the streams that work goes to which names none, in this thread; comparable."""

    side_stream: Callable[[Device], AbstractContextManager[object]] = optional(
        "streams, which the conformance suite can use", "the framework has no streams"
    )
    """Inside ``with probe.side_stream(gpu):``, it and a new stream of it are this thread's."""

    compiles_each_shape = False
    """Whether the framework compiles for each new shape, also to copy: few shapes are drawn."""

    compile: Callable[[Callable[..., Any]], Callable[..., Any]] = optional(
        "functions compiled by the user, which the conformance suite calls",
        "the framework does not compile functions of tensors",
    )
    """``compile(function)``: the function as the framework's compiler makes it, or runs it.

    Its arguments and results are tensors and nested tuples of them. Use the compiler's quickest
    setting: the suite compiles a few small functions.
    """

    pending: Callable[[Tensor], Tensor] = optional(
        "tensors that the framework has yet to compute", "the framework computes at once"
    )
    """``x + 1``, which the framework has not computed yet; ``is_pending`` of it is True."""

    def is_pending(self, x: Tensor) -> bool:  # noqa: ARG002
        """Whether the framework has yet to compute ``x``. Computes nothing."""
        return False

    hardware: HardwareProbe | None = None
    """For the profile ``hardware``: witnesses and samples of real GPUs, a ``part``; or none."""

    # For the profile ``train``; see ``unidev/contract/training_probe.py``.

    autograd: AutogradProbe = optional(
        "gradients that the conformance suite can judge",
        "the framework has no autograd",
        contains="unidev.contract.training_probe:AutogradProbe",
    )
    """Gradients in more detail."""

    models: ModelProbe = optional(
        "models that the conformance suite can judge",
        "the backend has no sample models",
        contains="unidev.contract.training_probe:ModelProbe",
    )
    """Sample models and optimizers."""
