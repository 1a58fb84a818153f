"""Takes trees apart: dicts, lists, tuples, namedtuples and registered classes, through optree.

A tree is taken apart into leaves and a structure; leaves that hold tensors are replaced by what
they hold, until there are none.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import optree

from unidev.backends.loading import backends_by_type, new_containers, openers
from unidev.backends.selection import EMBEDDED, backend_choice
from unidev.errors import (
    AmbiguousBackendError,
    CircularContainerError,
    ContainerError,
    NotATensorError,
    UnidevError,
    UnsupportedContainerError,
)
from unidev.system.wording import kind_of, shown
from unidev.tensors.classify import (
    CONTAINER,
    MODEL,
    OTHER,
    PLAIN,
    TENSOR,
    classify,
    is_lazy,
    is_opaque,
    is_optimizer,
    is_plain,
    not_a_tensor,
    not_taken_apart,
    path_to_tensor,
)
from unidev.tensors.opening import (
    NAMESPACE,
    Movable,
    Unpacked,
    functions_of,
    has_own_to,
    opened_by_a_framework,
    register_plugins,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Literal

    Found = list[tuple[int, Any, Any]]
    """Positions of leaves, with what is there and its backend."""
    OwnTo = Literal["refused", "looked into", "moved", "copied"]
    """The treatment of an object that has its own ``to``: only transfers may call that."""

_LEAF = optree.treespec_leaf(none_is_leaf=True, namespace=NAMESPACE)


class TakenApart:
    """A tree taken apart; making one raises the same errors as ``replace_tensors``.

    Models are found where they are taken; so is what else ``is_array``, with None for a backend.
    Optimizers that are not among a backend's models are refused, or taken as other leaves are.
    Then NumPy's arrays in an object that is not registered are an error beside any framework's
    tensors. An object whose own ``to`` moves it is found as a ``Movable``.
    """

    def __init__(
        self,
        tree: Any,
        *,
        takes_models: bool = False,
        takes_optimizers: bool = False,
        is_array: Callable[[object], bool] | None = None,
        own_to: OwnTo = "refused",
    ) -> None:
        self._tree, self._own_to = tree, own_to
        self._takes_models, self._is_array = takes_models, is_array
        self._takes_optimizers = takes_optimizers
        self._frameworks = set() if is_array is None else {"numpy"}
        """Those of the tensors that were found so far."""
        self._leaves, self._structure = _flatten(tree)
        above: Sequence[tuple[int, ...]] = [()] * len(self._leaves)
        while True:
            self.found, others = self._sorted()
            opened, movable = {}, []
            if others:
                self._add_frameworks(self.found)
            for position, leaf, kind in others:
                way = self._way_into(position, leaf, kind)
                if isinstance(way, Movable):
                    movable.append((position, way, way.backend))
                elif way is not None:
                    if id(leaf) in above[position]:
                        raise _circular(tree)
                    opened[position] = way
            if not opened:
                break
            self._add_frameworks(movable)
            above = self._open(opened, above)
        if movable:
            self.found = sorted(self.found + movable, key=lambda found: found[0])

    def _sorted(self) -> tuple[Found, list[tuple[int, Any, str]]]:
        """The leaves that are looked for, and those to be checked, with their kinds."""
        tree = self._tree
        found: Found = []
        others = []
        for position, leaf in enumerate(self._leaves):
            cls = type(leaf)
            known = backends_by_type.get(cls)
            if known is not None:
                found.append((position, leaf, known))
                continue
            if cls in PLAIN and leaf is not tree:
                continue
            kind, backend = classify(leaf)
            if backend is not None and (kind == TENSOR or self._takes_models):
                found.append((position, leaf, backend))
            elif self._is_array is not None and kind == OTHER and self._is_array(leaf):
                found.append((position, leaf, None))
            elif not (self._takes_optimizers and is_optimizer(leaf)):
                others.append((position, leaf, kind))
        return found, others

    def _add_frameworks(self, found: Found) -> None:
        for backend in {backend for *_, backend in found}:
            self._frameworks.add("numpy" if backend is None else backend.spec.framework)

    def _way_into(self, position: int, leaf: object, kind: str) -> Unpacked | Movable | None:
        """This leaf of this kind taken apart, or to be moved by itself, if it holds a tensor.

        None if it may pass through unchanged, beside tensors of the frameworks found so far; NumPy
        is added where the leaf is the first that holds a tensor, and that is NumPy's.
        """
        cls, is_root = type(leaf), leaf is self._tree
        is_plain_or_lazy = is_plain(cls) or is_lazy(cls)
        if kind == MODEL or (is_root and is_plain(cls)):
            raise not_a_tensor(leaf)
        functions, opened, looked_into = functions_of(cls), None, leaf
        if functions is None and openers and not is_plain_or_lazy:
            opened = opened_by_a_framework(leaf)
            # Its tensors may be where no attribute leads, as those of a partial function.
            looked_into = leaf if opened is None else opened.children
        is_known = (functions or opened) is not None
        hidden, counts_numpy = None, False
        if not is_plain_or_lazy:
            counts_numpy = self._counts_numpy(may_move=kind == CONTAINER or is_root or is_known)
            hidden = path_to_tensor(looked_into, counts_numpy=counts_numpy)
        must_open = is_root and opened is not None
        if kind == CONTAINER:
            must_open = is_root or is_lazy(cls) or is_opaque(cls)
        if hidden is None and not must_open:
            if is_root:
                raise not_a_tensor(leaf)
            return None
        if is_known:
            self._add_numpy(looked_into, hidden)
            return opened if functions is None else Unpacked(leaf, functions)
        if hidden and self._own_to != "refused" and has_own_to(cls):
            return Movable(leaf, is_copied=self._own_to == "copied", counts_numpy=counts_numpy)
        raise _left_behind(leaf, self._paths_of_leaves()[position], hidden)

    def _add_numpy(self, x: object, hidden: str | None) -> None:
        """If ``x`` is the first that holds a tensor, and only NumPy's, for the objects in it."""
        if hidden and not self._frameworks and not path_to_tensor(x, counts_numpy=False):
            self._frameworks.add("numpy")

    def _counts_numpy(self, *, may_move: bool) -> bool:
        """Whether NumPy's arrays in an object are tensors, beside those that were found so far.

        Beside another framework's tensors they are data, as numbers are: they stay.
        """
        return "numpy" in self._frameworks or (
            not self._frameworks and (may_move or _is_numpy_selected())
        )

    def _open(
        self, opened: dict[int, Unpacked], above: Sequence[tuple[int, ...]]
    ) -> Sequence[tuple[int, ...]]:
        """Put the children of ``opened`` in place of leaves; the ids of what is above each leaf."""
        inner: list[Any] = []
        holders: list[tuple[int, ...]] = []
        structures = []
        for position, leaf in enumerate(self._leaves):
            held, own, owners = [leaf], _LEAF, above[position]
            if position in opened:
                held, own = _flatten(opened[position])
                owners = (*owners, id(leaf))
            inner += held
            holders += [owners] * len(held)
            structures.append(own)
        each = iter(structures)
        self._leaves = inner
        self._structure = optree.treespec_transform(self._structure, None, lambda _: next(each))
        return holders

    def _paths_of_leaves(self) -> list[str]:
        def step(entry: Any) -> str:
            if isinstance(entry, optree.MappingEntry):
                return f"[{shown(entry.entry)}]"
            return entry.codify("")  # type: ignore[no-any-return]

        try:
            return ["".join(map(step, accessor)) for accessor in self._accessors]
        except Exception:  # noqa: BLE001  a container's own entries can raise anything
            return [f"[leaf {position}]" for position in range(len(self._accessors))]

    @cached_property
    def _accessors(self) -> list[Any]:
        return self._structure.accessors()  # type: ignore[no-any-return]


def _flatten(tree: object) -> tuple[list[Any], Any]:
    if new_containers:
        register_plugins()
    try:
        # None is a leaf like any other: at the root it is not an empty container.
        return optree.tree_flatten(tree, none_is_leaf=True, namespace=NAMESPACE)  # type: ignore[arg-type]
    except RecursionError as error:
        raise _circular(tree) from error
    except UnidevError:
        raise
    except Exception as error:  # functions of the container and its keys can raise anything
        raise not_taken_apart(tree, error) from error


def _circular(tree: object) -> CircularContainerError:
    return CircularContainerError(
        f"the {kind_of(tree)} contains itself, or is nested deeper than "
        f"{optree.MAX_RECURSION_DEPTH} levels, so it cannot be copied item by item. Pass the parts "
        "that hold the tensors."
    )


def _is_numpy_selected() -> bool:
    """Whether arrays are the tensors of this program, so far as has been decided."""
    try:
        return backend_choice().name == EMBEDDED
    except AmbiguousBackendError:
        return False


def _left_behind(leaf: object, at: str, hidden: str | None) -> ContainerError | NotATensorError:
    """The error for an object whose tensors would not be moved."""
    where = f"{kind_of(leaf)}{f' at {at}' if at else ''}"
    if is_optimizer(leaf):
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
