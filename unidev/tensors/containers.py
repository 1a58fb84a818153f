"""Nested containers: dicts, lists, tuples, namedtuples and registered classes, through optree."""

from __future__ import annotations

from unidev.errors import CircularContainerError, UnidevError, UnsupportedContainerError
from unidev.registry.loading import backend_of_type
from unidev.support.wording import kind_of, shown
from unidev.tensors.classify import CONTAINER, MODEL, TENSOR, classify, model_of, not_a_tensor

TYPE_CHECKING = False  # not typing's: importing that takes as long as all of unidev
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any, TypeVar

    from unidev.contract.backend import Backend

    T = TypeVar("T")

NAMESPACE = "unidev"


def register_container(
    cls: type[T],
    flatten: Callable[[T], tuple[Sequence[Any], Any]] | None = None,
    unflatten: Callable[[Any, Sequence[Any]], T] | None = None,
) -> type[T]:
    """Register how to take apart and rebuild containers of class ``cls``, in this process.

    Args:
        cls: exactly this class; subclasses are registered separately.
        flatten: takes a container and returns ``(children, rest)``: the items that may be or hold
            tensors, and whatever else is needed to rebuild the container.
        unflatten: takes ``rest, children`` and returns a new container. A dataclass, frozen or not,
            needs neither function: its fields are the children, and ``__init__`` is not called
            again.

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

    if not isinstance(cls, type):
        raise UnsupportedContainerError(f"{shown(cls)} of type {kind_of(cls)} is not a class.")
    if backend_of_type(cls) is not None:
        raise UnsupportedContainerError(f"{shown(cls)} is a class of tensors, not of containers.")
    entry: type[Any] = optree.AutoEntry
    if flatten is None and unflatten is None and hasattr(cls, "__dataclass_fields__"):
        functions: Any = _dataclass_functions(cls)
        entry = optree.GetAttrEntry
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
    return cls


def map_tensors(function: Callable[[Any, Backend], Any], tree: T) -> T:
    """``tree`` with ``function(tensor, backend)`` in place of each tensor in it.

    A tensor that occurs twice is mapped once and stays one object. Non-tensor leaves pass through
    unchanged. If no tensor changes, ``tree`` itself is returned.

    Raises:
        NotATensorError: ``tree`` is neither a tensor nor a container, or contains a model.
        UnsupportedContainerError: it contains an unknown container, or one that cannot be taken
            apart.
        CircularContainerError: it contains a container that contains itself.
    """
    leaves, structure = _flatten(tree)
    done: dict[int, Any] = {}
    changed = False
    for position, leaf in enumerate(leaves):
        kind, backend = classify(leaf)
        if kind != TENSOR or backend is None:
            _check_leaf(leaf, kind, tree, position)
            continue
        if id(leaf) not in done:
            done[id(leaf)] = function(leaf, backend)
        moved = done[id(leaf)]
        if moved is not leaf:
            # The old leaf stays alive in `tree`, so no other leaf can get its id.
            leaves[position] = moved
            changed = True
    return _unflatten(structure, leaves, tree) if changed else tree


def tensors_of(tree: object) -> list[tuple[Any, Backend]]:
    """Each tensor of ``tree`` with its backend, in order; one that occurs twice is listed twice.

    Raises the same errors as ``map_tensors``.
    """
    return Opened(tree).tensors


class Opened:
    """A tree taken apart; making one raises the same errors as ``map_tensors``."""

    def __init__(self, tree: Any) -> None:
        self.tree = tree
        self._leaves, self._structure = _flatten(tree)
        self.tensors: list[tuple[Any, Backend]] = []
        """As of ``tensors_of``."""
        self.positions: list[int] = []
        """Where they stand among the leaves."""
        for position, leaf in enumerate(self._leaves):
            backend = backend_of_type(type(leaf))
            if backend is None:
                _check_leaf(leaf, classify(leaf)[0], tree, position)
            else:
                self.tensors.append((leaf, backend))
                self.positions.append(position)

    def with_tensors(self, tensors: Iterable[Any]) -> Any:
        """The tree with ``tensors`` in place of its own, in their order."""
        leaves = list(self._leaves)
        for position, x in zip(self.positions, tensors, strict=True):
            leaves[position] = x
        return _unflatten(self._structure, leaves, self.tree)

    def layout(self) -> list[tuple[Any, ...]]:
        """For each tensor, the keys that lead to it, and the classes of the containers there."""
        import optree

        accessors = optree.tree_accessors(self.tree, none_is_leaf=True, namespace=NAMESPACE)
        return [
            tuple((step.entry, step.type) for step in accessors[position])
            for position in self.positions
        ]

    def has_structure_of(self, other: Opened) -> bool:
        """Whether tensors stand at the same places in containers of the same classes."""
        try:  # fast; but the rest of a registered class may have an __eq__ that raises
            if self._structure == other._structure and self.positions == other.positions:
                return True
        except Exception:  # noqa: BLE001, S110
            pass
        return self.layout() == other.layout()


def named_tensors(tree: object, name: str) -> Iterator[tuple[str, Any, Backend]]:
    """Each tensor of ``tree`` with its path, such as ``batch['mask']``, and its backend.

    Includes the tensors of models in ``tree``: ``model.encoder.weight``.
    """
    leaves, _ = _flatten(tree)
    paths: list[str] | None = None
    for position, leaf in enumerate(leaves):
        kind, backend = classify(leaf)
        if backend is None:
            _check_leaf(leaf, kind, tree, position)
            continue
        paths = paths or _paths(tree)
        path = name + paths[position]
        if kind == TENSOR:
            yield path, leaf, backend
        else:
            for within, tensor in backend.models.tensors(model_of(leaf)).items():
                yield (f"{path}.{within}" if path else within), tensor, backend


def path_of(tree: object, position: int) -> str:
    """The path, such as ``['mask']``, of the leaf at ``position``."""
    return _paths(tree)[position]


def _flatten(tree: object) -> tuple[list[Any], Any]:
    import optree

    try:
        # None is a leaf like any other: at the root it is not an empty container.
        return optree.tree_flatten(tree, none_is_leaf=True, namespace=NAMESPACE)  # type: ignore[arg-type]
    except RecursionError as error:
        raise CircularContainerError(
            f"the {kind_of(tree)} contains itself, or is nested deeper than "
            f"{optree.MAX_RECURSION_DEPTH} levels, so it cannot be copied item by item. Pass the "
            "parts that hold the tensors."
        ) from error
    except UnidevError:
        raise
    except Exception as error:  # functions of the container and its keys can raise anything
        raise UnsupportedContainerError(
            f"this {kind_of(tree)} cannot be taken apart: {kind_of(error)}: {error}"
        ) from error


def _unflatten(structure: Any, leaves: list[Any], tree: T) -> T:
    import optree

    try:
        return optree.tree_unflatten(structure, leaves)  # type: ignore[return-value]
    except Exception as error:  # as above
        raise UnsupportedContainerError(
            f"this {kind_of(tree)} cannot be rebuilt: {kind_of(error)}: {error}"
        ) from error


def _paths(tree: object) -> list[str]:
    import optree

    accessors = optree.tree_accessors(tree, none_is_leaf=True, namespace=NAMESPACE)  # type: ignore[arg-type]
    try:
        return [accessor.codify("") for accessor in accessors]
    except Exception:  # noqa: BLE001  a key's __repr__ can raise anything
        return [f"[leaf {position}]" for position in range(len(accessors))]


def _check_leaf(leaf: object, kind: str, tree: object, position: int) -> None:
    """Raise unless this leaf of this kind may pass through unchanged."""
    if kind == CONTAINER:
        at = path_of(tree, position)
        raise UnsupportedContainerError(
            f"{kind_of(leaf)}{f' at {at}' if at else ''} is a container that is not registered "
            "with unidev, so its tensors would not be moved. Register its class: "
            "unidev.register_container(cls, flatten, unflatten), or unidev.register_container(cls) "
            "for a dataclass. Instead of a generator or another iterator, pass list(...)."
        )
    if kind == MODEL or leaf is tree:
        raise not_a_tensor(leaf)


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
    import dataclasses

    names = [field.name for field in dataclasses.fields(cls)]

    def flatten(value: Any) -> tuple[Sequence[Any], Any, Sequence[str]]:
        there = [name for name in names if hasattr(value, name)]  # init=False may never be set
        return [getattr(value, name) for name in there], (value, there), there

    def unflatten(rest: Any, children: Sequence[Any]) -> Any:
        # Not cls(**fields): __init__ may take other arguments, and __post_init__ has already run.
        import copy

        template, there = rest
        made = copy.copy(template)
        for name, child in zip(there, children, strict=True):
            object.__setattr__(made, name, child)
        return made

    return flatten, unflatten
