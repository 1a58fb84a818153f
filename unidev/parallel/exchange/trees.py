"""One worker's tree, in words that others can compare, and the rows of all workers' trees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.backends.boundary import call
from unidev.contract.dtypes import portable_name
from unidev.errors import InvalidDataError
from unidev.parallel.devices.arguments import common_rows, one_backend, ties_of, unique_tensors
from unidev.parallel.devices.packing import kinds_of, unrecorded
from unidev.system.arguments import non_negative_integer
from unidev.system.wording import count_text, shown
from unidev.tensors.checks import check_same_device
from unidev.tensors.containers import Opened

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from unidev.contract.backend import Backend
    from unidev.device import Device
    from unidev.parallel.devices.packing import Kind

    Tensor = Any


class Tree:
    """A tree that takes part in a collective.

    Attributes:
        backend: of its tensors.
        tensors: in order; tied ones, which are one object, once.
        kinds: the shape and the dtype of each.
        device: that of all of them.
    """

    def __init__(self, tree: Any, *, is_whole: bool = False) -> None:
        self.tree = tree
        self._opened = Opened(tree)
        self.backend = one_backend(self._opened.tensors, "the tree")
        if is_whole:  # what has the tensors' own rows and sums
            self._opened.check_whole()
        self.backend.collectives.check_dense([x for x, _ in self._opened.tensors], True)
        self._ties = ties_of(self._opened)
        self.tensors: list[Tensor] = unique_tensors(self._opened, self._ties)
        self.kinds: list[Kind] = kinds_of(self.tensors)
        self.device: Device = self._common_device()

    @classmethod
    def of_own(cls, names: Sequence[str], tensors: list[Tensor], backend: Backend) -> Tree:
        """Tensors that unidev has made, by name, as a list: nothing has to be looked for in it."""
        if len(set(map(id, tensors))) < len(tensors):
            return cls(tensors)
        return _Named(names, tensors, backend)

    def key(self) -> Hashable | None:
        """Equal for trees of one structure; None if a part of it has no hash."""
        key = (self._opened.key, tuple(self._ties), tuple(self.kinds), self.device)
        try:
            hash(key)
        except Exception:  # noqa: BLE001  the keys and classes are the user's own
            return None
        return key

    def path(self, position: int) -> str:
        """Where the tensor at ``position`` is: ``tree[0]``."""
        return f"tree{self._opened.path(self._ties.index(position))}"

    def lines(self) -> list[str]:
        """Each tensor in words, the same on every worker with such a tree."""
        lines, seen = [], set[int]()
        described = described_kinds(self.kinds, self.backend)
        opened = zip(self._opened.layout(), self._opened.paths(), self._ties, strict=True)
        for steps, path, tie in opened:
            inside = "".join(f" of a {step[1].__name__}" for step in reversed(steps))
            where = f" at {path}{inside}" if steps else ""
            tied = f", tied to the tensor {tie}" if tie in seen else ""
            lines.append(f"{described[self.kinds[tie]]}{where}{tied}")
            seen.add(tie)
        return lines

    def with_tensors(self, tensors: Sequence[Tensor]) -> Any:
        """The tree with other tensors."""
        return self._opened.with_tensors(tensors[tie] for tie in self._ties)

    def _common_device(self) -> Device:
        """Raises DeviceMismatchError, with the paths, if there is none."""
        device_of = self.backend.device_of
        first = device_of(self.tensors[0])
        if any([device_of(x) is not first for x in self.tensors]):  # noqa: C419  faster than lazily
            check_same_device(tree=self._shown())
        return first

    def _shown(self) -> Any:
        """For the paths of an error."""
        return self.tree


class _Named(Tree):
    """Different tensors of one backend, by name."""

    def __init__(self, names: Sequence[str], tensors: list[Tensor], backend: Backend) -> None:
        self.tree = tensors
        self._names = tuple(names)
        self.backend = backend
        self.tensors = tensors
        self.kinds = kinds_of(tensors)
        self.device = self._common_device()

    def key(self) -> Hashable:
        return (self._names, tuple(self.kinds), self.device)

    def path(self, position: int) -> str:
        return f"tree[{self._names[position]!r}]"

    def lines(self) -> list[str]:
        described = described_kinds(self.kinds, self.backend)
        named = zip(self.kinds, self._names, strict=True)
        return [f"{described[kind]} at [{name!r}]" for kind, name in named]

    def with_tensors(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        return list(tensors)

    def _shown(self) -> dict[str, Tensor]:
        return dict(zip(self._names, self.tensors, strict=True))


def described_kinds(kinds: Sequence[Kind], backend: Backend) -> dict[Kind, str]:
    """Each different one in words."""
    dtypes = dict.fromkeys(kind.dtype for kind in kinds)
    names = {dtype: portable_name(dtype, backend) or dtype for dtype in dtypes}
    return {kind: f"a {names[kind.dtype]} tensor of shape {kind.shape}" for kind in set(kinds)}


def gathered_rows(tree: Any, padded: object, gather: Callable[[Any], Sequence[Any]]) -> Any:
    """As ``Group.gather_rows``, by the group's ``all_gather``: what each has padded is left out."""
    given = Tree(tree, is_whole=True)
    rows = common_rows(
        (kind.shape[0] if kind.shape else None for kind in given.kinds),
        given.path, "so no rows", "gather_rows needs tensors with the same number of rows",
    )  # fmt: skip
    left_out = non_negative_integer(padded, rows)
    if left_out is None:
        raise InvalidDataError(
            f"padded must be a number from 0 to {count_text(rows, 'row')} of this worker, not "
            f"{shown(padded)}."
        )
    backend, device = given.backend, given.device
    own = backend.from_numpy(np.array([rows, left_out]), backend.dtypes["int64"], device)
    counts = [backend.to_numpy(each).tolist() for each in gather(own)]
    most = max(count for count, _ in counts)
    use = backend.collectives

    def filled(x: Tensor) -> Tensor:
        shape = (most - rows, *(int(size) for size in x.shape[1:]))
        return use.concatenate([x, backend.zeros(shape, x.dtype, device)])

    def joined(parts: Sequence[Tensor]) -> Tensor:
        kept = zip(parts, counts, strict=True)
        return use.concatenate([use.rows(x, 0, count - less) for x, (count, less) in kept])

    doing = "gathering rows of the workers"
    with unrecorded(backend):
        equal = given.tensors
        if rows < most:
            equal = [call(backend, filled, x, doing=doing) for x in given.tensors]
        trees = [Tree(each).tensors for each in gather(given.with_tensors(equal))]
        found = [call(backend, joined, parts, doing=doing) for parts in zip(*trees, strict=True)]
    return given.with_tensors(found)
