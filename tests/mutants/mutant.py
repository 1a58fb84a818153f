"""What a mutant is, and how one is broken."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import sys
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from unidev import device
from unidev.backends.loading import load_class
from unidev.contract.hookspecs import hookimpl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from unidev.contract.backend import Backend
    from unidev.contract.backend_spec import BackendSpec

    Breaks = Callable[[Any], None]
    """Breaks the class of the backend that it is given."""

NUMPY = "unidev.backends.numpy_backend"
TORCH = "unidev_torch"
TENSORFLOW = "unidev_tensorflow"
PADDLE = "unidev_paddle"
MXNET = "unidev_mxnet"
JAX = "unidev_jax"
ARRAY_API = "unidev_array_api"
TOY = "toy_backend"
"""The functional framework of ``examples/toy_backend``."""
PLUGINS = (NUMPY, TORCH, TENSORFLOW, PADDLE, MXNET, JAX, ARRAY_API, TOY)
"""Plugins of which there are mutants."""

F = TypeVar("F", bound="Callable[..., Any]")
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, eq=False)  # pluggy keeps plugins in dicts: compare by `is`
class Mutant:
    """A backend with one thing broken, as a plugin: ``mutants:NAME``.

    The backend that it registers is called ``mutant_NAME``. Its tensors are those of the plugin
    that it is made of, so that plugin has to be off: ``UNIDEV_DISABLED_PLUGINS=numpy``.
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
    plugin: str
    """The module of the plugin whose backend it breaks."""
    breaks: Breaks
    breaks_on_discovery: bool
    """Whether it breaks when its plugin is found, and not when its backend is loaded."""

    @property
    def backend_name(self) -> str:
        """What ``UNIDEV_BACKEND`` calls it."""
        return f"mutant_{self.name}"

    @hookimpl
    def unidev_register_backend(self) -> BackendSpec:
        """As the plugin does, but for the name and ``load``."""
        if self.breaks_on_discovery:
            self.breaks(None)
        return dataclasses.replace(self._spec(), name=self.backend_name, load=self.load)

    def load(self) -> type[Backend]:
        """A subclass of the plugin's backend, broken now: whatever is replaced, it is in use."""

        class Broken(load_class(self._spec())):  # type: ignore[misc]  # known when it is loaded
            """The backend with one thing broken."""

        Broken.__module__ = Broken.__base__.__module__  # of the plugin, as the suite takes it
        if not self.breaks_on_discovery:
            self.breaks(Broken)
        return Broken

    def _spec(self) -> BackendSpec:
        spec: BackendSpec = importlib.import_module(self.plugin).unidev_register_backend()
        return spec


def mutant(
    *caught_by: str,
    result: str = "fail",
    simulated_count: int = 2,
    profile: str = "tensor",
    plugin: str = NUMPY,
    on_discovery: bool = False,
    around: str = "",
    everywhere: str = "",
) -> Callable[[Callable[..., Any]], Mutant]:
    """Make a mutant of the function that breaks the backend; its docstring says how.

    Or of the function that replaces another, and is called with that before all else: the backend's
    method ``around="copy_to"``, that of a class or module ``around="module:Class.method"``, or a
    function (or object) wherever unidev has it by name, ``everywhere="module:function"``. A module
    of the plugin begins with a dot.
    """

    def make(function: Callable[..., Any]) -> Mutant:
        def breaks(backend: Any) -> None:
            if everywhere:
                original = _named(everywhere, plugin)
                in_place_of(original)(_with(original, function))
            elif around:
                module, _, path = around.rpartition(":")
                inner, _, name = path.rpartition(".")
                owner = _named(f"{module}:{inner}", plugin) if module else backend
                replace_value(owner, name, _with(getattr(owner, name), function))
            else:
                function(backend)

        return Mutant(
            name=function.__name__,
            broken=" ".join((function.__doc__ or "").split()),
            caught_by=caught_by,
            result=result,
            simulated_count=simulated_count,
            profile=profile,
            plugin=plugin,
            breaks=breaks,
            breaks_on_discovery=on_discovery,
        )

    return make


torch_mutant = partial(mutant, profile="train", plugin=TORCH)
"""As ``mutant``, of PyTorch's backend: NumPy has no autograd, and no models of that kind."""
toy_mutant = partial(mutant, profile="train", plugin=TOY, simulated_count=0)
"""As ``mutant``, of the toy's backend: its arrays are immutable, its functions pure."""

_MISSING = object()
_undo: list[Callable[[], object]] = []


def restore() -> None:
    """Undo whatever mutants have replaced in this process, the last first."""
    while _undo:
        _undo.pop()()


def when_restored(call: Callable[[], object]) -> None:
    """Have ``restore`` call this: for what a mutant leaves behind when it runs."""
    _undo.append(call)


def replace(owner: object) -> Callable[[F], F]:
    """Put the decorated function in the place of the attribute of that name of ``owner``."""

    def put(function: F) -> F:
        replace_value(owner, function.__name__, function)
        return function

    return put


def around(owner: object) -> Callable[[F], F]:
    """As ``replace``; the decorated function is called with what it replaces before all else."""

    def put(function: F) -> F:
        name = function.__name__
        replace_value(owner, name, _with(getattr(owner, name), function))
        return function

    return put


def _named(path: str, plugin: str) -> Any:
    return pkgutil.resolve_name(f"{plugin}{path}" if path.startswith(".") else path)


def _with(original: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function without its first parameter, which is the original."""

    def changed(*args: Any, **options: Any) -> Any:
        return function(original, *args, **options)

    return changed


def replace_value(owner: object, name: str, value: object) -> None:
    """Put ``value`` in the place of attribute ``name`` of ``owner``."""
    if not hasattr(owner, name):
        raise AttributeError(f"{owner!r} has no {name!r}: the mutant would break nothing")
    before = vars(owner).get(name, _MISSING)

    def put_back() -> None:
        if before is _MISSING:
            delattr(owner, name)  # the inherited one is visible again
        else:
            setattr(owner, name, before)

    setattr(owner, name, value)
    when_restored(put_back)


def in_place_of(original: object) -> Callable[[T], T]:
    """Put the decorated function in the place of ``original``, a function (or object) of the core.

    Wherever unidev has it by name, as if its source had been edited.
    """

    def put(function: T) -> T:
        if not _exchange(original, function):
            raise LookupError(f"{original!r} is in no module: the mutant would break nothing")
        # Modules that were imported meanwhile have the new one, so all are gone through again.
        when_restored(lambda: _exchange(function, original))
        return function

    return put


def _exchange(old: object, new: object) -> int:
    """Put ``new`` wherever ``old`` is; at how many places that was."""
    found = 0
    for namespace in _namespaces():
        for name, value in list(vars(namespace).items()):
            if value is old:
                setattr(namespace, name, new)
                found += 1
    return found


def _namespaces() -> Iterator[object]:
    """unidev's modules, those of its plugins, and the functions that a ``Device`` calls."""
    yield device.registry
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0].startswith("unidev"):
            yield module
