"""The contract: all that a backend has to do, and all that it may do.

A plugin is a module (or object) with one hook, ``unidev_register_backend`` (see ``hookspecs``),
which returns a :class:`BackendSpec`. The spec imports no framework; it names the :class:`Backend`
subclass, whose module does, once. unidev's own four framework backends have nothing beyond this.

What every backend must do are the abstract methods of :class:`Backend`. What it may do besides has
a default that is :func:`unsupported`: a backend that can, overrides it; one that cannot, leaves it,
or says ``memory = unsupported("why", "https://…")`` in its own words. The table of capabilities is
made by reading these attributes; there is no second list.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from unidev.contract.device import Device
from unidev.contract.optional import Unsupported, part, unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    import numpy as np

    from unidev.calls.driver_memory import DriverMemory
    from unidev.contract.autograd import Autograd
    from unidev.contract.installation import Installation
    from unidev.contract.layers import Functions, Layers
    from unidev.contract.models import Models
    from unidev.contract.peak_memory import PeakCounter
    from unidev.contract.probe import Probe
    from unidev.contract.tracer import Tracer

    Tensor = Any
    """The framework's own tensor: unidev wraps none."""
    Dtype = Any
    """The framework's own dtype."""
    Array = np.ndarray[Any, Any]

__all__ = [
    "CONTRACT_VERSION",
    "Backend",
    "BackendSpec",
    "Extent",
    "Memory",
    "Simulator",
    "Unsupported",
    "part",
    "unsupported",
]

CONTRACT_VERSION = 1
"""A spec states the version it was written for; another one is refused, with both numbers."""


class Memory(NamedTuple):
    """What a device has, in bytes, by the framework's count."""

    used_bytes: int
    free_bytes: int
    total_bytes: int

    @property
    def driver(self) -> DriverMemory | None:
        """The driver's count, other processes' share included; None: no driver tells."""
        return None


class Extent(NamedTuple):
    """A stretch of memory: the address of its first byte, and its length in bytes."""

    address: int
    nbytes: int


class Simulator(ABC):
    """Gives a framework devices that the machine does not have."""

    @abstractmethod
    def start(self, count: int) -> None:
        """Arrange for ``count`` simulated GPUs (1 to 64) in this process.

        Called at most once, before the backend's class is loaded; may import the framework.

        Raises:
            SimulationError: too late, or something to build with is missing; says what to do.
        """


@dataclass(frozen=True, kw_only=True)
class BackendSpec:
    """What a plugin registers. Making one must import no framework."""

    name: str
    """What ``UNIDEV_BACKEND`` and ``use_backend`` call it, such as ``torch``."""
    contract_version: int
    """The ``CONTRACT_VERSION`` that the plugin was written for, as a literal number."""
    framework: str
    """The top-level name by which the framework is imported; its types are this backend's."""
    install: str
    """The command that installs the framework."""
    load: str | Callable[[], type[Backend]]
    """The class, as ``module:name``; its module imports the framework, once, when first needed.

    Or a function that imports the framework and returns the class.
    """
    simulator: str | Callable[[], Simulator] = unsupported("the backend has no simulator")  # noqa: RUF009  immutable
    """The class of the simulator, as ``module:name`` or itself, or a function that makes one.

    Imports no framework before ``start``.
    """
    namespaces: tuple[str, ...] = ()
    """More top-level names whose types are this backend's (``keras`` for TensorFlow)."""


class Backend(ABC):
    """One framework's devices and tensors, in unidev's words.

    unidev checks arguments before it calls a backend: a :class:`Device` that arrives here is this
    backend's own and is there, a tensor is an instance of ``tensor_types``, a shape is a tuple of
    non-negative ints and a dtype is the framework's own. What the framework itself raises of
    ``framework_errors`` reaches the user as :class:`FrameworkError`.

    Of a tensor, unidev itself reads ``x.shape`` (an iterable of ints) and ``x.dtype`` (the
    framework's own, as in ``dtypes``); all else it asks the backend.
    """

    kinds: tuple[str, ...] = ("cpu", "gpu")
    """Kinds of device that there can be, in the order in which they are listed.

    A backend without accelerators may leave ``gpu`` out; asking for one is then "not there".
    """
    framework_errors: tuple[type[Exception], ...] = (
        RuntimeError, ValueError, TypeError, MemoryError,
    )  # fmt: skip
    """What the framework raises when it fails."""
    model_types: tuple[type, ...] = ()
    """Models, optimizers and the like, which the transfer verbs refuse."""

    def __init__(self, spec: BackendSpec, simulated_count: int) -> None:
        """Made once in a process. ``simulated_count`` is 0 on the machine's own devices."""
        self.spec = spec
        self.name = spec.name
        self.simulated_count = simulated_count
        self.cpu = self.device("cpu", 0)

    def device(self, kind: str, index: int) -> Device:
        """The one :class:`Device` of that kind and index; does not ask whether it is there."""
        return Device(self.name, kind, index)

    # -- what every backend must say and do ------------------------------------------------------

    @property
    @abstractmethod
    def tensor_types(self) -> tuple[type, ...]:
        """Classes whose instances, subclasses' included, are this framework's tensors."""

    @property
    @abstractmethod
    def dtypes(self) -> Mapping[str, Dtype]:
        """The framework's dtypes by NumPy's name for them (``bfloat16`` where it has that)."""

    @abstractmethod
    def device_count(self, kind: str) -> int:
        """How many devices of ``kind`` there are now; 0 of a kind that the framework has not.

        Creates no GPU context and allocates no device memory. Caches only what the framework has
        itself fixed for the life of the process.
        """

    @abstractmethod
    def native_device(self, kind: str, index: int) -> Any:
        """The framework's own object for a device that is there; kept in ``Device.native``."""

    @abstractmethod
    def parse_native(self, spec: object) -> tuple[str, int] | None:
        """Kind and index that the framework's own spelling or device object means.

        ``spec`` is a str that is not unidev's spelling, or an object. ``None`` when it means no
        device to this framework. An index out of range is given as it stands, never clamped.
        """

    @abstractmethod
    def device_of(self, x: Tensor) -> Device:
        """The device that holds ``x``. On the hot path of ``as_in_device``: well under 1 µs.

        Raises:
            UnsupportedOperation: ``x`` is symbolic, or lies on several devices.
            DeletedTensorError: its memory is gone.
        """

    @abstractmethod
    def copy_to(self, x: Tensor, device: Device, non_blocking: bool) -> Tensor:
        """``x`` in newly allocated memory on ``device``, sharing no byte with ``x``.

        Also when ``x`` is already there. Values to the bit, dtype and shape are kept, and the
        gradient reaches ``x`` wherever the framework has autograd. ``non_blocking`` may return
        before the bytes have arrived, never before ``x`` may be changed or dropped safely.
        """

    @abstractmethod
    def from_numpy(self, array: Array, dtype: Dtype, device: Device) -> Tensor:
        """A tensor in new memory on ``device``: the values of ``array``, converted to ``dtype``.

        ``array`` is in native byte order, of any strides, alignment and writability, and of a
        dtype for which ``dtypes`` has a name.
        """

    @abstractmethod
    def to_numpy(self, x: Tensor) -> Array:
        """A new, writable array with the values of ``x``, from any device, cut off from autograd.

        Raises:
            UnsupportedDtypeError: NumPy has no such dtype.
        """

    @abstractmethod
    def empty(self, shape: tuple[int, ...], dtype: Dtype, device: Device) -> Tensor:
        """A tensor of whatever was there (zeros, where a framework knows no other)."""

    @abstractmethod
    def full(self, shape: tuple[int, ...], value: Any, dtype: Dtype, device: Device) -> Tensor:
        """A tensor filled with one Python number, made on the device itself."""

    @abstractmethod
    def synchronize(self, device: Device) -> None:
        """Wait until all work queued on ``device`` is done."""

    # -- what a backend may do better than this --------------------------------------------------

    def zeros(self, shape: tuple[int, ...], dtype: Dtype, device: Device) -> Tensor:
        """A tensor of zeros, made on the device itself."""
        return self.full(shape, 0, dtype, device)

    def copy_if_there(self, x: Tensor, device: Device) -> Tensor | None:
        """What ``copy_to`` gives if ``x`` is on ``device`` already; else, or in doubt, None.

        On the hot path: for a backend that answers both questions in fewer steps. ``device`` may
        be anything here, a string or another backend's; what it raises sends unidev the long way.
        """
        return self.copy_to(x, device, False) if self.device_of(x) is device else None

    def cast(self, x: Tensor, dtype: Dtype, device: Device) -> Tensor:
        """``x`` as another dtype in new memory on ``device``; need not be differentiable."""
        return self.from_numpy(self.to_numpy(x), dtype, device)

    def native_name(self, kind: str, index: int) -> str:
        """The framework's own spelling of a device, such as ``cuda:1``."""
        return str(self.native_device(kind, index))

    def hardware_name(self, kind: str, index: int) -> str:
        """The hardware's name, such as ``NVIDIA H200``; the native name where nobody knows it."""
        return self.native_name(kind, index)

    # -- what a backend may do besides ------------------------------------------------------------

    probe: Probe = unsupported("the backend gives the conformance suite nothing to probe it with")
    """What the conformance suite needs: ``unidev/contract/probe.py``. A part, as those below."""

    native_scope: Callable[[Device], AbstractContextManager[Any]] = unsupported(
        "the framework has no default device of one thread"
    )
    """Makes the framework's own new tensors land on the device, in this thread alone."""

    extents: Callable[[Tensor], Sequence[Extent]] = unsupported("the backend tells no addresses")
    """The whole storage behind a tensor: of a view, that of what it is a view of."""

    memory: Callable[[Device], Memory] = unsupported("the backend has no allocator statistics")
    """What a device has in use, free and in all. May create the device's context."""

    pinned: Callable[[Tensor], Tensor] = unsupported("the backend cannot pin the host's memory")
    """A copy of a tensor of the CPU in page-locked memory, which reaches a GPU faster."""

    # Parts, each in a module of its own: ``models = part("unidev_mine.models:MyModels")``.

    models: Models = unsupported("the backend does not look into models")
    """Placing models, their parameters, and checkpoints: ``unidev/contract/models.py``."""

    autograd: Autograd = unsupported("the backend has no automatic differentiation")
    """Gradients: ``unidev/contract/autograd.py``."""

    layers: Layers = unsupported("the backend has no layers")
    """Behind ``unidev.nn``: ``unidev/contract/layers.py``."""

    tracer: Tracer = unsupported("the backend does not see the framework's own transfers")
    """Tells them: ``unidev/contract/tracer.py``."""

    functions: Functions = unsupported("the backend has no functions of neural networks")
    """Behind ``unidev.nn.functional``: ``unidev/contract/layers.py``."""

    installation: Installation = unsupported("nobody says what the framework was built for")
    """What ``unidev doctor`` asks: ``unidev/contract/installation.py``."""

    peaks: PeakCounter = unsupported("the framework does not count the most memory that was in use")
    """Behind ``track_memory``: ``unidev/contract/peak_memory.py``."""
