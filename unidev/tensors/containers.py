"""Nested containers: dicts, lists, tuples, namedtuples and registered classes, through optree."""

from __future__ import annotations

from unidev.errors import (
    CircularContainerError,
    NotATensorError,
    UnidevError,
    UnsupportedContainerError,
)
from unidev.registry.loading import backend_of_namespace, backend_of_type
from unidev.support.forking import fork_safe_lock
from unidev.support.wording import kind_of, shown
from unidev.tensors.classify import (
    CONTAINER,
    MODEL,
    OTHER,
    PLAIN,
    TENSOR,
    classify,
    is_dataclass,
    is_lazy,
    model_of,
    not_a_tensor,
)

TYPE_CHECKING = False  # not typing's: importing that takes as long as all of unidev
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any, TypeVar

    from unidev.contract.backend import Backend

    T = TypeVar("T")
    LookedThrough = tuple[list[Any], Any, list[tuple[int, Any, Any]]]

NAMESPACE = "unidev"

_registered: set[type] = set()
_derived: set[type] = set()
"""Those of them that were registered for the sake of a base."""
_registering = fork_safe_lock()


def register_container(
    cls: type[T],
    flatten: Callable[[T], tuple[Sequence[Any], Any]] | None = None,
    unflatten: Callable[[Any, Sequence[Any]], T] | None = None,
) -> type[T]:
    """Register how to take apart and rebuild containers of class ``cls``, in this process.

    Args:
        cls: exactly this class, and those of its subclasses that are dataclasses: they are walked
            like a dataclass that is registered. Other subclasses are registered separately.
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

    if not isinstance(cls, type):
        raise UnsupportedContainerError(f"{shown(cls)} of type {kind_of(cls)} is not a class.")
    if backend_of_type(cls) is not None:
        raise UnsupportedContainerError(f"{shown(cls)} is a class of tensors, not of containers.")
    if cls in _derived:  # by _covers
        optree.unregister_pytree_node(cls, namespace=NAMESPACE)
        _derived.discard(cls)
    entry: type[Any] = optree.AutoEntry
    if flatten is None and unflatten is None and is_dataclass(cls):
        functions: Any = _dataclass_functions(cls)
        # Entries are strings such as ".x" and "['x']".
        entry = type(
            "Entry", (optree.PyTreeEntry,), {"codify": lambda at, node="": node + at.entry}
        )
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


def map_tensors(function: Callable[[Any, Backend], Any], tree: T) -> T:
    """``tree`` with ``function(tensor, backend)`` in place of each tensor in it.

    A tensor that occurs twice is mapped once and stays one object. Non-tensor leaves pass through
    unchanged. If no tensor changes, ``tree`` itself is returned.

    Raises:
        NotATensorError: ``tree`` is neither a tensor nor a container, or contains a model.
        UnsupportedContainerError: it contains an object that holds a tensor and is not registered,
            or a container that cannot be taken apart.
        CircularContainerError: it contains a container that contains itself.
    """
    return _mapped(function, tree, _looked_through(tree))


def map_data(
    function_for: Callable[[list[tuple[Any, Backend | None]]], Callable[[Any, Any], Any]],
    tree: T,
    is_array: Callable[[object], bool],
) -> T:
    """As ``map_tensors``, also for leaves that are ``is_array`` but not tensors: without a backend.

    ``function_for`` is given all of them and returns the function. NumPy's arrays in an object that
    is not registered are an error beside any framework's tensors.
    """
    looked_through = _looked_through(tree, is_array=is_array)
    function = function_for([(leaf, backend) for _, leaf, backend in looked_through[2]])
    return _mapped(function, tree, looked_through)


def _mapped(function: Callable[[Any, Any], Any], tree: T, looked_through: LookedThrough) -> T:
    leaves, structure, found = looked_through
    done: dict[int, Any] = {}
    changed = False
    for position, leaf, backend in found:
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
    return [(tensor, backend) for _, tensor, backend in _looked_through(tree)[2]]


class Opened:
    """A tree taken apart; making one raises the same errors as ``map_tensors``."""

    def __init__(self, tree: Any) -> None:
        self._tree = tree
        self._leaves, self._structure, found = _looked_through(tree)
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
        return _unflatten(self._structure, leaves, self._tree)

    def path(self, number: int) -> str:
        """The path, such as ``['mask']``, of the tensor ``number``."""
        return _paths(self._tree)[self._positions[number]]

    def layout(self) -> list[tuple[Any, ...]]:
        """For each tensor, the keys that lead to it, and the classes of the containers there."""
        import optree

        accessors = optree.tree_accessors(self._tree, none_is_leaf=True, namespace=NAMESPACE)
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
    found = _looked_through(tree, takes_models=True)[2]
    paths = _paths(tree) if found else []
    for position, leaf, backend in found:
        path = name + paths[position]
        if backend_of_type(type(leaf)) is not None:
            yield path, leaf, backend
        else:
            for within, tensor in backend.models.tensors(model_of(leaf)).items():
                if not within.endswith(".grad"):
                    yield (f"{path}.{within}" if path else within), tensor, backend


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

    def step(entry: Any) -> str:
        if isinstance(entry, optree.MappingEntry):
            return f"[{shown(entry.entry)}]"
        return entry.codify("")  # type: ignore[no-any-return]

    accessors = optree.tree_accessors(tree, none_is_leaf=True, namespace=NAMESPACE)  # type: ignore[arg-type]
    try:
        return ["".join(map(step, accessor)) for accessor in accessors]
    except Exception:  # noqa: BLE001  a container's own entries can raise anything
        return [f"[leaf {position}]" for position in range(len(accessors))]


def _looked_through(
    tree: object,
    *,
    takes_models: bool = False,
    is_array: Callable[[object], bool] | None = None,
) -> LookedThrough:
    """All leaves, the structure, and the tensors (and models) by position, once all are checked.

    Also what else ``is_array``, with None in place of a backend.
    """
    leaves, structure = _flatten(tree)
    found: list[tuple[int, Any, Any]] = []
    others = []
    for position, leaf in enumerate(leaves):
        if type(leaf) in PLAIN and leaf is not tree:
            continue
        kind, backend = classify(leaf)
        if backend is not None and (kind == TENSOR or takes_models):
            found.append((position, leaf, backend))
        elif is_array is not None and kind == OTHER and is_array(leaf):
            found.append((position, leaf, None))
        else:
            others.append((position, leaf, kind))
    frameworks = {"numpy" if each is None else each.spec.framework for *_, each in found}
    if is_array is not None:
        frameworks.add("numpy")
    for position, leaf, kind in others:
        if _covers(type(leaf)):
            return _looked_through(tree, takes_models=takes_models, is_array=is_array)
        _check_leaf(leaf, kind, tree, position, frameworks)
    return leaves, structure, found


def _check_leaf(leaf: object, kind: str, tree: object, position: int, frameworks: set[str]) -> None:
    """Raise unless this leaf of this kind may pass through unchanged, beside tensors of these."""
    from unidev.tensors.objects import is_opaque, is_plain, path_to_tensor

    cls, is_container = type(leaf), kind == CONTAINER
    if kind == MODEL or (leaf is tree and is_plain(cls)):
        raise not_a_tensor(leaf)
    hidden = None
    if not is_plain(cls) and not is_lazy(cls):
        # Arrays beside another framework's tensors are data, as numbers are: they stay.
        may_move = is_container or leaf is tree
        counts_numpy = "numpy" in frameworks or (may_move and not frameworks)
        hidden = path_to_tensor(leaf, counts_numpy=counts_numpy)
    if hidden is not None or (is_container and (leaf is tree or is_lazy(cls) or is_opaque(cls))):
        at = _paths(tree)[position]
        owner = backend_of_namespace(cls)
        if owner is not None and issubclass(cls, owner.optimizer_types):
            raise NotATensorError(
                f"{kind_of(leaf)}{f' at {at}' if at else ''} is an optimizer: "
                "place(model, device, optimizer=optimizer) moves it along with its model."
            )
        holds = f"holds a tensor, at {at}{hidden}, and" if hidden else "may hold tensors, but"
        raise UnsupportedContainerError(
            f"{kind_of(leaf)}{f' at {at}' if at else ''} {holds} is not registered with unidev, so "
            "its tensors would not be moved. Register its class: unidev.register_container(cls, "
            "flatten, unflatten), or unidev.register_container(cls) for a dataclass; or pass its "
            "tensors by themselves. Instead of a generator or another iterator, pass list(...)."
        )
    if leaf is tree:
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


def _covers(cls: type) -> bool:
    """Whether ``cls`` was an unregistered dataclass with a registered base; now it is one too."""
    if is_dataclass(cls) and not _registered.isdisjoint(cls.__mro__[1:]):
        with _registering:
            if cls not in _registered:
                register_container(cls)
                _derived.add(cls)
                return True
    return False


def _dataclass_functions(cls: type[Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    from collections import OrderedDict

    from unidev.tensors.objects import ITEMS, contents, path_entry

    own: Any = next((kind for kind in (OrderedDict, dict, list) if issubclass(cls, kind)), None)
    if own is None and issubclass(cls, tuple(ITEMS)):
        raise UnsupportedContainerError(
            f"the items of {shown(cls)} cannot be replaced beside its fields: pass flatten and "
            "unflatten."
        )

    def flatten(value: Any) -> tuple[Sequence[Any], Any, Sequence[str]]:
        # All that it holds: more than the fields if `__post_init__` sets more, or if it is a dict.
        held = list(contents(value))
        steps = [step for step, _ in held]
        return [child for _, child in held], (value, steps), [path_entry(step) for step in steps]

    def unflatten(rest: Any, children: Sequence[Any]) -> Any:
        # Not cls(**fields): __init__ may take other arguments, and __post_init__ has already run.
        template, steps = rest
        try:
            made = (own or object).__new__(cls)
        except TypeError:  # a builtin's subclass, such as an exception, which holds more
            import copy

            made = copy.copy(template)
        for (is_attribute, key), child in zip(steps, children, strict=True):
            if is_attribute:
                object.__setattr__(made, key, child)
            elif own is list:
                list.append(made, child)
            else:
                own.__setitem__(made, key, child)
        return made

    return flatten, unflatten
