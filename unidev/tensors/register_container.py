"""The verb ``register_container``: how objects of a class are taken apart and built again."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from operator import is_
from typing import TYPE_CHECKING, Any

from unidev.backends.loading import backend_of_type
from unidev.contract.containers import is_dataclass
from unidev.errors import UnsupportedContainerError, UnsupportedOperation
from unidev.system.wording import kind_of, shown
from unidev.tensors.containers import tensors_of
from unidev.tensors.contents import ITEMS
from unidev.tensors.taking_apart import build_of_contents, by_contents, register, with_steps

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeVar

    from unidev.contract.backend import ContainerFunctions

    T = TypeVar("T")


def register_container(
    cls: type[T],
    flatten: Callable[[T], tuple[Any, ...]] | None = None,
    unflatten: Callable[[Any, Sequence[Any]], T] | None = None,
) -> type[T]:
    """Register how to take apart and rebuild a ``cls``; returns it, to decorate a dataclass.

    Args:
        cls: exactly this class. Dataclasses, classes of attrs and pydantic, mappings, lists and
            tuples need no registration: they are looked into where they hold a tensor. Nor do
            classes that are registered with a loaded framework (``torch.utils._pytree``).
        flatten: takes a container and returns ``(children, rest)``: the items that may be or hold
            tensors, and whatever else is needed to rebuild the container. It may return a third:
            for each child the step in a path that leads to it, such as ``.x`` or ``['x']``.
        unflatten: takes ``rest, children`` and returns a new container, whose tensors are where the
            children's are. A dataclass, frozen or not, needs neither function: its attributes are
            the children (a dict's or list's items, too), and ``__init__`` is not called again.

    Raises:
        UnsupportedContainerError: ``cls`` cannot be registered, or is; or a function is missing.

    >>> import dataclasses, unidev
    >>> @unidev.register_container
    ... @dataclasses.dataclass(frozen=True)
    ... class Batch:
    ...     x: object
    ...     name: str
    >>> batch = Batch(unidev.zeros((2, 3)), "first")
    >>> moved = unidev.copy_to(batch, "cpu")
    >>> moved.name, moved.x is batch.x
    ('first', False)
    """
    if not isinstance(cls, type):
        raise UnsupportedContainerError(f"{shown(cls)} of type {kind_of(cls)} is not a class.")
    if backend_of_type(cls) is not None:
        raise UnsupportedContainerError(f"{shown(cls)} is a class of tensors, not of containers.")
    functions: ContainerFunctions
    if flatten is None and unflatten is None and is_dataclass(cls):
        if issubclass(cls, tuple(ITEMS)) and not issubclass(cls, list):
            raise UnsupportedContainerError(
                f"the items of {shown(cls)} cannot be replaced beside its fields: pass flatten and "
                "unflatten."
            )
        # All that it holds: more than the fields if `__post_init__` sets more, or if it is a dict.
        functions = by_contents, build_of_contents
    elif callable(flatten) and callable(unflatten):
        functions = with_steps(cls, flatten), partial(_built, cls, flatten, unflatten)
    else:
        raise UnsupportedContainerError(
            f"register_container({shown(cls)}, {shown(flatten)}, {shown(unflatten)}): pass both "
            "flatten and unflatten, or neither for a dataclass."
        )
    try:
        register(cls, functions)
    except (TypeError, ValueError) as error:
        raise UnsupportedContainerError(f"{shown(cls)} cannot be registered: {error}") from error
    return cls


def _built(cls: type, flatten: Any, unflatten: Any, rest: Any, children: Sequence[Any]) -> Any:
    """By ``unflatten``: an error if a tensor that it makes of one is on another device."""
    made = unflatten(rest, children)
    own = flatten(made)[0]
    if all(map(is_, own, children)):
        return made
    with suppress(UnsupportedOperation):  # tensors have no device while they are traced
        here, there = ([b.device_of(x) for x, b in tensors_of([*each])] for each in (children, own))
        for old, new in zip(here, there, strict=False):
            if new is not old and new.backend == old.backend:
                raise UnsupportedContainerError(
                    f"the unflatten function of {shown(cls)} made a tensor on {new} of one on "
                    f"{old}: make it inside `with unidev.device_of(children[0]):`."
                )
    return made
