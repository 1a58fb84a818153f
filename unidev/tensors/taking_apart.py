"""One level of an object taken apart, and a new object built of other children.

By functions that a program, a plugin or a framework has registered, or else by what it holds.
"""

from __future__ import annotations

import copy
import warnings
import weakref
from collections import OrderedDict, defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import optree

from unidev.backends.loading import new_containers, openers
from unidev.contract.containers import is_dataclass, is_lazy
from unidev.errors import UnidevError, UnsupportedContainerError
from unidev.system.wording import kind_of, shown, type_name
from unidev.tensors.contents import ITEMS, attributes_of, contents, values_of, written
from unidev.tensors.kinds import is_opaque

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from unidev.contract.backend import Children, ContainerFunctions


NAMESPACE = "unidev"
"""That of optree in which containers are registered."""

_BUILTIN = (OrderedDict, defaultdict, dict, list, tuple)
"""Those whose items can be replaced, the narrowest first."""

registered: weakref.WeakSet[type] = weakref.WeakSet()
"""The classes that optree takes apart by functions of the program's, or of a plugin's."""


class WrittenStep(optree.PyTreeEntry):
    """A step in a path as it is written: ``.x``, ``['x']``."""

    def codify(self, node: str = "") -> str:
        """The step behind ``node``."""
        return node + str(self.entry)


def register(cls: type[Any], functions: ContainerFunctions) -> None:
    """Register ``functions`` with optree, in unidev's namespace."""
    registered.add(cls)
    optree.register_pytree_node(cls, *functions, path_entry_type=WrittenStep, namespace=NAMESPACE)


def with_steps(name: object, flatten: Callable[..., Any]) -> Callable[[Any], tuple[Any, ...]]:
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
            functions = with_steps(cls, functions[0]), functions[1]
            if isinstance(cls, type):
                # With optree, which takes apart some of them by itself: of namedtuples it warns.
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UserWarning)
                    register(cls, functions)
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
    return by_contents, build_of_contents


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


register(Unpacked, (Unpacked.flatten, Unpacked.unflatten))


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


def opened_by_a_framework(x: Any) -> Unpacked | None:
    """``x``, taken apart by the registry of the first loaded framework that knows its class."""
    found = children_of(x)
    if found is None:
        return None
    children, build = found
    parts = [*children.values()], build, [*children]
    return Unpacked(x, (lambda _: parts, lambda build, new: build(new)))


def not_taken_apart(x: object, error: Exception) -> UnsupportedContainerError:
    """The error for a container whose own functions raise."""
    return UnsupportedContainerError(
        f"this {kind_of(x)} cannot be taken apart: {kind_of(error)}: {error}"
    )


def by_contents(x: Any) -> tuple[list[Any], Any, list[str]]:
    """The contents of ``x``, itself as the template, and the steps in paths."""
    held = list(contents(x))
    return [value for _, value in held], x, [written(step) for step, _ in held]


def items_apart(x: OrderedDict[Any, Any]) -> tuple[list[Any], Any, list[str]]:
    """An ordered dict's items, for optree to take apart; its attributes are kept as they are."""
    return [OrderedDict(x)], x, [""]


def items_together(x: OrderedDict[Any, Any], children: Sequence[Any]) -> Any:
    """An ordered dict of other items, with the attributes of ``x``."""
    children[0].__dict__.update(x.__dict__)
    return children[0]


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
