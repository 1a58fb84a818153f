"""Takes objects apart, and builds new ones of other tensors: by functions, or by their ``to``."""

from __future__ import annotations

import copy
import warnings
import weakref
from collections import OrderedDict, defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import optree

from unidev.backends.boundary import call
from unidev.backends.loading import backend_of_type, new_containers
from unidev.errors import UnsupportedContainerError
from unidev.system.wording import kind_of, shown, type_name
from unidev.tensors.classify import (
    ITEMS,
    attributes_of,
    children_of,
    contents,
    extents_of,
    is_dataclass,
    is_lazy,
    is_opaque,
    tensors_within,
    values_of,
    written,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import NoReturn, TypeVar

    from unidev.contract.backend import Backend, ContainerFunctions
    from unidev.contract.device import Device

    T = TypeVar("T")

NAMESPACE = "unidev"
"""That of optree in which containers are registered."""

_BUILTIN = (OrderedDict, defaultdict, dict, list, tuple)
"""Those whose items can be replaced, the narrowest first."""


class WrittenStep(optree.PyTreeEntry):
    """A step in a path as it is written: ``.x``, ``['x']``."""

    def codify(self, node: str = "") -> str:
        """The step behind ``node``."""
        return node + str(self.entry)


def register_container(
    cls: type[T],
    flatten: Callable[[T], tuple[Any, ...]] | None = None,
    unflatten: Callable[[Any, Sequence[Any]], T] | None = None,
) -> type[T]:
    """Register how to take apart and rebuild containers of class ``cls``, in this process.

    Args:
        cls: exactly this class. Dataclasses, classes of attrs and pydantic, mappings, lists and
            tuples need no registration: they are looked into where they hold a tensor. Nor do
            classes that are registered with a loaded framework (``torch.utils._pytree``).
        flatten: takes a container and returns ``(children, rest)``: the items that may be or hold
            tensors, and whatever else is needed to rebuild the container. It may return a third:
            for each child the step in a path that leads to it, such as ``.x`` or ``['x']``.
        unflatten: takes ``rest, children`` and returns a new container. A dataclass, frozen or not,
            needs neither function: its attributes are the children (if it is a dict or a list, too,
            so are its items), and ``__init__`` is not called again.

    Returns:
        ``cls``, so that it can be used as a decorator on a dataclass.

    Raises:
        UnsupportedContainerError: ``cls`` is not a class, is a class of tensors, or is registered
            already; or a function is missing, and ``cls`` is not a dataclass.

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
        functions = _apart, build_of_contents
    elif callable(flatten) and callable(unflatten):
        functions = _with_steps(cls, flatten), unflatten
    else:
        raise UnsupportedContainerError(
            f"register_container({shown(cls)}, {shown(flatten)}, {shown(unflatten)}): pass both "
            "flatten and unflatten, or neither for a dataclass."
        )
    try:
        _register(cls, functions)
    except (TypeError, ValueError) as error:
        raise UnsupportedContainerError(f"{shown(cls)} cannot be registered: {error}") from error
    return cls


def _register(cls: type[Any], functions: ContainerFunctions) -> None:
    optree.register_pytree_node(cls, *functions, path_entry_type=WrittenStep, namespace=NAMESPACE)


def _with_steps(name: object, flatten: Callable[..., Any]) -> Callable[[Any], tuple[Any, ...]]:
    """``flatten``, checked, with the steps to the children as a third if it gives none."""

    def complete(x: Any) -> tuple[Any, ...]:
        parts = flatten(x)
        if isinstance(parts, tuple) and len(parts) == 2:
            return *parts, [f"[{number}]" for number in range(len(parts[0]))]
        if isinstance(parts, tuple) and len(parts) == 3 and len(parts[0]) == len(parts[2]):
            return parts
        raise UnsupportedContainerError(
            f"the flatten function of {shown(name)} returned {shown(parts)}, not a tuple "
            "(children, rest), with the steps to the children as a third or without."
        )

    return complete


_functions: weakref.WeakKeyDictionary[type, ContainerFunctions | None]
_functions = weakref.WeakKeyDictionary()
_of_plugins: dict[type | str, ContainerFunctions | None] = {}


def register_plugins() -> None:
    """Register the containers of the backends that were loaded since the last time."""
    while new_containers:
        cls, functions = new_containers.pop()
        if cls in _of_plugins:
            continue
        if functions is not None:
            functions = _with_steps(cls, functions[0]), functions[1]
            if isinstance(cls, type):
                # With optree, which takes apart some of them by itself: of namedtuples it warns.
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UserWarning)
                    _register(cls, functions)
        _of_plugins[cls] = functions
        _functions.clear()


def functions_of(cls: type) -> ContainerFunctions | None:
    """How objects of ``cls`` are taken apart and built, or None if that is not known."""
    if new_containers:
        register_plugins()
    if cls not in _functions:
        _functions[cls] = _find(cls)
    return _functions[cls]


def _find(cls: type) -> ContainerFunctions | None:
    keys = (key for base in cls.__mro__ for key in (base, type_name(base)))
    named = next((key for key in keys if key in _of_plugins), None)
    if named is not None and _of_plugins[named] is not None:
        return _of_plugins[named]
    if is_lazy(cls) or is_opaque(cls) or not (named is not None or _is_known(cls)):
        return None
    values_of[cls] = _quick_values(cls)
    return _apart, build_of_contents


def _quick_values(cls: type) -> Callable[[Any], Iterable[Any]]:
    """A function that lists an object's values, not the names; a lone ``__dict__``'s directly."""
    found = attributes_of(cls)
    if len(found) != 1 or found[0][1] != "__dict__" or issubclass(cls, (dict, *ITEMS)):
        return lambda x: [value for _, value in contents(x)]
    own_dict = cls.__mro__[found[0][0]].__dict__["__dict__"].__get__
    return lambda x: own_dict(x).values()


def _is_known(cls: type) -> bool:
    """Whether an object of this class is what its attributes and items are."""
    if issubclass(cls, (set, frozenset)):
        return False
    if is_dataclass(cls) or issubclass(cls, (Mapping, list, tuple)):
        return True
    # attrs 26 and pydantic 2.14; a class may have a metaclass that answers to any name.
    return any(
        "__attrs_attrs__" in base.__dict__ or "__pydantic_fields__" in base.__dict__
        for base in cls.__mro__
    )


class Unpacked:
    """An object whose children are looked at in its place; registered with optree."""

    __slots__ = ("_rest", "_unflatten", "children", "owner", "steps")

    def __init__(self, owner: Any, functions: ContainerFunctions) -> None:
        flatten, self._unflatten = functions
        self.owner = owner
        self.children, self._rest, self.steps = flatten(owner)

    def flatten(self) -> tuple[Sequence[Any], Unpacked, Sequence[str]]:
        """The children, what is needed to build the owner again, and the steps in paths."""
        return self.children, self, self.steps

    def unflatten(self, children: Sequence[Any]) -> Any:
        """The owner with these children; itself if they are those that it has."""
        if all(new is old for new, old in zip(children, self.children, strict=True)):
            return self.owner
        return self._unflatten(self._rest, children)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unpacked) and self._kind == other._kind

    def __hash__(self) -> int:
        return hash(self._kind)

    @property
    def _kind(self) -> tuple[Any, ...]:
        return type(self.owner), *self.steps


_register(Unpacked, (Unpacked.flatten, Unpacked.unflatten))


def opened_by_a_framework(x: Any) -> Unpacked | None:
    """``x``, taken apart by the registry of the first loaded framework that knows its class.

    Raises:
        UnsupportedContainerError: as ``children_of``.
    """
    found = children_of(x)
    if found is None:
        return None
    children, build = found
    parts = [*children.values()], build, [*children]
    return Unpacked(x, (lambda _: parts, lambda build, new: build(new)))


def _apart(x: Any) -> tuple[list[Any], Any, list[str]]:
    held = list(contents(x))
    return [value for _, value in held], x, [written(step) for step, _ in held]


def build_of_contents(template: Any, children: Sequence[Any]) -> Any:
    """A new object of the template's class, with ``children`` in place of its contents.

    ``__init__`` is not called: it may take other arguments, and has done its work.
    """
    cls = type(template)
    steps = [step for step, _ in contents(template)]
    items = [x for (is_attribute, _), x in zip(steps, children, strict=True) if not is_attribute]
    own: Any = next((kind for kind in _BUILTIN if issubclass(cls, kind)), None)
    try:
        made = tuple.__new__(cls, items) if own is tuple else (own or object).__new__(cls)
    except TypeError:  # a builtin's subclass, such as an exception, which holds more
        made = copy.copy(template)
    if own is defaultdict:
        made.default_factory = template.default_factory
    key: Any
    for (is_attribute, key), child in zip(steps, children, strict=True):
        if is_attribute:
            object.__setattr__(made, key, child)
        elif own is list:
            list.append(made, child)
        elif own is not tuple:
            (OrderedDict if own is OrderedDict else dict).__setitem__(made, key, child)
    return made


def has_own_to(cls: type) -> bool:
    """Whether ``cls`` defines a method ``to``, which may move its objects."""
    return any(callable(base.__dict__.get("to")) for base in cls.__mro__)


class Movable:
    """An object of no known kind whose own ``to`` moves its tensors."""

    def __init__(self, owner: Any, *, is_copied: bool, counts_numpy: bool) -> None:
        self.owner = owner
        self._is_copied = is_copied
        self._counts_numpy = counts_numpy
        self.tensors = self._tensors(owner)
        """Each with its path in the object and its backend."""

    @property
    def backend(self) -> Backend:
        """That of the first tensor."""
        return self.tensors[0][2]

    def mapped(self, transfer: Callable[[Any, Backend], Any]) -> Any:
        """The object itself if ``transfer`` moves none of its tensors, else a copy moved by ``to``.

        Raises:
            UnsupportedContainerError: ``to`` raised, left a tensor behind, shares memory with the
                object where a copy was wanted, or changed the object itself.
        """
        results = ((x, transfer(x, backend)) for _, x, backend in self.tensors)
        moved = next((new for x, new in results if new is not x), None)
        if moved is None:
            return self.owner
        device = self.backend.device_of(moved)
        try:
            made = copy.copy(self.owner)
            made = call(self.backend, made.to, device.native, doing="calling the object's own `to`")
        except Exception as error:  # noqa: BLE001  the object's own code can raise anything
            self._refuse(f"raised {kind_of(error)}: {error}", error)
        self._check(made, device)
        return made

    def _check(self, made: Any, device: Device) -> None:
        after = self._tensors(made)
        if not after:
            self._refuse("returned an object without tensors")
        for path, x, backend in after:
            if backend.device_of(x) is not device:
                self._refuse(f"left {path} on {backend.device_of(x)}")
            if self._is_copied and any(
                one.overlaps(other)
                for _, old, owner in self.tensors
                if owner is backend
                for one in extents_of(x)
                for other in extents_of(old)
            ):
                self._refuse(f"copied nothing: {path} has the memory of the source")
        now = self._tensors(self.owner)
        if [(path, id(x)) for path, x, _ in now] != [(path, id(x)) for path, x, _ in self.tensors]:
            self._refuse("changed the object that it was copied from")

    def _tensors(self, x: Any) -> list[tuple[str, Any, Backend]]:
        return list(tensors_within(x, counts_numpy=self._counts_numpy))

    def _refuse(self, what: str, cause: Exception | None = None) -> NoReturn:
        raise UnsupportedContainerError(
            f"{kind_of(self.owner)} holds a tensor, at {self.tensors[0][0]} in it, and its own "
            f"`to` {what}. Register its class: unidev.register_container(cls, flatten, "
            "unflatten); or pass its tensors by themselves."
        ) from cause
