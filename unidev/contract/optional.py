"""Optional abilities: ``part`` names an implementation, ``unsupported`` a reason.

The contract declares each with ``optional``; ``abilities_of`` lists them.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from unidev.errors import PluginError, UnsupportedOperation

if TYPE_CHECKING:
    from collections.abc import Callable

    from unidev.contract.backend import Backend

_Method = TypeVar("_Method")


@dataclass(eq=False, repr=False)
class Unsupported:
    """Takes the place of a missing ability; using it raises ``UnsupportedOperation``."""

    reason: str
    link: str | None = None
    operation: str = "this operation"
    label: str = ""
    contains: str = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.operation = name

    def __call__(self, *_arguments: object, **_options: object) -> NoReturn:
        """Raise ``UnsupportedOperation`` with the reason."""
        raise UnsupportedOperation(self.operation, self.reason, self.link)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):  # Python itself looks these up (ABCMeta, copy, typing)
            raise AttributeError(name)
        self()


def unsupported(reason: str, link: str | None = None, *, operation: str = "") -> Any:
    """Declare, in place of an ability, that the backend does not have it, and why.

    Args:
        reason: one line for the user: what is missing, and where.
        link: the framework's own page or issue about it.
        operation: the ability's name, if it differs from the name of the class attribute.
    """
    return Unsupported(reason, link, operation or "this operation")


def optional(label: str, reason: str, *, contains: str = "") -> Any:
    """Declare, in the contract, an ability that a backend may lack: its default.

    Args:
        label: the ability, in a table of what each backend can do.
        reason: why the backend lacks it, unless it gives its own.
        contains: a part's class, as ``module:name``, which may declare abilities of its own.
    """
    return Unsupported(reason, label=label, contains=contains)


def declinable(label: str) -> Callable[[_Method], _Method]:
    """Declare, in the contract, that a backend may replace this method with ``unsupported``."""

    def labelled(method: _Method) -> _Method:
        method.label = label  # type: ignore[attr-defined]
        return method

    return labelled


def abilities_of(cls: type) -> dict[str, str]:
    """The label of each ability that a class of the contract declares, its parts' last."""
    declared = {
        name: default
        for each in reversed(cls.__mro__)
        for name, default in vars(each).items()
        if _label(default)
    }
    found = {name: _label(default) for name, default in declared.items()}
    for name, default in declared.items():
        if isinstance(default, Unsupported) and default.contains:
            part = import_named(default.contains, f"`{name}` of {cls.__name__}")
            found |= {f"{name}.{own}": label for own, label in abilities_of(part).items()}
    return found


def _label(default: object) -> str:
    return "" if isinstance(default, type) else str(getattr(default, "label", ""))


class BackendPart:
    """A part of a backend, such as its ``Layers``; created with the backend, on first use."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend


class Part:
    """Takes the place of a part, which is imported and created on first use."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, holder: Any, owner: type | None = None) -> Any:
        if holder is None:
            return self
        made = import_named(self._where, f"`{self._name}` of {type(holder).__name__}")
        found = made(getattr(holder, "backend", holder))  # a probe has parts as well
        if isinstance(found, Unsupported):
            found.operation = self._name
        # Later lookups find it there and do not come here; all threads get the same one.
        return holder.__dict__.setdefault(self._name, found)


def part(where: str) -> Any:
    """Declare where a part is defined: ``models = unidev.part("unidev_mine.models:MyModels")``.

    Args:
        where: its class as ``module:name``, or a function that returns the part, or
            ``unsupported(...)``; called with the backend, once, on first use.
    """
    return Part(where)


def names_an_object(where: str) -> bool:
    """Whether ``where`` has the form ``module:name``; imports nothing."""
    module, _, name = where.partition(":")
    return name.isidentifier() and all(word.isidentifier() for word in module.split("."))


def import_named(where: str, asker: str, backend: str | None = None) -> Any:
    """Import the object that ``where`` names as ``module:name``.

    Args:
        where: the module and the name.
        asker: what refers to it, for the message.
        backend: the backend's name, for the error.

    Raises:
        PluginError: there is no such module, or no such name in it. Other errors propagate.
    """
    module, _, name = where.partition(":")
    missing: ModuleNotFoundError | None = None
    try:
        found = import_module(module)
    except ModuleNotFoundError as error:
        if not f"{module}.".startswith(f"{error.name}."):  # a module that this one imports
            raise
        wrong, missing = f"there is no module {error.name}", error
    else:
        if hasattr(found, name):
            return getattr(found, name)
        wrong = f"the module {module} has no {name}"
    raise PluginError(f"{asker} is {where!r}, but {wrong}.", backend=backend) from missing
