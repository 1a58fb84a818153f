"""``Abilities``: what a backend may have, each declared with the reason why it may be missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unidev.contract.optional import declinable, optional

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from unidev.contract.autograd import Autograd
    from unidev.contract.collectives import Collectives
    from unidev.contract.data_loaders import Loader
    from unidev.contract.estimating import Estimator
    from unidev.contract.group_engine import GroupEngine
    from unidev.contract.installation import Installation
    from unidev.contract.interop import Interop
    from unidev.contract.layers import Functions, Layers
    from unidev.contract.memory import Extent, Memory, PeakCounter
    from unidev.contract.models import Models
    from unidev.contract.probe import Probe
    from unidev.contract.tracer import Tracer
    from unidev.device import Device

    Tensor = Any


class Abilities:
    """The optional abilities of a :class:`Backend`, which derives from this class."""

    probe: Probe = optional(
        "can be judged by the conformance suite",
        "the backend has no probe for the conformance suite",
        contains="unidev.contract.probe:Probe",
    )
    """The conformance suite's ``Probe``: ``unidev/contract/probe.py``. A part, like those below."""

    native_scope: Callable[[Device], AbstractContextManager[Any]] = optional(
        "`with device:` applies to the framework's own new tensors",
        "the framework has no default device per thread",
    )
    """A new scope in which the framework's own new tensors go to the device, in this thread only.

    unidev leaves scopes innermost first: where blocks end in another order, it leaves those above
    the one that ends, and enters new ones for them.

    If the framework has one default for all asynchronous tasks of a thread, unidev refuses a scope
    inside another task's. A scope with a true attribute ``follows_tasks`` applies only to the task
    that enters it and to tasks created inside it; such scopes end in any order.
    """

    extents: Callable[[Tensor], Sequence[Extent]] = optional(
        "addresses and sizes of a tensor's memory", "the backend does not report addresses"
    )
    """The complete storage behind a tensor, with that of its indices and its mask.

    For a view of a mutable tensor, the storage that it is a view of, at any depth. Empty while a
    tensor is pending: it has no memory yet.
    """

    @declinable("a copy lets its source's memory go")
    def releases_source(self) -> bool:
        """Whether the memory of a copy's source comes back while the copy lives: it does.

        ``unsupported`` where tensors do not say whether they record, and any may be asked for its
        gradient: a copy then keeps what it leads to. That of integers comes back nevertheless.
        """
        return True

    memory: Callable[[Device], Memory] = optional(
        "`memory(device)`: bytes used and free", "the backend has no allocator statistics"
    )
    """A device's used, free and total memory. May create the device's context.

    Used is what tensors on that device use, if the framework counts it (``peaks``); else, it may
    include what an allocator keeps for the next tensors.
    """

    pinned: Callable[[Tensor], Tensor] = optional(
        "`pin`: page-locked host memory", "the backend cannot pin host memory"
    )
    """Behind ``pin``: ``x`` itself if it is in page-locked memory already, else a copy there.

    ``x`` is on the CPU. Shape, dtype, values and gradients as for ``copy_to``.
    """

    # Parts, each in a module of its own: ``models = part("unidev_mine.models:MyModels")``.

    models: Models = optional(
        "models: `place`, `parameters`, checkpoints",
        "the backend does not look into models",
        contains="unidev.contract.models:Models",
    )
    """Placing models, their parameters, and checkpoints: ``unidev/contract/models.py``."""

    autograd: Autograd = optional(
        "`value_and_grad`, `sgd`, `no_grad`",
        "the backend has no automatic differentiation",
        contains="unidev.contract.autograd:Autograd",
    )
    """Gradients: ``unidev/contract/autograd.py``."""

    collectives: Collectives = optional(
        "`split_batch`, `all_reduce`: several devices",
        "the backend does not reduce over devices",
        contains="unidev.contract.collectives:Collectives",
    )
    """Behind ``split_batch``, ``all_reduce`` and the like: ``unidev/contract/collectives.py``."""

    group_engine: GroupEngine = optional(
        "`run`: the framework's own collectives between processes",
        "the framework's own collectives are not connected",
    )
    """Behind ``unidev.run``: ``unidev/contract/group_engine.py``. Without it, through the host."""

    interop: Interop = optional(
        "`convert`: memory shared with other frameworks",
        "the backend does not share memory with other frameworks",
    )
    """Behind ``convert``: ``unidev/contract/interop.py``. Without it, through the host."""

    layers: Layers = optional("`unidev.nn`: layers", "the backend has no layers")
    """Behind ``unidev.nn``: ``unidev/contract/layers.py``."""

    tracer: Tracer = optional(
        "the framework's own transfers: `trace_transfers`, `transfer_guard`",
        "the backend does not see the framework's own transfers",
    )
    """Reports them: ``unidev/contract/tracer.py``."""

    functions: Functions = optional(
        "`unidev.nn.functional`", "the backend has no neural-network functions"
    )
    """Behind ``unidev.nn.functional``: ``unidev/contract/layers.py``."""

    installation: Installation = optional(
        "`unidev doctor`: what the framework was built for",
        "the backend does not report what the framework was built for",
    )
    """Read by ``unidev doctor``: ``unidev/contract/installation.py``."""

    peaks: PeakCounter = optional(
        "`track_memory(device)`: peak memory", "the framework does not count peak memory"
    )
    """Behind ``track_memory``: ``unidev/contract/memory.py``."""

    estimator: Estimator = optional(
        "`estimate_memory(step, ...)`", "the backend cannot run a step on likenesses of a model"
    )
    """Behind ``estimate_memory``: ``unidev/contract/estimating.py``."""

    loader: Loader = optional(
        "`group().shard`: the framework's loaders", "the framework's loaders are not connected"
    )
    """Behind ``group().shard``: ``contract/data_loaders.py``. Without it, arrays and sequences."""
