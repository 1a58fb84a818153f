"""Classifies an object (a tensor, a model, a container, or something else); finds what it holds.

None of the object's own code runs: attributes are read by the interpreter's own descriptors, items
by the methods of the builtin types. Properties, ``__getattr__``, ``__class__`` and ``__iter__`` of
the object play no part. The exception is a class without visible contents that the program has
registered with a framework: then the registered function is called.
"""

from __future__ import annotations

import gc
import sys
import weakref
from collections import deque
from collections.abc import Generator, Mapping, MappingView, Sequence, Set
from itertools import islice
from types import GetSetDescriptorType, MemberDescriptorType, ModuleType

from unidev.backends.boundary import call
from unidev.backends.loading import (
    backend_of_model_type,
    backend_of_namespace,
    backend_of_type,
    backends_of_namespace,
    openers,
)
from unidev.contract.device import Device
from unidev.errors import (
    InvalidDataError,
    NotATensorError,
    UnidevError,
    UnsupportedContainerError,
    UnsupportedOperation,
)
from unidev.system.wording import kind_of, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from unidev.contract.backend import Backend, Children, Extent

    Step = tuple[bool, object]
    """Whether it is an attribute, and its name; or else the key or the position of an item."""

TENSOR, MODEL, CONTAINER, OTHER = "tensor", "model", "container", "other"

PLAIN: set[type] = {int, float, complex, bool, str, bytes, type(None), Device}
"""Exact types of leaves that neither are nor hold tensors; ``is_plain`` adds others."""

values_of: weakref.WeakKeyDictionary[type, Callable[[Any], Iterable[Any]]]
values_of = weakref.WeakKeyDictionary()
"""Quick functions that list an object's values, by class: of classes without registration."""

ITEMS: dict[type, Callable[[Any], Iterator[Any]]] = {
    cls: cls.__iter__ for cls in (list, tuple, set, frozenset, deque)
}
"""The builtin types of containers whose items have no keys."""

_BUILTINS = frozenset({dict, *ITEMS})

_DESCRIPTORS = (GetSetDescriptorType, MemberDescriptorType)
"""The interpreter's own, of ``__dict__`` and of slots."""

_HEAP_TYPE = 1 << 9
"""A bit of ``__flags__``: not a builtin's, so its attributes may change."""

_attributes: weakref.WeakKeyDictionary[type, Sequence[tuple[int, str]]]
_attributes = weakref.WeakKeyDictionary()

_PLAIN_MODULES = ("pathlib", "pathlib._local", "datetime", "decimal", "fractions", "uuid")

_MOST = 10_000
"""The most attributes and items that are looked at: lists of numbers may be long."""

_MOST_HOLDERS = 1_000
"""The most objects and containers that are gone into: a registry of units has more."""

_DEEPEST = 8
"""How far from the object; the tensors of a graph of torch_geometric are 4 steps away."""

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


def is_plain(cls: type) -> bool:
    """Whether objects of exactly this class never hold a tensor; remembered in ``PLAIN``."""
    if cls not in PLAIN:
        if cls in _attributes or not _is_plain(cls):
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
    if not cls.__flags__ & _HEAP_TYPE and is_opaque(cls) and not is_container_type(cls):
        return True
    backend = backend_of_namespace(cls)
    return backend is not None and cls in {
        type(backend.cpu.native), *map(type, backend.dtypes.values())
    }  # fmt: skip


def attributes_of(cls: type) -> Sequence[tuple[int, str]]:
    """``__dict__`` and the slots of a class, each with the position in the mro of its class.

    These cannot change. (The descriptors would keep the class alive.)
    """
    found = _attributes.get(cls)
    if found is None:
        every = [
            (position, name)
            for position, base in reversed([*enumerate(cls.__mro__)])
            # Of a builtin's other members, such as a function's ``__globals__``, none is a slot.
            for name in (base.__dict__ if "__slots__" in base.__dict__ else ("__dict__",))
            if type(base.__dict__.get(name)) in _DESCRIPTORS and name != "__weakref__"
        ]
        dicts = [each for each in every if each[1] == "__dict__"]  # of several bases, for one dict
        found = _attributes[cls] = [each for each in every if each not in dicts[:-1]]
    return found


def contents(x: Any, most: int | None = None) -> Iterator[tuple[Step, object]]:
    """The attributes and items that ``x`` holds, of each kind at most ``most``."""
    cls = type(x)
    bases = cls.__mro__
    for position, name in attributes_of(cls):
        descriptor: Any = bases[position].__dict__.get(name)
        if type(descriptor) not in _DESCRIPTORS:  # replaced meanwhile
            continue
        if name == "__dict__" and not (
            bases[position].__flags__ & _HEAP_TYPE
            or any(type(held) is dict for held in gc.get_referents(x))
        ):
            continue  # an exception's, say: reading it would make one
        try:
            value = descriptor.__get__(x)
        except (AttributeError, TypeError):  # a slot that was never set, or is another class's
            continue
        if name != "__dict__":
            yield (True, name), value
        elif type(value) is dict:
            yield from _steps(True, value.items(), most)
    if issubclass(cls, dict):
        yield from _steps(False, dict.items(x), most)
    for base, items in ITEMS.items():
        if issubclass(cls, base):
            yield from _steps(False, enumerate(items(x)), most)


def children_of(x: object) -> Children | None:
    """The children of ``x``, and what rebuilds it, by the registry of the first loaded framework.

    None if none of them knows its class.

    Raises:
        UnsupportedContainerError: what the program registered there raised.
    """
    for opened in tuple(openers.values()):
        try:
            found = opened(x)
        except UnidevError:
            raise
        except Exception as error:  # the functions are the program's own
            raise not_taken_apart(x, error) from error
        if found is not None:
            return found
    return None


def not_taken_apart(x: object, error: Exception) -> UnsupportedContainerError:
    """The error for a container whose own functions raise."""
    return UnsupportedContainerError(
        f"this {kind_of(x)} cannot be taken apart: {kind_of(error)}: {error}"
    )


def _unseen(x: object) -> Iterator[list[object]]:
    """The children of ``x``, which has no visible contents, as a partial function has none."""
    found = children_of(x)
    if found is not None:
        yield [*found[0].values()]


def _steps(
    is_attribute: bool, items: Iterable[tuple[object, object]], most: int | None
) -> Iterator[tuple[Step, object]]:
    # All at once: a dict must not change meanwhile.
    return (((is_attribute, key), value) for key, value in tuple(islice(items, most)))


def written(step: Step) -> str:
    """``.name`` or ``['key']``."""
    is_attribute, key = step
    if is_attribute:
        return f".{key}" if type(key) is str else f".{shown(key)}"
    return f"[{shown(key)}]"


def path_to_tensor(x: object, *, counts_numpy: bool) -> str | None:
    """The path, such as ``.layers[0].keys``, to a tensor that ``x`` holds, or None."""
    return next((path for path, *_ in tensors_within(x, counts_numpy=counts_numpy)), None)


def tensors_within(x: object, *, counts_numpy: bool) -> Iterator[tuple[str, Any, Backend]]:
    """Each tensor that ``x`` holds, with its path and backend.

    Looks through attributes, slots, dicts, lists, tuples, sets and the objects in them, the nearest
    first, as far as the limits above. Not through functions' closures, classes and modules.
    """
    level: list[tuple[tuple[Step, ...], object]] = [((), x)]
    seen: set[int] = set()
    others: set[type] = set()
    left = _MOST
    for _ in range(_DEEPEST):
        following: list[tuple[tuple[Step, ...], object]] = []
        for steps, holder in level:
            if id(holder) in seen or is_plain(type(holder)):
                continue
            if len(seen) == _MOST_HOLDERS:
                return
            seen.add(id(holder))
            before = left
            for step, value in islice(contents(holder, left), left):
                left -= 1
                cls = type(value)
                if cls in PLAIN:
                    continue
                backend = None if cls in others else backend_of_type(cls)
                if backend is None:
                    others.add(cls)
                    following.append(((*steps, step), value))
                elif (
                    counts_numpy
                    or backend.spec.framework != "numpy"
                    or backend.device_of(value).kind != "cpu"  # no longer data of the host's
                ):
                    yield "".join(map(written, (*steps, step))), value, backend
            if left == before and type(holder) not in _BUILTINS:
                following += [(steps, children) for children in _unseen(holder)]
        level = following


def is_model(x: object) -> bool:
    """Whether ``x`` is a model of a framework."""
    return classify(x)[0] == MODEL


def is_optimizer(x: object) -> bool:
    """Whether ``x`` is an optimizer that is not among its backend's models."""
    cls = type(x)
    return any(issubclass(cls, owner.optimizer_types) for owner in backends_of_namespace(cls))


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


def extents_of(x: object) -> Sequence[Extent]:
    """The memory of tensor ``x``."""
    backend = backend_of_tensor(x)
    return call(backend, backend.extents, x, doing="finding the memory of a tensor")


def shape_unknown() -> InvalidDataError:
    """The error for a tensor whose shape must be known, and is not."""
    return InvalidDataError(
        "the shape of this tensor is not known: its copy, copy_to(x, device) has one, except while "
        "a graph is traced."
    )


def not_a_tensor(x: object) -> UnidevError:
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
    return NotATensorError(f"a tensor is needed, not an object of type {kind_of(x)}. {hint}")
