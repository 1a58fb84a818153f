"""One worker's tree: its tensors, and its structure in words that other workers can compare."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from unidev.contract.dtypes import portable_name
from unidev.parallel.arguments import one_backend, ties_of, unique_tensors
from unidev.parallel.packing import kinds_of
from unidev.tensors.checks import check_same_device
from unidev.tensors.containers import Opened

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from unidev.contract.device import Device
    from unidev.parallel.packing import Kind

    Tensor = Any


class Tree:
    """A tree that takes part in a collective.

    Attributes:
        backend: of its tensors.
        tensors: in order; tied ones, which are one object, once.
        kinds: the shape and the dtype of each.
        device: that of all of them.
    """

    def __init__(self, tree: Any) -> None:
        self.tree = tree
        self._opened = Opened(tree)
        self.backend = one_backend(self._opened.tensors, "the tree")
        self._ties = ties_of(self._opened)
        self.tensors: list[Tensor] = unique_tensors(self._opened, self._ties)
        self.kinds: list[Kind] = kinds_of(self.tensors)
        device_of = self.backend.device_of
        self.device: Device = device_of(self.tensors[0])
        if any(device_of(x) is not self.device for x in self.tensors):
            check_same_device(tree=tree)  # raises, with the paths

    def key(self) -> Hashable | None:
        """Equal for trees of one structure; None if a part of it has no hash."""
        key = (self._opened.key, tuple(self._ties), tuple(self.kinds), self.device)
        try:
            hash(key)
        except Exception:  # noqa: BLE001  the keys and classes are the user's own
            return None
        return key

    def path(self, position: int) -> str:
        """Where the tensor at ``position`` is."""
        return self._opened.path(self._ties.index(position))

    def lines(self) -> list[str]:
        """Each tensor in words, the same on every worker with such a tree."""
        lines = []
        for number, (steps, tie) in enumerate(zip(self._opened.layout(), self._ties, strict=True)):
            shape, dtype = self.kinds[tie]
            name = portable_name(dtype, self.backend) or dtype
            inside = "".join(f" of a {step[1].__name__}" for step in reversed(steps))
            where = f" at {self._opened.path(number)}{inside}" if steps else ""
            tied = f", tied to the tensor {tie}" if self._ties.index(tie) != number else ""
            lines.append(f"a {name} tensor of shape {shape}{where}{tied}")
        return lines

    def with_tensors(self, tensors: Sequence[Tensor]) -> Any:
        """The tree with other tensors."""
        return self._opened.with_tensors(tensors[tie] for tie in self._ties)


def signature(call: str, lines: Sequence[str]) -> int:
    """A number for what is exchanged, the same in every process."""
    text = "\n".join([call, *lines]).encode()
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "little")
