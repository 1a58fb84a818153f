"""What a mutant is, and how one is broken."""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from unidev.contract.backend import BackendSpec
from unidev.contract.hookspecs import hookimpl
from unidev.numpy_backend.simulator import NumpySimulator

if TYPE_CHECKING:
    from collections.abc import Callable

    from unidev.contract.backend import Backend

    Breaks = Callable[[Any], None]
    """Breaks the class that it is given, a fresh subclass of the reference backend."""

F = TypeVar("F", bound="Callable[..., Any]")
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, eq=False)  # pluggy keeps plugins in dicts: compare by `is`
class Mutant:
    """The reference with one thing broken, as a plugin: ``unidev.conformance.mutants:NAME``.

    The backend that it registers is called ``mutant_NAME``. Its arrays are NumPy's own, so NumPy's
    plugin has to be off: ``UNIDEV_DISABLED_PLUGINS=numpy``.
    """

    name: str
    """The function's name."""
    broken: str
    """What is broken, and which real framework does that: the function's docstring."""
    caught_by: tuple[str, ...]
    """Ids of the checks that must catch it."""
    result: str
    """What those checks must come out as."""
    simulated_count: int
    """How many simulated GPUs it takes to see it."""
    profile: str
    """The profile of the checks that it names."""
    breaks: Breaks
    breaks_on_discovery: bool
    """Whether it breaks when its plugin is found, and not when its backend is loaded."""

    @property
    def backend_name(self) -> str:
        """What ``UNIDEV_BACKEND`` calls it."""
        return f"mutant_{self.name}"

    @hookimpl
    def unidev_register_backend(self) -> BackendSpec:
        """As NumPy's plugin does, but for ``load``."""
        if self.breaks_on_discovery:
            self.breaks(None)
        return BackendSpec(
            name=self.backend_name,
            contract_version=1,
            framework="numpy",
            install="pip install numpy",
            load=self.load,
            simulator=NumpySimulator,
            namespaces=("unidev",),
        )

    def load(self) -> type[Backend]:
        """A subclass of the reference backend, broken now: whatever is patched, it is in use."""
        from unidev.numpy_backend.backend import NumpyBackend

        class Broken(NumpyBackend):
            """The reference backend with one thing broken."""

        if not self.breaks_on_discovery:
            self.breaks(Broken)
        return Broken


def mutant(
    *caught_by: str,
    result: str = "fail",
    simulated_count: int = 2,
    profile: str = "tensor",
    on_discovery: bool = False,
) -> Callable[[Breaks], Mutant]:
    """Make a mutant of the function that breaks the backend; its docstring says how."""

    def make(breaks: Breaks) -> Mutant:
        return Mutant(
            name=breaks.__name__,
            broken=" ".join((breaks.__doc__ or "").split()),
            caught_by=caught_by,
            result=result,
            simulated_count=simulated_count,
            profile=profile,
            breaks=breaks,
            breaks_on_discovery=on_discovery,
        )

    return make


def training_mutant(
    *caught_by: str, result: str = "fail", simulated_count: int = 2
) -> Callable[[Breaks], Mutant]:
    """As ``mutant``, of the reference that has training: see ``reference_training``."""

    def make(breaks: Breaks) -> Mutant:
        @functools.wraps(breaks)
        def breaks_training(backend: Any) -> None:
            from unidev.conformance.mutants.reference_training import train

            train(backend)
            breaks(backend)

        return mutant(*caught_by, result=result, simulated_count=simulated_count, profile="train")(
            breaks_training
        )

    return make


def replace(owner: object) -> Callable[[F], F]:
    """Put the decorated function in the place of the attribute of that name of ``owner``."""

    def put(function: F) -> F:
        _check_there(owner, function.__name__)
        setattr(owner, function.__name__, function)
        return function

    return put


def replace_value(owner: object, name: str, value: object) -> None:
    """Put ``value`` in the place of attribute ``name`` of ``owner``."""
    _check_there(owner, name)
    setattr(owner, name, value)


def in_place_of(original: object) -> Callable[[T], T]:
    """Put the decorated function in the place of ``original``, a function (or object) of the core.

    In every module of unidev that has it by name, as if its source had been edited.
    """

    def put(function: T) -> T:
        found = 0
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] == "unidev":
                for attribute, value in list(vars(module).items()):
                    if value is original:
                        setattr(module, attribute, function)
                        found += 1
        if not found:
            raise LookupError(f"{original!r} is in no module: the mutant would break nothing")
        return function

    return put


def _check_there(owner: object, name: str) -> None:
    """A misspelt name would make a mutant that breaks nothing."""
    if not hasattr(owner, name):
        raise AttributeError(f"{owner!r} has no {name!r}: the mutant would break nothing")
