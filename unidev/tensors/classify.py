"""Classifies an object: a tensor, a model, a container, or something else."""

from __future__ import annotations

import weakref
from collections.abc import Generator, Mapping, MappingView, Sequence, Set

from unidev.contract.device import Device
from unidev.errors import InvalidDataError, NotATensorError
from unidev.registry.loading import backend_of_model_type, backend_of_type
from unidev.support.wording import kind_of

TYPE_CHECKING = False  # not typing's: importing that takes as long as all of unidev
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from unidev.contract.backend import Backend

TENSOR, MODEL, CONTAINER, OTHER = "tensor", "model", "container", "other"

PLAIN: set[type] = {int, float, complex, bool, str, bytes, type(None), Device}
"""Exact types of leaves that neither are nor hold tensors; ``objects.is_plain`` adds others."""

values_of: weakref.WeakKeyDictionary[type, Callable[[Any], Iterable[Any]]]
values_of = weakref.WeakKeyDictionary()
"""What objects of a class hold, for a quick look: of classes that need no registration."""

_LAZY = (Generator, map, filter, zip, enumerate, reversed)
"""May yield tensors, but only once: looking would consume them."""

_HARMLESS = (str, bytes, bytearray, memoryview, range)
"""Sequences whose items cannot be tensors."""


class Handle:
    """An object that verbs take for ``model``, which it has at work on several devices.

    A package above registers what it adds by deriving from this class.
    """

    model: Any
    backend: Backend

    def value_and_grad(
        self, evaluate: Callable[..., tuple[Any, Any]], arguments: Any, options: Any
    ) -> tuple[Any, Any]:
        """``evaluate(model, *arguments, **options)``, a loss and gradients, for all devices."""
        raise NotImplementedError


def model_of(x: Any) -> Any:
    """The model that ``x`` stands for, if it is a handle; else ``x`` itself."""
    return x.model if issubclass(type(x), Handle) else x


def classify(x: object) -> tuple[str, Backend | None]:
    """``TENSOR`` or ``MODEL`` with the backend, or ``CONTAINER`` or ``OTHER`` with None.

    Looks only at the type of a container, not at its items. A handle is a ``MODEL``.
    """
    cls = type(x)
    if cls in PLAIN:
        return OTHER, None
    backend = backend_of_type(cls)
    if backend is not None:
        return TENSOR, backend
    if issubclass(cls, Handle):  # not isinstance, which asks the object for its `__class__`
        return MODEL, x.backend  # type: ignore[attr-defined]
    backend = backend_of_model_type(x)
    if backend is not None:
        return MODEL, backend
    return (CONTAINER if is_container(x) else OTHER), None


def is_container(x: object) -> bool:
    """Whether ``x`` holds, or may hold, other objects; unidev may or may not be able to look in."""
    cls = type(x)
    if issubclass(cls, tuple):  # also a subclass: torch.Size, for one, holds only numbers
        return not PLAIN.issuperset(map(type, tuple.__iter__(x)))  # type: ignore[arg-type]
    return is_container_type(cls)


def is_container_type(cls: type) -> bool:
    """``is_container`` for all objects of a class."""
    if is_lazy(cls):
        return True
    if issubclass(cls, (Mapping, Sequence, Set)):
        from array import array  # numbers only, and since Python 3.10 a Sequence

        return not issubclass(cls, (*_HARMLESS, array))
    return is_dataclass(cls)


def is_dataclass(cls: type) -> bool:
    """``dataclasses.is_dataclass``: importing that module takes longer than all of unidev."""
    return any("__dataclass_fields__" in base.__dict__ for base in cls.__mro__)


def is_lazy(cls: type) -> bool:
    """Whether objects of the class hold items of others, which cannot be put back into them."""
    return issubclass(cls, (*_LAZY, MappingView))


def is_model(x: object) -> bool:
    """Whether ``x`` is a model of a framework."""
    return classify(x)[0] == MODEL


def backend_of_tensor(x: object) -> Backend:
    """The backend of tensor ``x``.

    Raises:
        NotATensorError: ``x`` is not a tensor; states its type and what to do.
    """
    backend = backend_of_type(type(x))
    if backend is None:
        raise not_a_tensor(x)
    return backend


def shape_of(x: Any) -> tuple[int, ...]:
    """The shape of tensor ``x``.

    Raises:
        InvalidDataError: it is not known in full, as of a variable whose shape may change.
    """
    try:
        shape = tuple(x.shape)
    except ValueError as error:  # TensorFlow's, if not even the rank is known
        raise shape_unknown() from error
    if None in shape:
        raise shape_unknown()
    return shape


def shape_unknown() -> InvalidDataError:
    """The error for a tensor whose shape must be known, and is not."""
    return InvalidDataError(
        "the shape of this tensor is not known: its copy, copy_to(x, device) has one, except while "
        "a graph is traced."
    )


def not_a_tensor(x: object) -> NotATensorError:
    """The error for an object that must be a tensor, and is not."""
    from unidev.registry.discovery import backend_specs

    if is_model(x):
        hint = (
            "It is a model: copy_to and as_in_device move tensors. unidev.place(model, device) "
            "moves a model in place."
        )
    else:
        hint = f"The backends here: {', '.join(sorted(backend_specs()))}."
        if isinstance(x, (int, float, complex, list, tuple)):
            hint = "unidev.array(...) makes a tensor from numbers and lists of them. " + hint
    return NotATensorError(f"a tensor is needed, not an object of type {kind_of(x)}. {hint}")
