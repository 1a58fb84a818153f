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

    Children = list[tuple[str, Any]]
    """What an object holds, each with its entry in a path, such as ``.x`` or ``['x']``."""

_BUILTIN = (OrderedDict, defaultdict, dict, list, tuple)
"""Those whose items can be replaced, the narrowest first."""

_BY_ATTRIBUTES = (
    # transformers 5.23
    "transformers.cache_utils.Cache", "transformers.cache_utils.CacheLayerMixin",
    # mxnet 1.9.1
    "mxnet.io.io.DataBatch",
)  # fmt: skip
"""Other classes, with their subclasses, that are no more than what their attributes hold."""


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


_of_frameworks: dict[type, Opener] = {}


def register_frameworks() -> None:
    """Register the containers of frameworks that were loaded since the last time."""
    import optree

    while new_containers:
        cls, (flatten, unflatten) = new_containers.pop()
        if cls in _of_frameworks:
            continue
        # With optree, since it takes apart some of them by itself: of namedtuples it warns.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            optree.register_pytree_node(cls, flatten, unflatten, namespace=NAMESPACE)
        _of_frameworks[cls] = _by_functions(flatten, unflatten)
        _openers.clear()


def _by_functions(
    flatten: Callable[[Any], tuple[Sequence[Any], Any]],
    unflatten: Callable[[Any, Sequence[Any]], Any],
) -> Opener:
    def apart(x: Any) -> Children:
        return [(f"[{number}]", child) for number, child in enumerate(flatten(x)[0])]

    return Opener(apart, lambda x, children: unflatten(flatten(x)[1], children))


def opener_of(cls: type) -> Opener | None:
    """How objects of ``cls`` are opened, or None if that is not known."""
    if cls not in _openers:
        _openers[cls] = _find(cls)
    return _openers[cls]


def _find(cls: type) -> Opener | None:
    for base in cls.__mro__:
        if base in _of_frameworks:
            return _of_frameworks[base]
    names = [type_name(base) for base in cls.__mro__]
    for name, make in _ADAPTERS.items():
        if name in names:
            return make()
    if is_lazy(cls) or is_opaque(cls):
        return None
    if _is_known(cls) or not set(_BY_ATTRIBUTES).isdisjoint(names):
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


def _graphs() -> Opener:
    """Of torch_geometric 2.8: a graph keeps what it holds in stores, which know the graph."""

    def apart(graph: Any) -> Children:
        return [
            (f"[{key!r}]" if len(graph.stores) == 1 else f".stores[{number}][{key!r}]", value)
            for number, store in enumerate(graph.stores)
            for key, value in store._mapping.items()
        ]

    def build(graph: Any, children: Sequence[Any]) -> Any:
        made, left = copy.copy(graph), iter(children)
        for store in made.stores:
            store._mapping = {key: next(left) for key in store._mapping}
        return made

    return Opener(apart, build)


def _tensor_dicts() -> Opener:
    """Of tensordict 0.15: one that names a device names that of its tensors."""

    def apart(x: Any) -> Children:
        return [(f"[{key!r}]", value) for key, value in x.items()]

    def build(x: Any, children: Sequence[Any]) -> Any:
        device = getattr(children[0], "device", None) if x.device is not None else None
        items = dict(zip(x.keys(), children, strict=True))
        return type(x)(items, batch_size=x.batch_size, names=x.names, device=device)

    return Opener(apart, build)


_ADAPTERS: dict[str, Callable[[], Opener]] = {
    "torch_geometric.data.data.BaseData": _graphs,
    "tensordict._td.TensorDict": _tensor_dicts,
}
"""By the name of the class, or of one of its bases: loaded once one of its objects is met."""
