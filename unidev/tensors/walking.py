"""Looks through a tree: its leaves, its structure, and the tensors in it, once all are checked."""

from __future__ import annotations

from unidev.errors import (
    AmbiguousBackendError,
    CircularContainerError,
    ContainerError,
    NotATensorError,
    UnidevError,
    UnsupportedContainerError,
)
from unidev.registry.loading import backend_of_namespace, backends_by_type, new_containers
from unidev.registry.selection import EMBEDDED, backend_choice
from unidev.support.wording import kind_of, shown
from unidev.tensors.classify import (
    CONTAINER,
    MODEL,
    OTHER,
    PLAIN,
    TENSOR,
    classify,
    is_lazy,
    not_a_tensor,
)

TYPE_CHECKING = False  # not typing's: importing that takes as long as all of unidev
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeVar

    from unidev.tensors.opening import Opener, Unpacked
    from unidev.tensors.own_to import Movable, OwnTo

    T = TypeVar("T")
    LookedThrough = tuple[list[Any], Any, list[tuple[int, Any, Any]]]

NAMESPACE = "unidev"
"""That of optree in which containers are registered."""


def _flatten(tree: object) -> tuple[list[Any], Any]:
    import optree

    if new_containers:
        from unidev.tensors.opening import register_plugins

        register_plugins()
    try:
        # None is a leaf like any other: at the root it is not an empty container.
        return optree.tree_flatten(tree, none_is_leaf=True, namespace=NAMESPACE)  # type: ignore[arg-type]
    except RecursionError as error:
        raise _circular(tree) from error
    except UnidevError:
        raise
    except Exception as error:  # functions of the container and its keys can raise anything
        raise UnsupportedContainerError(
            f"this {kind_of(tree)} cannot be taken apart: {kind_of(error)}: {error}"
        ) from error


def _circular(tree: object) -> CircularContainerError:
    import optree

    return CircularContainerError(
        f"the {kind_of(tree)} contains itself, or is nested deeper than "
        f"{optree.MAX_RECURSION_DEPTH} levels, so it cannot be copied item by item. Pass the parts "
        "that hold the tensors."
    )


def unflatten(structure: Any, leaves: list[Any], tree: T) -> T:
    """A tree of this structure with these leaves; ``tree`` is named where that fails."""
    import optree

    try:
        return optree.tree_unflatten(structure, leaves)  # type: ignore[return-value]
    except Exception as error:  # as above
        raise UnsupportedContainerError(
            f"this {kind_of(tree)} cannot be rebuilt: {kind_of(error)}: {error}"
        ) from error


def paths_of(structure: Any) -> list[str]:
    """The path, such as ``['x'][0]``, of each leaf."""
    import optree

    def step(entry: Any) -> str:
        if isinstance(entry, optree.MappingEntry):
            return f"[{shown(entry.entry)}]"
        return entry.codify("")  # type: ignore[no-any-return]

    accessors = structure.accessors()
    try:
        return ["".join(map(step, accessor)) for accessor in accessors]
    except Exception:  # noqa: BLE001  a container's own entries can raise anything
        return [f"[leaf {position}]" for position in range(len(accessors))]


def looked_through(
    tree: object,
    *,
    takes_models: bool = False,
    is_array: Callable[[object], bool] | None = None,
    own_to: OwnTo = "refused",
) -> LookedThrough:
    """All leaves, the structure, and the tensors (and models) by position, once all are checked.

    Also what else ``is_array``, with None in place of a backend. ``own_to``, of the module of that
    name, is what is done with objects that move themselves: those are found as ``Movable``.
    """
    from unidev.tensors.own_to import Movable

    leaves, structure = _flatten(tree)
    above: Sequence[tuple[int, ...]] = [()] * len(leaves)
    search = _Search(tree, own_to, set() if is_array is None else {"numpy"})
    while True:
        found, others = _sorted(leaves, tree, takes_models, is_array)
        search.frameworks |= {"numpy" if b is None else b.spec.framework for *_, b in found}
        opened, movable = {}, []
        for position, leaf, kind in others:
            checked = _checked_leaf(leaf, kind, (structure, position), search)
            if isinstance(checked, Movable):
                movable.append((position, checked, checked.backend))
            elif checked is not None:
                if id(leaf) in above[position]:
                    raise _circular(tree)
                opened[position] = checked.opened(leaf)
        if not opened:
            return leaves, structure, found + movable
        leaves, structure, above = _with_opened(leaves, structure, above, opened)


def _sorted(
    leaves: list[Any], tree: object, takes_models: bool, is_array: Callable[[object], bool] | None
) -> tuple[list[tuple[int, Any, Any]], list[tuple[int, Any, str]]]:
    """The leaves that are looked for, with their backends, and those to be checked, by position."""
    found: list[tuple[int, Any, Any]] = []
    others = []
    for position, leaf in enumerate(leaves):
        cls = type(leaf)
        known = backends_by_type.get(cls)
        if known is not None:
            found.append((position, leaf, known))
            continue
        if cls in PLAIN and leaf is not tree:
            continue
        kind, backend = classify(leaf)
        if backend is not None and (kind == TENSOR or takes_models):
            found.append((position, leaf, backend))
        elif is_array is not None and kind == OTHER and is_array(leaf):
            found.append((position, leaf, None))
        else:
            others.append((position, leaf, kind))
    return found, others


def _with_opened(
    leaves: list[Any],
    structure: Any,
    above: Sequence[tuple[int, ...]],
    opened: dict[int, Unpacked],
) -> tuple[list[Any], Any, Sequence[tuple[int, ...]]]:
    """Leaves and structure with the children of ``opened`` in place of leaves, by position."""
    import optree

    parts = {position: _flatten(each) for position, each in opened.items()}
    positions = iter(range(len(leaves)))

    def spec_of(leaf: Any) -> Any:
        position = next(positions)
        return parts[position][1] if position in parts else leaf

    inner: list[Any] = []
    holders: list[tuple[int, ...]] = []
    for position, leaf in enumerate(leaves):
        held = parts[position][0] if position in parts else [leaf]
        owners = (id(leaf),) if position in parts else ()
        inner += held
        holders += [(*above[position], *owners)] * len(held)
    return inner, optree.treespec_transform(structure, None, spec_of), holders


class _Search:
    """What is looked through, and how."""

    __slots__ = ("frameworks", "own_to", "tree")

    def __init__(self, tree: object, own_to: OwnTo, frameworks: set[str]) -> None:
        self.tree = tree
        self.own_to = own_to
        self.frameworks = frameworks
        """Those of the tensors that were found so far."""


def _checked_leaf(
    leaf: object, kind: str, place: tuple[Any, int], search: _Search
) -> Opener | Movable | None:
    """How to open or move this leaf of this kind, if it holds a tensor; raise if that is not known.

    None if it may pass through unchanged, beside tensors of these frameworks; NumPy is added where
    the leaf is the first that holds a tensor, and that is NumPy's.
    """
    from unidev.tensors.objects import is_opaque, is_plain, path_to_tensor
    from unidev.tensors.opening import opener_of
    from unidev.tensors.own_to import Movable, has_own_to, looking_opener

    cls, is_container = type(leaf), kind == CONTAINER
    if kind == MODEL or (leaf is search.tree and is_plain(cls)):
        raise not_a_tensor(leaf)
    hidden, counts_numpy = None, False
    if not is_plain(cls) and not is_lazy(cls):
        # Arrays beside another framework's tensors are data, as numbers are: they stay.
        may_move = is_container or leaf is search.tree or opener_of(cls) is not None
        counts_numpy = "numpy" in search.frameworks or (
            not search.frameworks and (may_move or _is_numpy_selected())
        )
        hidden = path_to_tensor(leaf, counts_numpy=counts_numpy)
    if hidden is not None or (
        is_container and (leaf is search.tree or is_lazy(cls) or is_opaque(cls))
    ):
        opener = opener_of(cls)
        if opener is not None:
            if hidden and not search.frameworks and not path_to_tensor(leaf, counts_numpy=False):
                search.frameworks.add("numpy")  # for the objects in this one
            return opener
        at = paths_of(place[0])[place[1]]
        if hidden and search.own_to != "refused" and has_own_to(cls):
            if search.own_to == "looked into":
                return looking_opener(counts_numpy=counts_numpy)
            return Movable(leaf, at, is_copied=search.own_to == "copied", counts_numpy=counts_numpy)
        raise _left_behind(leaf, at, hidden)
    if leaf is search.tree:
        raise not_a_tensor(leaf)
    return None


def _is_numpy_selected() -> bool:
    """Whether arrays are the tensors of this program, so far as has been decided."""
    try:
        return backend_choice().name == EMBEDDED
    except AmbiguousBackendError:
        return False


def _left_behind(leaf: object, at: str, hidden: str | None) -> ContainerError | NotATensorError:
    """The error for an object whose tensors would not be moved."""
    where = f"{kind_of(leaf)}{f' at {at}' if at else ''}"
    owner = backend_of_namespace(type(leaf))
    if owner is not None and issubclass(type(leaf), owner.optimizer_types):
        return NotATensorError(
            f"{where} is an optimizer: place(model, device, optimizer=optimizer) moves it along "
            "with its model."
        )
    holds = f"holds a tensor, at {at}{hidden}, and" if hidden else "may hold tensors, but"
    return UnsupportedContainerError(
        f"{where} {holds} is not registered with unidev, so its tensors would not be moved. "
        "Register its class: unidev.register_container(cls, flatten, unflatten); or pass its "
        "tensors by themselves. Instead of a generator or another iterator, pass list(...)."
    )
