"""Trees of containers: each of their tensors visited, named or replaced.

A tree of dicts, lists, tuples, namedtuples and registered classes is taken apart by optree into
leaves and a structure; leaves that hold tensors are opened in turn, until there are none.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import cached_property
from typing import TYPE_CHECKING, Any

import optree

from unidev.backends.loading import backend_of_type, backends_by_type, new_containers, openers
from unidev.backends.selection import is_numpy_selected
from unidev.contract.containers import is_lazy
from unidev.errors import (
    CircularContainerError,
    ContainerError,
    NotATensorError,
    UnidevError,
    UnsupportedContainerError,
    UnsupportedOperation,
)
from unidev.system.wording import kind_of, shown
from unidev.tensors.hidden_tensors import (
    Movable,
    has_own_to,
    holds_more,
    key_with_tensor,
    path_to_tensor,
)
from unidev.tensors.kinds import (
    CONTAINER,
    MODEL,
    OTHER,
    PLAIN,
    TENSOR,
    classify,
    is_opaque,
    is_optimizer,
    is_plain,
    model_of,
    not_a_tensor,
    say_where,
)
from unidev.tensors.taking_apart import (
    NAMESPACE,
    Unpacked,
    functions_of,
    items_apart,
    items_together,
    not_taken_apart,
    opened_by_a_framework,
    register_plugins,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Literal, TypeVar

    from unidev.contract.backend import Backend, ContainerFunctions

    T = TypeVar("T")
    Found = list[tuple[int, Any, Any]]
    """Positions of leaves, with what is there and its backend."""
    OwnTo = Literal["refused", "looked into", "moved", "copied"]
    """The treatment of an object that has its own ``to``: only transfers may call that."""


def replace_tensors(
    function: Callable[[Any, Backend], Any], tree: T, *, own_to: OwnTo = "refused"
) -> T:
    """``tree`` with ``function(tensor, backend)`` in place of each tensor in it.

    A tensor that occurs twice is mapped once and stays one object. Non-tensor leaves pass through
    unchanged. If no tensor changes, ``tree`` itself is returned. Errors that are unidev's get the
    path of the tensor. ``own_to``: what is done with objects that move themselves.

    Raises:
        NotATensorError: ``tree`` is neither a tensor nor a container, or contains a model.
        UnsupportedContainerError: it contains an object that holds a tensor and is not registered,
            or a container that cannot be taken apart.
        CircularContainerError: it contains a container that contains itself.
    """
    return Opened(tree, own_to=own_to).mapped(function)  # type: ignore[no-any-return]


def tensors_of(tree: object) -> list[tuple[Any, Backend]]:
    """Each tensor of ``tree`` with its backend, in order; one that occurs twice is listed twice.

    Raises the same errors as ``replace_tensors``.
    """
    return Opened(tree).tensors


def named_tensors(
    tree: object, name: str, *, all_of_models: bool
) -> Iterator[tuple[str, Any, Backend]]:
    """Each tensor of ``tree`` with its path, such as ``batch['mask']``, and its backend.

    Includes the tensors of models in ``tree``: ``model.encoder.weight``; with ``all_of_models``
    those that are not registered, too. Their gradients are left out: they are where their
    parameters are, or belong to those of another replica.
    """
    opened = Opened(tree, takes_models=True, own_to="looked into")
    for at, (_, leaf, backend) in zip(opened.paths(), opened.found, strict=True):
        path = name + at
        if type(leaf) is Movable:
            for within, tensor, owner in leaf.tensors:
                yield path + within, tensor, owner
        elif backend_of_type(type(leaf)) is not None:
            yield path, leaf, backend
        else:
            models, model = backend.models, model_of(leaf)
            beside = models.unregistered(model) if all_of_models else {}
            for within, tensor in {**models.tensors(model), **beside}.items():
                if not within.endswith(".grad"):
                    yield (f"{path}.{within}" if path else within), tensor, backend


_LEAF = optree.treespec_leaf(none_is_leaf=True, namespace=NAMESPACE)


class Opened:
    """A tree taken apart, that can be built anew of other tensors.

    Making one raises the same errors as ``replace_tensors``.

    Models are found where they are taken; so is what else ``is_array``, with None for a backend.
    Optimizers that are not among a backend's models are refused, or taken as other leaves are.
    Then NumPy's arrays in an object that is not registered are an error beside any framework's
    tensors. An object whose own ``to`` moves it is found as a ``Movable``.
    """

    takes_numbers = False
    """Whether containers without a tensor are taken apart, too."""

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
        self._arrays: list[object] = []
        """Containers that are arrays to their framework, as JAX's sparse ones."""
        self._frameworks = set() if is_array is None else {"numpy"}
        """Those of the tensors that were found so far."""
        self.leaves, self._structure = _flatten(tree)  # those that are no tensors included
        above: Sequence[tuple[int, ...]] = [()] * len(self.leaves)
        while True:
            self.found, others = self._sorted()
            opened, movable = {}, []
            if others:
                self._add_frameworks(self.found)
            for position, leaf, kind in others:
                self._check_keys(position, leaf)
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
        for position, leaf in enumerate(self.leaves):
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

    def _check_keys(self, position: int, leaf: Any) -> None:
        key = key_with_tensor(leaf) if issubclass(type(leaf), dict) else None
        if key is not None:
            at = self._paths_of_leaves()[position]
            raise UnsupportedContainerError(
                f"{kind_of(leaf)}{f' at {at}' if at else ''} has a {kind_of(key)} as a key, whose "
                "tensor would not be moved. Pass list(x.items()), or a dict with names as keys: an "
                "optimizer's state_dict() is one, and place(model, device, optimizer=optimizer) "
                "moves its state."
            )

    def _way_into(self, position: int, leaf: object, kind: str) -> Unpacked | Movable | None:
        """This leaf of this kind taken apart, or to be moved by itself, if it holds a tensor.

        None if it may pass through unchanged, beside tensors of the frameworks found so far; NumPy
        is added where the leaf is the first that holds a tensor, and that is NumPy's.
        """
        cls, is_root = type(leaf), leaf is self._tree
        is_plain_or_lazy = is_plain(cls) or is_lazy(cls)
        if kind == MODEL or (is_root and is_plain(cls)):
            raise not_a_tensor(leaf)
        known = len(openers)
        functions, opened, looked_into = _functions_for(leaf), None, leaf
        if functions is None and openers and not is_plain_or_lazy:
            opened = opened_by_a_framework(leaf)
            # Its tensors may be where no attribute leads, as those of a partial function.
            looked_into = leaf if opened is None else opened.children
        is_known = (functions or opened) is not None
        hidden, counts_numpy = None, False
        if not is_plain_or_lazy:
            counts_numpy = self._counts_numpy(may_move=kind == CONTAINER or is_root or is_known)
            hidden = path_to_tensor(looked_into, counts_numpy=counts_numpy)
        if len(openers) > known:  # looking at a tensor has loaded what may know its container
            return self._way_into(position, leaf, kind)
        must_open = is_root and (opened is not None or kind == CONTAINER)
        must_open |= kind == CONTAINER and (is_lazy(cls) or is_opaque(cls))
        must_open |= self.takes_numbers and is_known and not is_plain_or_lazy
        if hidden is None and not must_open:
            if is_root:
                raise not_a_tensor(leaf)
            return None
        if is_known:
            self._add_numpy(looked_into, hidden)
            if opened is not None and hasattr(leaf, "shape") and hasattr(leaf, "dtype"):
                self._arrays.append(leaf)
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
            not self._frameworks and (may_move or is_numpy_selected())
        )

    def _open(
        self, opened: dict[int, Unpacked], above: Sequence[tuple[int, ...]]
    ) -> Sequence[tuple[int, ...]]:
        """Put the children of ``opened`` in place of leaves; the ids of what is above each leaf."""
        inner: list[Any] = []
        holders: list[tuple[int, ...]] = []
        structures = []
        for position, leaf in enumerate(self.leaves):
            held, own, owners = [leaf], _LEAF, above[position]
            if position in opened:
                held, own = _flatten(opened[position])
                owners = (*owners, id(leaf))
            inner += held
            holders += [owners] * len(held)
            structures.append(own)
        each = iter(structures)
        self.leaves = inner
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

    @cached_property
    def tensors(self) -> list[tuple[Any, Backend]]:
        """As of ``tensors_of``; the first one of an object that moves itself."""
        return [
            (x.tensors[0][1] if type(x) is Movable else x, backend) for _, x, backend in self.found
        ]

    def check_whole(self) -> None:
        """Before tensors are taken by rows, or computed with: each is an array of its own.

        Raises:
            UnsupportedOperation: the tensors of an array that is several, as JAX's sparse ones.
        """
        for x in self._arrays:
            way = "x.todense() makes one" if hasattr(x, "todense") else "make a dense array first"
            raise UnsupportedOperation(f"this, for a {kind_of(x)},", f"it is several arrays: {way}")

    @property
    def key(self) -> tuple[Any, ...]:
        """The key that trees of one structure share; its hash may raise, as a mapping key's may."""
        return self._structure, *(position for position, *_ in self.found)

    def mapped(self, function: Callable[[Any, Any], Any]) -> Any:
        """As ``replace_tensors``."""
        leaves = list(self.leaves)
        done: dict[int, Any] = {}
        changed = False
        for position, leaf, backend in self.found:
            key = id(leaf)
            if key not in done:
                try:
                    moves = type(leaf) is Movable
                    done[key] = leaf.mapped(function) if moves else function(leaf, backend)
                except UnidevError as error:
                    say_where(error, self._paths_of_leaves()[position])
                    raise
            if done[key] is not leaves[position]:
                # The old leaf stays alive in the tree, so no other leaf can get its id.
                leaves[position] = done[key]
                changed = True
        return self._rebuilt(leaves) if changed else self._tree

    def with_tensors(self, tensors: Iterable[Any]) -> Any:
        """The tree with ``tensors`` in place of its own, in their order."""
        positions = (position for position, *_ in self.found)
        return self.with_leaves(dict(zip(positions, tensors, strict=True)))

    def with_leaves(self, new: Mapping[int, Any]) -> Any:
        """The tree with other leaves at these positions."""
        return self._rebuilt([new.get(at, leaf) for at, leaf in enumerate(self.leaves)])

    def _rebuilt(self, leaves: list[Any]) -> Any:
        try:
            return optree.tree_unflatten(self._structure, leaves)
        except Exception as error:  # functions of the container can raise anything
            raise UnsupportedContainerError(
                f"this {kind_of(self._tree)} cannot be rebuilt: {kind_of(error)}: {error}"
            ) from error

    def path(self, number: int) -> str:
        """The path, such as ``['mask']``, of the tensor ``number``."""
        return self.paths()[number]

    def paths(self) -> list[str]:
        """The path of each tensor: those of all take as long as that of one."""
        found = self._paths_of_leaves() if self.found else []
        return [found[position] for position, *_ in self.found]

    def layout(self) -> list[tuple[Any, ...]]:
        """For each tensor, the keys that lead to it, and the classes of the containers there."""
        at = (position for position, *_ in self.found)
        return [tuple((step.entry, step.type) for step in steps) for steps in self.steps_to(at)]

    def steps_to(self, positions: Iterable[int]) -> list[Iterable[optree.PyTreeEntry]]:
        """The steps that lead to the leaves at these positions."""
        return [self._accessors[position] for position in positions]

    def has_structure_of(self, other: Opened) -> bool:
        """Whether tensors stand at the same places in containers of the same classes."""
        try:  # fast; but the rest of a registered class may have an __eq__ that raises
            if self.key == other.key:
                return True
        except Exception:  # noqa: BLE001, S110
            pass
        return self.layout() == other.layout()


def _flatten(tree: object) -> tuple[list[Any], Any]:
    if new_containers:
        register_plugins()
    try:
        # None is a leaf like any other: at the root it is not an empty container.
        return optree.tree_flatten(tree, holds_more, none_is_leaf=True, namespace=NAMESPACE)  # type: ignore[arg-type]
    except RecursionError as error:
        raise _circular(tree) from error
    except UnidevError:
        raise
    except Exception as error:  # functions of the container and its keys can raise anything
        raise not_taken_apart(tree, error) from error


def _functions_for(x: Any) -> ContainerFunctions | None:
    """As ``functions_of``; but attributes of an ordered dict without a tensor are no children."""
    if type(x) is OrderedDict and not path_to_tensor(x.__dict__, counts_numpy=True):
        return items_apart, items_together
    return functions_of(type(x))


def _circular(tree: object) -> CircularContainerError:
    return CircularContainerError(
        f"the {kind_of(tree)} contains itself, or is nested deeper than "
        f"{optree.MAX_RECURSION_DEPTH} levels, so it cannot be copied item by item. Pass the parts "
        "that hold the tensors."
    )


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
