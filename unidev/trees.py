"""Nested containers: dicts, lists, tuples, namedtuples, and what is registered, through optree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from unidev.errors import CircularContainerError, UnsupportedContainerError
from unidev.loading import backend_of_type, is_model, not_a_tensor

TYPE_CHECKING = False  # not typing's: importing that takes as long as all of unidev
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, TypeVar

    from unidev.backend import Backend

    T = TypeVar("T")

NAMESPACE = "unidev"

_HARMLESS = (str, bytes, bytearray, memoryview, range)
"""Sequences whose items cannot be tensors."""


def register_container(
    cls: type[T],
    flatten: Callable[[T], tuple[Sequence[Any], Any]] | None = None,
    unflatten: Callable[[Any, Sequence[Any]], T] | None = None,
) -> type[T]:
    """Tell unidev how to look into containers of class ``cls``, for the whole process.

    Args:
        cls: the class itself; its subclasses are other classes.
        flatten: gives ``(children, rest)``: what may be or hold tensors, and whatever else is
            needed to build another one.
        unflatten: builds one from ``(rest, children)``. For a dataclass, frozen or not, both may
            be left out: its fields are the children, and ``__init__`` is not called again.

    Returns:
        ``cls``, so that it can stand as a decorator over a dataclass.

    Raises:
        UnsupportedContainerError: ``cls`` is no dataclass and the functions are missing, or it is
            known already.

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
    import dataclasses

    import optree

    if flatten is None or unflatten is None:
        if not dataclasses.is_dataclass(cls):
            raise UnsupportedContainerError(
                f"{cls!r} is no dataclass: register_container(cls, flatten, unflatten) needs to "
                "be told how to take one apart and build one."
            )
        flatten, unflatten = _dataclass_functions(cls)

    def flatten_func(value: T) -> tuple[Sequence[Any], Any]:
        return flatten(value)

    try:
        optree.register_pytree_node(cls, flatten_func, unflatten, namespace=NAMESPACE)  # type: ignore[arg-type]  # optree asks for its own protocol
    except (TypeError, ValueError) as error:
        raise UnsupportedContainerError(f"{cls!r} cannot be registered: {error}") from error
    return cls


def map_tensors(function: Callable[[Any, Backend], Any], tree: T) -> T:
    """``tree`` with ``function(tensor, backend)`` in place of each tensor in it.

    A tensor that stands twice is given once, and stays one. What is no tensor is left as it is, and
    a tree none of whose tensors changes is returned itself.

    Raises:
        NotATensorError: ``tree`` is neither a tensor nor a container, or a model is in it.
        UnsupportedContainerError: a container in it is not known.
        CircularContainerError: a container in it contains itself.
    """
    import optree

    leaves, structure = _flatten(tree)
    done: dict[int, Any] = {}
    changed = False
    for position, leaf in enumerate(leaves):
        backend = backend_of_type(type(leaf))
        if backend is None:
            _check_leaf(leaf, tree, position)
            continue
        if id(leaf) not in done:
            done[id(leaf)] = function(leaf, backend)
        moved = done[id(leaf)]
        if moved is not leaf:
            # The old leaf stays alive in `tree`, so that no other leaf can get its id.
            leaves[position] = moved
            changed = True
    return optree.tree_unflatten(structure, leaves) if changed else tree  # type: ignore[return-value]


def named_tensors(tree: object, name: str) -> Iterator[tuple[str, Any, Backend]]:
    """Each tensor of ``tree`` with its path, such as ``batch['mask']``, and its backend."""
    leaves, _ = _flatten(tree)
    paths: list[str] | None = None
    for position, leaf in enumerate(leaves):
        backend = backend_of_type(type(leaf))
        if backend is None:
            _check_leaf(leaf, tree, position)
            continue
        paths = paths or _paths(tree)
        yield name + paths[position], leaf, backend


def path_of(tree: object, position: int) -> str:
    """The path, such as ``['mask']``, of the leaf at ``position``."""
    return _paths(tree)[position]


def _flatten(tree: object) -> tuple[list[Any], Any]:
    import optree

    try:
        return optree.tree_flatten(tree, namespace=NAMESPACE)  # type: ignore[arg-type]
    except RecursionError as error:
        raise CircularContainerError(
            f"the {type(tree).__name__} contains itself, or is nested deeper than "
            f"{optree.MAX_RECURSION_DEPTH} levels: it cannot be copied piece by piece. Pass the "
            "parts that hold the tensors."
        ) from error


def _paths(tree: object) -> list[str]:
    import optree

    return [
        accessor.codify("")
        for accessor in optree.tree_accessors(tree, namespace=NAMESPACE)  # type: ignore[arg-type]
    ]


def _check_leaf(leaf: object, tree: object, position: int) -> None:
    if leaf is tree and not _is_container(leaf):
        raise not_a_tensor(leaf)
    if _is_container(leaf):
        at = path_of(tree, position)
        raise UnsupportedContainerError(
            f"{type(leaf).__module__}.{type(leaf).__qualname__}{f' at {at}' if at else ''} is a "
            "container that unidev does not know: its tensors would stay where they are. Say how "
            "to look into it: unidev.register_container(cls, flatten, unflatten), or, for a "
            "dataclass, unidev.register_container(cls)."
        )
    if is_model(leaf):
        raise not_a_tensor(leaf)


def _is_container(x: object) -> bool:
    if isinstance(x, (Mapping, Sequence, Set)):
        return not isinstance(x, _HARMLESS)
    # dataclasses.is_dataclass, whose module takes longer to import than all of unidev.
    return hasattr(type(x), "__dataclass_fields__")


def _dataclass_functions(
    cls: type[Any],
) -> tuple[Callable[[Any], tuple[Sequence[Any], Any]], Callable[[Any, Sequence[Any]], Any]]:
    import dataclasses

    names = [field.name for field in dataclasses.fields(cls)]

    def flatten(value: Any) -> tuple[Sequence[Any], Any]:
        return [getattr(value, name) for name in names], value

    def unflatten(template: Any, children: Sequence[Any]) -> Any:
        # Not cls(**fields): __init__ may take other arguments, and __post_init__ has run already.
        import copy

        made = copy.copy(template)
        for name, child in zip(names, children, strict=True):
            object.__setattr__(made, name, child)
        return made

    return flatten, unflatten
