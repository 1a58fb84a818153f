"""Models that are trees: containers of tensors, of which new ones are made.

For frameworks whose tensors are immutable (``Models.rebuilds_containers``). Such a model has no
identity: what changes it returns another, which shares with it what did not change.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import optree

from unidev.contract.models import Stored, is_number
from unidev.errors import BackendMismatchError, InvalidDataError, NotATensorError
from unidev.system.wording import kind_of
from unidev.tensors.containers import Opened, replace_tensors
from unidev.tensors.device_messages import mixed_backends, two_backends
from unidev.tensors.taking_apart import WrittenStep

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from unidev.contract.backend import Backend
    from unidev.device import Device

_STEP = re.compile(
    r"""\.(?P<attribute>\w+)|\[(?P<position>-?\d+)\]|\[(['"])(?P<key>(?:(?!\3).)*)\3\]"""
)
"""A step as containers give it: ``.x``, ``[0]``, ``['x']``; they may give several at once."""


def is_tree(model: Any, backend: Backend) -> bool:
    """Whether a model of this backend is a tree, and no model with an identity."""
    return backend.models.rebuilds_containers and not backend.is_model(model)


def _named(tree: Any, paths: Iterable[Iterable[Any]], found: Sequence[Any]) -> dict[str, Any]:
    """``found`` by the keys and attributes that lead to each, joined with dots.

    Raises:
        InvalidDataError: two have one name.
    """
    named = ((s for s in steps if s.entry or type(s) is not WrittenStep) for steps in paths)
    names = [".".join(map(_word, steps)) for steps in named]
    if len({*names}) < len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise InvalidDataError(f"two tensors of this {kind_of(tree)} have the name {twice!r}.")
    return dict(zip(names, found, strict=True))


def parameters(tree: Any) -> dict[str, Any]:
    """Each tensor once, under its first name."""
    unique: dict[int, tuple[str, Any]] = {}
    for name, (x, _) in stored(tree).items():
        unique.setdefault(id(x), (name, x))
    return dict(unique.values())


def stored(tree: Any) -> dict[str, Stored]:
    """As ``Models.stored``: all tensors; one that occurs twice has two names."""
    opened = Opened(tree)
    at = (position for position, *_ in opened.found)
    return _named(tree, opened.steps_to(at), [Stored(x) for x, _ in opened.tensors])


def placed(tree: Any, optimizer: Any, device: Device, backend: Backend) -> tuple[Any, Any]:
    """As ``Models.placed``; the optimizer's state is a tree, too, and may share tensors with it."""
    moved: dict[int, Any] = {}

    def move(x: Any, owner: Backend) -> Any:
        if owner is not backend:
            raise mixed_backends("model and optimizer hold tensors", backend, owner)
        if backend.is_bound(x, device):
            return x
        if id(x) not in moved:  # the trees keep `x` alive
            moved[id(x)] = backend.copy_to(x, device, False)
        return moved[id(x)]

    new = replace_tensors(move, tree)
    if optimizer is None:
        return new, None
    try:
        return new, replace_tensors(move, optimizer)
    except NotATensorError as error:
        raise NotATensorError(
            "the optimizer of a tree is its state, a container of tensors, not "
            f"{kind_of(optimizer)}: {error}"
        ) from error


def rebuilt(tree: Any, old: Iterable[Any], new: Iterable[Any]) -> Any:
    """``tree`` with the tensors ``new`` in place of ``old``, wherever it has them."""
    by_id: Mapping[int, Any] = {id(x): y for x, y in zip(old, new, strict=True)}
    return replace_tensors(lambda x, _: by_id[id(x)], tree)


class _WithNumbers(Opened):
    takes_numbers = True


def _numbers(tree: Any) -> tuple[Opened, dict[str, int]]:
    """``tree``, taken apart, and where its numbers are, by the names that tensors would have."""
    opened = _WithNumbers(tree)
    names = {backend.name for _, backend in opened.tensors}
    if len(names) > 1:  # in a container of its own NumPy's array was data until now
        what = f"a checkpoint of a {kind_of(tree)} with tensors"
        raise BackendMismatchError(two_backends(what, *sorted(names)), backend=min(names))
    positions = [at for at, leaf in enumerate(opened.leaves) if is_number(leaf)]
    return opened, _named(tree, opened.steps_to(positions), positions)


def numbers(tree: Any) -> dict[str, Any]:
    """As ``Models.numbers``."""
    opened, found = _numbers(tree)
    return {name: opened.leaves[position] for name, position in found.items()}


def with_numbers(tree: Any, new: Mapping[str, Any]) -> Any:
    """As ``Models.with_numbers``: a new tree, unless all are the same."""
    opened, found = _numbers(tree)
    return opened.with_leaves({found[name]: number for name, number in new.items()})


def _word(step: optree.PyTreeEntry) -> str:
    """A step as a word of a name, or several."""
    if isinstance(step, optree.NamedTupleEntry):
        return step.field
    if not isinstance(step, WrittenStep):
        return str(step.entry)
    found = [*_STEP.finditer(step.entry)]
    if "".join(each[0] for each in found) != step.entry:
        return str(step.entry).lstrip(".")
    words = (each.group("attribute", "position", "key") for each in found)
    return ".".join(word for each in words for word in each if word is not None)
