"""What a backend may do besides: saying where it is, or why there is none."""

from __future__ import annotations

from importlib import import_module
from typing import Any, NoReturn

from unidev.errors import PluginError, UnsupportedOperation


class Unsupported:
    """Stands where an ability would be; calling it raises :class:`UnsupportedOperation`."""

    def __init__(
        self, reason: str, link: str | None = None, operation: str = "this operation"
    ) -> None:
        self.operation = operation
        self.reason = reason
        self.link = link

    def __set_name__(self, owner: type, name: str) -> None:
        self.operation = name

    def __call__(self, *_arguments: object, **_options: object) -> NoReturn:
        """Raise ``UnsupportedOperation`` with the reason."""
        raise UnsupportedOperation(self.operation, self.reason, self.link)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):  # what Python itself looks for (ABCMeta, copy, typing)
            raise AttributeError(name)
        self()


def unsupported(reason: str, link: str | None = None, *, operation: str = "") -> Any:
    """Say, in the place of an ability, that there is none, and why.

    Args:
        reason: one line for the user: what is missing, and in what.
        link: the framework's own page or issue about it.
        operation: the ability's name, where it is not the name in the class that this stands for.
    """
    return Unsupported(reason, link, operation or "this operation")


class Part:
    """Stands where a part will be, which is imported and made when it is first asked for."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, backend: Any, owner: type | None = None) -> Any:
        if backend is None:
            return self
        made = import_named(self._where, f"`{self._name}` of {type(backend).__name__}")(backend)
        # From now on it is found there, and this is not asked again; one for all threads.
        return backend.__dict__.setdefault(self._name, made)


def part(where: str) -> Any:
    """Say where a part is: ``models = unidev.part("unidev_mine.models:MyModels")``.

    Args:
        where: ``module:name`` of its class, which is called with the backend, once.
    """
    return Part(where)


def names_an_object(where: str) -> bool:
    """Whether ``where`` is spelled as ``module:name``; imports nothing."""
    module, _, name = where.partition(":")
    return name.isidentifier() and all(word.isidentifier() for word in module.split("."))


def import_named(where: str, asker: str, backend: str | None = None) -> Any:
    """Import the object that ``where`` names as ``module:name``.

    Args:
        where: the module and the name.
        asker: what refers to it, for the message.
        backend: the backend's name, for the error.

    Raises:
        PluginError: there is no such module, or no such name in it. Other errors of the import
            pass unchanged.
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
