"""Nested containers: each of their tensors mapped, listed or named, and the tree built anew."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import optree

from unidev.backends.loading import backend_of_type
from unidev.errors import UnidevError, UnsupportedContainerError
from unidev.system.wording import kind_of
from unidev.tensors.classify import model_of
from unidev.tensors.opening import Movable
from unidev.tensors.taking_apart import TakenApart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import TypeVar

    from unidev.contract.backend import Backend
    from unidev.tensors.taking_apart import OwnTo

    T = TypeVar("T")


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


def named_tensors(tree: object, name: str) -> Iterator[tuple[str, Any, Backend]]:
    """Each tensor of ``tree`` with its path, such as ``batch['mask']``, and its backend.

    Includes the tensors of models in ``tree``: ``model.encoder.weight``. Their gradients are left
    out: they are where their parameters are, or belong to those of another replica.
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
            for within, tensor in backend.models.tensors(model_of(leaf)).items():
                if not within.endswith(".grad"):
                    yield (f"{path}.{within}" if path else within), tensor, backend


class Opened(TakenApart):
    """A tree taken apart, that can be built anew of other tensors."""

    @cached_property
    def tensors(self) -> list[tuple[Any, Backend]]:
        """As of ``tensors_of``; the first one of an object that moves itself."""
        return [
            (x.tensors[0][1] if type(x) is Movable else x, backend) for _, x, backend in self.found
        ]

    @property
    def leaves(self) -> Sequence[Any]:
        """All leaves, those that are no tensors included."""
        return self._leaves

    @property
    def key(self) -> tuple[Any, ...]:
        """The key that trees of one structure share; its hash may raise, as a mapping key's may."""
        return self._structure, *(position for position, *_ in self.found)

    def mapped(self, function: Callable[[Any, Any], Any]) -> Any:
        """As ``replace_tensors``."""
        leaves = list(self._leaves)
        done: dict[int, Any] = {}
        changed = False
        for position, leaf, backend in self.found:
            key = id(leaf)
            if key not in done:
                try:
                    moves = type(leaf) is Movable
                    done[key] = leaf.mapped(function) if moves else function(leaf, backend)
                except UnidevError as error:
                    self._say_where(error, position)
                    raise
            if done[key] is not leaves[position]:
                # The old leaf stays alive in the tree, so no other leaf can get its id.
                leaves[position] = done[key]
                changed = True
        return self._rebuilt(leaves) if changed else self._tree

    def _say_where(self, error: UnidevError, position: int) -> None:
        """Put the path of the leaf before the message."""
        at = self._paths_of_leaves()[position]
        if at and error.args:
            error.args = (f"at {at}: {error.args[0]}", *error.args[1:])

    def with_tensors(self, tensors: Iterable[Any]) -> Any:
        """The tree with ``tensors`` in place of its own, in their order."""
        leaves = list(self._leaves)
        for (position, *_), x in zip(self.found, tensors, strict=True):
            leaves[position] = x
        return self._rebuilt(leaves)

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
        return [tuple((step.entry, step.type) for step in steps) for steps in self.steps()]

    def steps(self) -> list[Iterable[optree.PyTreeEntry]]:
        """For each tensor, the steps that lead to it."""
        return [self._accessors[position] for position, *_ in self.found]

    def has_structure_of(self, other: Opened) -> bool:
        """Whether tensors stand at the same places in containers of the same classes."""
        try:  # fast; but the rest of a registered class may have an __eq__ that raises
            if self.key == other.key:
                return True
        except Exception:  # noqa: BLE001, S110
            pass
        return self.layout() == other.layout()
