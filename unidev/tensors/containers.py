"""Nested containers: dicts, lists, tuples, namedtuples and registered classes, through optree."""

from __future__ import annotations

from unidev.errors import UnidevError, UnsupportedContainerError
from unidev.registry.loading import backend_of_type
from unidev.support.wording import kind_of, shown
from unidev.tensors.classify import is_dataclass, model_of
from unidev.tensors.walking import NAMESPACE, looked_through, paths_of, unflatten

TYPE_CHECKING = False  # not typing's: importing that takes as long as all of unidev
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any, TypeVar

    from unidev.contract.backend import Backend
    from unidev.tensors.own_to import OwnTo
    from unidev.tensors.walking import LookedThrough

    T = TypeVar("T")

_registered: set[type] = set()


def register_container(
    cls: type[T],
    flatten: Callable[[T], tuple[Sequence[Any], Any]] | None = None,
    unflatten: Callable[[Any, Sequence[Any]], T] | None = None,
) -> type[T]:
    """Register how to take apart and rebuild containers of class ``cls``, in this process.

    Args:
        cls: exactly this class. Dataclasses, classes of attrs and pydantic, mappings, lists and
            tuples need no registration: they are looked into where they hold a tensor.
        flatten: takes a container and returns ``(children, rest)``: the items that may be or hold
            tensors, and whatever else is needed to rebuild the container.
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
    import optree

    from unidev.tensors.opening import spelled_entry

    if not isinstance(cls, type):
        raise UnsupportedContainerError(f"{shown(cls)} of type {kind_of(cls)} is not a class.")
    if backend_of_type(cls) is not None:
        raise UnsupportedContainerError(f"{shown(cls)} is a class of tensors, not of containers.")
    entry: type[Any] = optree.AutoEntry
    if flatten is None and unflatten is None and is_dataclass(cls):
        functions: Any = _dataclass_functions(cls)
        entry = spelled_entry()
    elif callable(flatten) and callable(unflatten):
        functions = _checked_flatten(cls, flatten), unflatten
    else:
        raise UnsupportedContainerError(
            f"register_container({shown(cls)}, {shown(flatten)}, {shown(unflatten)}): pass both "
            "flatten and unflatten, or neither for a dataclass."
        )
    try:
        optree.register_pytree_node(cls, *functions, path_entry_type=entry, namespace=NAMESPACE)  # type: ignore[arg-type]  # optree asks for its own protocol
    except (TypeError, ValueError) as error:
        raise UnsupportedContainerError(f"{shown(cls)} cannot be registered: {error}") from error
    _registered.add(cls)
    return cls


def map_tensors(
    function: Callable[[Any, Backend], Any], tree: T, *, own_to: OwnTo = "refused"
) -> T:
    """``tree`` with ``function(tensor, backend)`` in place of each tensor in it.

    A tensor that occurs twice is mapped once and stays one object. Non-tensor leaves pass through
    unchanged. If no tensor changes, ``tree`` itself is returned. Errors of ``function`` that are
    unidev's get the path of the tensor. ``own_to`` is what is done with
    objects that move themselves, as in the module of that name.

    Raises:
        NotATensorError: ``tree`` is neither a tensor nor a container, or contains a model.
        UnsupportedContainerError: it contains an object that holds a tensor and is not registered,
            or a container that cannot be taken apart.
        CircularContainerError: it contains a container that contains itself.
    """
    return _mapped(function, tree, looked_through(tree, own_to=own_to))


def map_data(
    function_for: Callable[[list[tuple[Any, Backend | None]]], Callable[[Any, Any], Any]],
    tree: T,
    is_array: Callable[[object], bool],
    own_to: OwnTo = "refused",
) -> T:
    """As ``map_tensors``, also for leaves that are ``is_array`` but not tensors: without a backend.

    ``function_for`` is given all of them and returns the function. NumPy's arrays in an object that
    is not registered are an error beside any framework's tensors.
    """
    from unidev.tensors.own_to import Movable

    found = looked_through(tree, is_array=is_array, own_to=own_to)
    tensors = [
        (leaf.first if type(leaf) is Movable else leaf, backend) for _, leaf, backend in found[2]
    ]
    function = function_for(tensors)
    return _mapped(function, tree, found)


def _mapped(function: Callable[[Any, Any], Any], tree: T, looked: LookedThrough) -> T:
    from unidev.tensors.own_to import Movable

    leaves, structure, found = looked
    done: dict[int, Any] = {}
    changed = False
    for position, leaf, backend in found:
        key = id(leaf)
        if key in done:
            moved = done[key]
        elif type(leaf) is Movable:  # its errors have the path
            moved = done[key] = leaf.mapped(function)
        else:
            try:
                moved = done[key] = function(leaf, backend)
            except UnidevError as error:
                _say_where(error, structure, position)
                raise
        if moved is not leaves[position]:
            # The old leaf stays alive in `tree`, so no other leaf can get its id.
            leaves[position] = moved
            changed = True
    return unflatten(structure, leaves, tree) if changed else tree


def _say_where(error: UnidevError, structure: Any, position: int) -> None:
    """Put the path of the leaf before the message."""
    at = paths_of(structure)[position]
    if at and error.args:
        error.args = (f"at {at}: {error.args[0]}", *error.args[1:])


def tensors_of(tree: object) -> list[tuple[Any, Backend]]:
    """Each tensor of ``tree`` with its backend, in order; one that occurs twice is listed twice.

    Raises the same errors as ``map_tensors``.
    """
    return [(tensor, backend) for _, tensor, backend in looked_through(tree)[2]]


class Opened:
    """A tree taken apart; making one raises the same errors as ``map_tensors``."""

    def __init__(self, tree: Any) -> None:
        self._tree = tree
        self._leaves, self._structure, found = looked_through(tree)
        self.tensors = [(tensor, backend) for _, tensor, backend in found]
        """As of ``tensors_of``."""
        self._positions = [position for position, _, _ in found]

    @property
    def key(self) -> tuple[Any, ...]:
        """What trees of one structure have in common; its hash may raise, as that of a key may."""
        return self._structure, *self._positions

    def with_tensors(self, tensors: Iterable[Any]) -> Any:
        """The tree with ``tensors`` in place of its own, in their order."""
        leaves = list(self._leaves)
        for position, x in zip(self._positions, tensors, strict=True):
            leaves[position] = x
        return unflatten(self._structure, leaves, self._tree)

    def path(self, number: int) -> str:
        """The path, such as ``['mask']``, of the tensor ``number``."""
        return self.paths()[number]

    def paths(self) -> list[str]:
        """The path of each tensor: those of all take as long as that of one."""
        found = paths_of(self._structure)
        return [found[position] for position in self._positions]

    def layout(self) -> list[tuple[Any, ...]]:
        """For each tensor, the keys that lead to it, and the classes of the containers there."""
        accessors = self._structure.accessors()
        return [
            tuple((step.entry, step.type) for step in accessors[position])
            for position in self._positions
        ]

    def has_structure_of(self, other: Opened) -> bool:
        """Whether tensors stand at the same places in containers of the same classes."""
        try:  # fast; but the rest of a registered class may have an __eq__ that raises
            if self._structure == other._structure and self._positions == other._positions:
                return True
        except Exception:  # noqa: BLE001, S110
            pass
        return self.layout() == other.layout()


def named_tensors(tree: object, name: str) -> Iterator[tuple[str, Any, Backend]]:
    """Each tensor of ``tree`` with its path, such as ``batch['mask']``, and its backend.

    Includes the tensors of models in ``tree``: ``model.encoder.weight``. Their gradients are left
    out: they are where their parameters are, or belong to those of another replica.
    """
    _, structure, found = looked_through(tree, takes_models=True, own_to="looked into")
    paths = paths_of(structure) if found else []
    for position, leaf, backend in found:
        path = name + paths[position]
        if backend_of_type(type(leaf)) is not None:
            yield path, leaf, backend
        else:
            for within, tensor in backend.models.tensors(model_of(leaf)).items():
                if not within.endswith(".grad"):
                    yield (f"{path}.{within}" if path else within), tensor, backend


def _checked_flatten(cls: type[Any], flatten: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def checked(value: Any) -> Any:
        parts = flatten(value)
        if not isinstance(parts, tuple) or len(parts) != 2:
            raise UnsupportedContainerError(
                f"the flatten function of {shown(cls)} returned {shown(parts)}, not a tuple "
                "(children, rest)."
            )
        return parts

    return checked


def _dataclass_functions(cls: type[Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    from unidev.tensors.objects import ITEMS, contents, path_entry
    from unidev.tensors.opening import build_of_contents

    if issubclass(cls, tuple(ITEMS)) and not issubclass(cls, list):
        raise UnsupportedContainerError(
            f"the items of {shown(cls)} cannot be replaced beside its fields: pass flatten and "
            "unflatten."
        )

    def flatten(value: Any) -> tuple[Sequence[Any], Any, Sequence[str]]:
        # All that it holds: more than the fields if `__post_init__` sets more, or if it is a dict.
        held = list(contents(value))
        return [child for _, child in held], value, [path_entry(step) for step, _ in held]

    return flatten, build_of_contents
