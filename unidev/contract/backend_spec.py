"""``BackendSpec``: what a plugin registers; and the simulator that it may name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from unidev.contract.optional import unsupported
from unidev.system.settings import (
    SIMULATE_AS,
    SIMULATE_COMPILE,
    SIMULATE_LATE,
    SIMULATE_LIKE,
    SIMULATE_MEMORY,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from unidev.contract.backend import Backend
    from unidev.contract.group_engine import GroupSetting
    from unidev.contract.launcher import Forks

_POOR = {"no_float64": ("float64", "complex128"), "no_int64": ("int64", "uint64")}
CONTRACT_VERSION = 3
"""A spec states the version it was written for."""
ADAPTED_VERSION = 2
"""The one before, which works as well, with a ``DeprecationWarning``; any other is refused."""


@dataclass(frozen=True, kw_only=True)
class SimulatedGpus:
    """The simulated GPUs that the user requests, by ``UNIDEV_SIMULATE`` and the like."""

    count: int
    """1 to 64."""
    name: str | None = None
    """``UNIDEV_SIMULATE_AS``: the framework's name for a real GPU, such as ``cuda``."""
    memory_bytes: int | None = None
    """``UNIDEV_SIMULATE_MEMORY``: the memory of each; without it, the host's."""
    like: str | None = None
    """``UNIDEV_SIMULATE_LIKE``: a model, such as ``H100``; or ``no_float64``, ``no_int64``."""
    compile: str | None = None
    """``UNIDEV_SIMULATE_COMPILE``: what replaces the framework's compiler for GPUs, if anything."""
    late: str | None = None
    """``UNIDEV_SIMULATE_LATE``: ``1``, ``report`` or a ``.jsonl`` file for GPUs that lose races."""
    first: int = 0
    """``UNIDEV_SIMULATE_FIRST``: the number of the first, if several workers have some each."""

    @property
    def lacks(self) -> tuple[str, ...]:
        """The dtypes that the GPUs must refuse, in the framework's words, and ``dtypes_on`` lacks.

        By default, a simulator's refusal says that it cannot do that.
        """
        return _POOR.get(self.like or "", ())


@dataclass(frozen=True)
class Race:
    """Two uses of the same memory that nothing orders, on GPUs that lose races."""

    what: str
    """What goes wrong."""
    first: str
    """The file and line that queued the first, empty if it is not known, and its operator."""
    first_stream: str
    second: str
    """The same of the second."""
    second_stream: str
    allocated: str
    """Where the memory was allocated."""
    remedy: str
    """The call that would order them."""
    count: int
    """How often it happened."""

    @property
    def lines(self) -> tuple[str, str, str]:
        """What makes it another race."""
        return self.what, self.first, self.second

    def __str__(self) -> str:
        """Several lines."""
        times = f" ({self.count} times)" if self.count > 1 else ""
        found = [
            f"race: {self.what}{times}",
            f"  first      {self.first}, {self.first_stream}",
            f"  then       {self.second}, {self.second_stream}",
        ]
        if self.allocated:
            found.append(f"  allocated  {self.allocated}")
        return "\n".join([*found, f"  to order them: {self.remedy}"])


class Simulator(ABC):
    """Provides a framework with devices that the machine does not have."""

    @abstractmethod
    def start(self, count: int) -> None:
        """Set up ``count`` simulated GPUs (1 to 64) in this process.

        Called at most once, before the backend's class is loaded. May import the framework.

        Raises:
            SimulationError: it is too late, or a build tool is missing; states what to do.
        """

    def start_as(self, gpus: SimulatedGpus) -> None:
        """Set up what the user requests, in place of :meth:`start`, which is the default.

        Called as :meth:`start` is, with settings for which :meth:`refusal` has no objection.
        """
        self.start(gpus.count)

    def refusal(self, gpus: SimulatedGpus) -> str | None:
        """Why the framework cannot have GPUs with this name, memory or model; None if it can.

        Ends with what to do. Must not import the framework. By default only a number is taken.
        """
        like = "carry every dtype" if gpus.lacks else "do not imitate a model"
        for value, variable, why in (
            (gpus.name, SIMULATE_AS, "have a name of their own"),
            (gpus.memory_bytes, SIMULATE_MEMORY, "share the host's memory, unlimited"),
            (gpus.like, SIMULATE_LIKE, like),
            (gpus.compile, SIMULATE_COMPILE, "need no other compiler"),
            (gpus.late, SIMULATE_LATE, "are never late: they keep no order of streams"),
        ):
            if value is not None:
                return f"its simulated GPUs {why}: unset {variable}"
        return None

    def before_import(self, gpus: SimulatedGpus) -> None:  # noqa: B027  most need none
        """Prepare the import of the framework by a program that knows nothing of unidev.

        Called where ``gpus.name`` is set and :meth:`refusal` has no objection, early in the
        process. Must not import the framework, and costs next to nothing until it is imported.

        Raises:
            SimulationError: it is too late, since the framework is imported already; states what to
                do: import unidev first, or use ``unidev simulate``.
        """

    def races(self) -> Sequence[Race]:
        """All races of this process so far, where ``SimulatedGpus.late`` is set."""
        return ()

    def new_races(self) -> Sequence[str]:
        """Those since the last call, as text; what is told so, no report repeats."""
        return ()

    def free_and_total(self, index: int) -> tuple[int, int] | None:  # noqa: ARG002
        """The free and total bytes of a simulated GPU, read without initialising a runtime.

        None, the default: unidev reads them by ``Backend.memory``. Override it where that starts a
        runtime after which the process may not fork, as CUDA's. Called on the object that was
        started, with the index of unidev's device.
        """
        return None


@dataclass(frozen=True, kw_only=True)
class BackendSpec:
    """A plugin's registration of a backend. Creating one must not import the framework."""

    name: str
    """The backend's name in ``UNIDEV_BACKEND`` and ``use_backend``, such as ``torch``."""
    contract_version: int
    """The ``CONTRACT_VERSION`` that the plugin was written for, as a literal number."""
    framework: str
    """The framework's top-level module; its types belong to this backend."""
    install: str
    """The command that installs the framework."""
    load: str | Callable[[], type[Backend]]
    """The backend class as ``module:name``; its module imports the framework, once, on first use.

    Or a function that imports the framework and returns the class. Or ``unsupported(reason, link)``
    for a framework that no backend can have: whoever selects it gets the reason.
    """
    is_automatic: bool = True
    """Whether it is selected where it is the only framework imported, or installed.

    False for one that is installed beside others, as for tests: then only by its name, or a tensor.
    """
    is_traced: bool = True
    """Whether the backend has a ``tracer``.

    False: a test that counts or forbids transfers is an error at collection, without an import of
    the framework. By default such a test fails when it runs, if there is no tracer.
    """
    simulator: str | Callable[[], Simulator] = unsupported("the backend has no simulator")  # noqa: RUF009  immutable
    """The simulator class, itself or as ``module:name``, or a function that returns a simulator.

    Must not import the framework before ``start``.
    """
    simulator_install: str | None = None
    """The command that installs ``simulator``, if it is a distribution of its own.

    Where its top-level module is missing, simulating is a ``SimulationError`` with this command.
    """
    group_setting: str | Callable[[], GroupSetting] = unsupported(  # noqa: RUF009  immutable
        "the backend's workers need nothing from the launcher"
    )
    """Requirements of the engine between processes on the launcher, given as ``simulator`` is.

    Must not import the framework.
    """
    forks: Forks = unsupported("its plugin does not declare what to import before a fork")  # noqa: RUF009  immutable
    """How workers fork from one process, or ``unsupported(reason)``: then each is a new process."""
    sharing: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Environment variables with which several processes share a GPU.

    For a framework that otherwise takes nearly all of its memory at once. The conformance suite
    sets them for its processes, unless the user has set them; `unidev doctor` recommends them.
    """
    sharing_page: str | None = None
    """The framework's page about ``sharing``, for readers of `unidev doctor`."""
    title: str | None = None
    """The framework's name for readers, such as ``PyTorch``; None: ``framework``."""
    library: str | None = None
    """How the name of a shared library of the framework's begins, such as ``libtorch``.

    By it, `unidev doctor` recognises the framework in another process that holds a GPU's memory.
    """
    namespaces: tuple[str, ...] = ()
    """More top-level modules whose types belong to this backend (``keras`` for TensorFlow).

    Besides the framework's and the plugin's own.
    """
    short_names: tuple[str, ...] = ()
    """Names by which programs import the framework's modules, such as ``tf``.

    A trace shows ``tf.where`` as a function of a module, and ``Tensor.item`` as ``.item()``.
    """
    tested_until: str | None = None
    """The newest release of the framework that was tested, such as ``2.14`` for any 2.14.x.

    A newer one is used all the same, with one :class:`~unidev.errors.UntestedVersionWarning`.
    """

    @property
    def is_adapted(self) -> bool:
        """Whether it was written for ``ADAPTED_VERSION``."""
        return self.contract_version == ADAPTED_VERSION

    @property
    def plugin(self) -> str:
        """The top-level module of ``load``: what it defines belongs to this backend, too."""
        given = self.load if isinstance(self.load, str) else self.load.__module__
        return given.partition(":")[0].partition(".")[0]
