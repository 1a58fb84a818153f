"""The kind of an object: a tensor, a model, a container, or something else.

None of the object's own code runs.
"""

from __future__ import annotations

import sys
from types import ModuleType

from unidev.backends.boundary import call
from unidev.backends.loading import (
    backend_of_model_type,
    backend_of_namespace,
    backend_of_type,
    backends_of_namespace,
)
from unidev.contract.containers import is_container_type
from unidev.device import Device
from unidev.errors import InvalidDataError, NotATensorError, UnidevError, UnsupportedOperation
from unidev.system.wording import kind_of
from unidev.tensors.contents import HEAP_TYPE, ITEMS, attributes_of, is_looked_into

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from unidev.contract.backend import Backend, Extent

TENSOR, MODEL, CONTAINER, OTHER = "tensor", "model", "container", "other"

PLAIN: set[type] = {int, float, complex, bool, str, bytes, type(None), Device}
"""Exact types of leaves that neither are nor hold tensors; ``is_plain`` adds others."""

_PLAIN_MODULES = ("pathlib", "pathlib._local", "datetime", "decimal", "fractions", "uuid")


class Handle:
    """An object that verbs take for ``model``, which it has at work on several devices.

    A package above adds one by deriving from this class.
    """

    model: Any
    backend: Backend

    def value_and_grad(
        self, evaluate: Callable[..., tuple[Any, Any]], arguments: Any, options: Any
    ) -> tuple[Any, Any]:
        """``evaluate(model, arguments, options)``, a loss and gradients, for all devices."""
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
    if issubclass(cls, tuple):  # also a subclass: torch.Size, for one, holds only numbers
        holds = not PLAIN.issuperset(map(type, tuple.__iter__(x)))  # type: ignore[arg-type]
    else:
        holds = is_container_type(cls)
    return (CONTAINER if holds else OTHER), None


def is_plain(cls: type) -> bool:
    """Whether objects of exactly this class never hold a tensor; remembered in ``PLAIN``."""
    if cls not in PLAIN:
        if is_looked_into(cls) or not _is_plain(cls):
            return False
        PLAIN.add(cls)
    return True


def is_opaque(cls: type) -> bool:
    """Whether nothing can be read of what objects of this class hold."""
    return not (attributes_of(cls) or issubclass(cls, (dict, *ITEMS)))


def _is_plain(cls: type) -> bool:
    enum = sys.modules.get("enum")
    if cls.__dict__.get("__module__") in _PLAIN_MODULES or issubclass(cls, (type, ModuleType)):
        return True
    if enum is not None and issubclass(cls, enum.Enum):
        return True
    if not cls.__flags__ & HEAP_TYPE and is_opaque(cls) and not is_container_type(cls):
        return True
    backend = backend_of_namespace(cls)
    if backend is None:
        return False
    device = backend.device(backend.kinds[0], 0)
    return cls in {type(device.native), *map(type, backend.dtypes.values())}


def is_model(x: object) -> bool:
    """Whether ``x`` is a model of a framework."""
    return classify(x)[0] == MODEL


def is_optimizer(x: object) -> bool:
    """Whether ``x`` is an optimizer that is not among its backend's models."""
    cls = type(x)
    return any(issubclass(cls, owner.optimizer_types) for owner in backends_of_namespace(cls))


def backend_of_tensor(x: object) -> Backend:
    """The backend of tensor ``x``; anything else is a ``NotATensorError``."""
    backend = backend_of_type(type(x))
    if backend is None:
        raise not_a_tensor(x, takes_containers=False)
    return backend


def shape_of(x: Any) -> tuple[int, ...]:
    """The shape of tensor ``x``; ``InvalidDataError`` if it is not known in full."""
    try:
        shape = tuple(x.shape)
    except (ValueError, RuntimeError) as error:  # TensorFlow's of no known rank; nested in PyTorch
        raise shape_unknown() from error
    if None in shape:
        raise shape_unknown()
    return shape


def rows_of(x: Any) -> int | None:
    """The first size of tensor ``x``; None if it has no dimension.

    Raises:
        InvalidDataError: it is not known.
    """
    try:
        shape = tuple(x.shape)
    except (ValueError, RuntimeError) as error:
        raise shape_unknown() from error
    if shape and shape[0] in (None, -1):
        raise shape_unknown()
    return int(shape[0]) if shape else None


def extents_of(x: object) -> Sequence[Extent]:
    """The memory of tensor ``x``."""
    backend = backend_of_tensor(x)
    return call(backend, backend.extents, x, doing="finding the memory of a tensor")


def shape_unknown() -> InvalidDataError:
    """The error for a tensor whose shape must be known, and is not."""
    return InvalidDataError(
        "the shape of this tensor is not known: it is traced, symbolic or nested; of a "
        "variable, copy_to(x, device) has one."
    )


def say_where(error: UnidevError, at: str) -> None:
    """Put the path of a tensor before the message."""
    if at and error.args:
        error.args = (f"at {at}: {error.args[0]}", *error.args[1:])


def not_a_tensor(x: object, *, takes_containers: bool = True) -> UnidevError:
    """The error for an object that must be a tensor, and is not, or not yet."""
    from unidev.backends.discovery import backend_specs

    kind, backend = classify(x)
    if backend is not None and backend.traced(x):
        return UnsupportedOperation(
            f"this, for a {kind_of(x)},",
            "it is part of a graph that is being traced, and has no memory or device yet: call "
            "this outside the compiled function",
        )
    if kind == MODEL:
        hint = (
            "It is a model: copy_to and as_in_device move tensors. unidev.place(model, device) "
            "moves a model in place."
        )
    else:
        hint = f"The backends here: {', '.join(sorted(backend_specs()))}."
        if isinstance(x, (int, float, complex, list, tuple)):
            hint = "unidev.array(...) makes a tensor from numbers and lists of them. " + hint
        if kind == CONTAINER and not takes_containers:
            way = "device_get(x) reads all tensors in a container, map_tensors(function, x) calls"
            hint = f"This takes one: {way} a function on each. {hint}"
    return NotATensorError(f"a tensor is needed, not an object of type {kind_of(x)}. {hint}")
