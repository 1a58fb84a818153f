"""Containers that need no registration: how one is taken apart, and built anew of other tensors."""

from __future__ import annotations

import copy
import functools
import warnings
import weakref
from collections import OrderedDict, defaultdict

from unidev.registry.loading import new_containers
from unidev.support.wording import type_name
from unidev.tensors.classify import is_dataclass, is_lazy, values_of
from unidev.tensors.objects import contents, is_opaque, only_dict_of, path_entry
from unidev.tensors.walking import NAMESPACE

TYPE_CHECKING = False  # not typing's: importing that takes as long as all of unidev
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from unidev.contract.backend import ContainerFunctions

    Children = list[tuple[str, Any]]
    """What an object holds, each with its entry in a path, such as ``.x`` or ``['x']``."""

_BUILTIN = (OrderedDict, defaultdict, dict, list, tuple)
"""Those whose items can be replaced, the narrowest first."""


class Opener:
    """How objects of one class are taken apart and built."""

    __slots__ = ("apart", "build")

    def __init__(
        self, apart: Callable[[Any], Children], build: Callable[[Any, Sequence[Any]], Any]
    ) -> None:
        self.apart = apart
        self.build = build

    def opened(self, x: Any) -> Unpacked:
        """``x`` with its children in its place, for optree."""
        _register()
        return Unpacked(x, self)


class Unpacked:
    """An object whose children are looked at in its place; registered with optree."""

    __slots__ = ("children", "opener", "owner")

    def __init__(self, owner: Any, opener: Opener) -> None:
        self.owner = owner
        self.opener = opener
        self.children = opener.apart(owner)

    def flatten(self) -> tuple[Sequence[Any], Unpacked, Sequence[str]]:
        """The children, what is needed to build the owner again, and the entries of paths."""
        return [child for _, child in self.children], self, [entry for entry, _ in self.children]

    def unflatten(self, children: Sequence[Any]) -> Any:
        """The owner with these children; itself if they are those that it has."""
        if all(new is old for new, (_, old) in zip(children, self.children, strict=True)):
            return self.owner
        return self.opener.build(self.owner, children)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unpacked) and self._kind == other._kind

    def __hash__(self) -> int:
        return hash(self._kind)

    @property
    def _kind(self) -> tuple[Any, ...]:
        return type(self.owner), *(entry for entry, _ in self.children)


@functools.cache
def _register() -> None:
    import optree

    functions: Any = (Unpacked.flatten, Unpacked.unflatten)
    entry: Any = spelled_entry()
    cls: Any = Unpacked
    optree.register_pytree_node(cls, *functions, path_entry_type=entry, namespace=NAMESPACE)


def spelled_entry() -> type[Any]:
    """The class of optree's entries that are strings such as ``.x`` and ``['x']``."""
    import optree

    return type("Entry", (optree.PyTreeEntry,), {"codify": lambda at, node="": node + at.entry})


_openers: weakref.WeakKeyDictionary[type, Opener | None] = weakref.WeakKeyDictionary()


_of_plugins: dict[type | str, ContainerFunctions | None] = {}


def register_plugins() -> None:
    """Register the containers of the backends that were loaded since the last time."""
    import optree

    while new_containers:
        cls, functions = new_containers.pop()
        if cls in _of_plugins:
            continue
        if functions is not None:
            functions = _with_paths(functions[0]), functions[1]
            if isinstance(cls, type):
                # With optree, which takes apart some of them by itself: of namedtuples it warns.
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UserWarning)
                    optree.register_pytree_node(
                        cls, *functions, path_entry_type=spelled_entry(), namespace=NAMESPACE
                    )
        _of_plugins[cls] = functions
        _openers.clear()


def _with_paths(flatten: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any], tuple[Any, ...]]:
    def complete(x: Any) -> tuple[Any, ...]:
        children, rest, *paths = flatten(x)
        return children, rest, *(paths or [[f"[{number}]" for number in range(len(children))]])

    return complete


def _by_functions(
    flatten: Callable[[Any], tuple[Any, ...]], unflatten: Callable[[Any, Sequence[Any]], Any]
) -> Opener:
    def apart(x: Any) -> Children:
        children, _, paths = flatten(x)
        return list(zip(paths, children, strict=True))

    return Opener(apart, lambda x, children: unflatten(flatten(x)[1], children))


def opener_of(cls: type) -> Opener | None:
    """How objects of ``cls`` are opened, or None if that is not known."""
    if new_containers:
        register_plugins()
    if cls not in _openers:
        _openers[cls] = _find(cls)
    return _openers[cls]


def _find(cls: type) -> Opener | None:
    keys = (key for base in cls.__mro__ for key in (base, type_name(base)))
    named = next((key for key in keys if key in _of_plugins), None)
    functions = None if named is None else _of_plugins[named]
    if functions is not None:
        return _by_functions(*functions)
    if is_lazy(cls) or is_opaque(cls):
        return None
    if named is not None or _is_known(cls):
        values_of[cls] = _quick_values(cls)
        return Opener(_held, build_of_contents)
    return None


def _quick_values(cls: type) -> Callable[[Any], Iterable[Any]]:
    """What objects of ``cls`` hold, without the names."""
    own_dict = only_dict_of(cls)
    if own_dict is None:
        return lambda x: [value for _, value in contents(x)]
    return lambda x: own_dict(x).values()


def _is_known(cls: type) -> bool:
    """Whether an object of this class is what its attributes and items are."""
    from collections.abc import Mapping

    if issubclass(cls, (set, frozenset)):
        return False
    if is_dataclass(cls) or issubclass(cls, (Mapping, list, tuple)):
        return True
    # attrs 26 and pydantic 2.14; a class may have a metaclass that answers to any name.
    return any(
        "__attrs_attrs__" in base.__dict__ or "__pydantic_fields__" in base.__dict__
        for base in cls.__mro__
    )


def _held(x: Any) -> Children:
    return [(path_entry(step), value) for step, value in contents(x)]


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
