"""Checks of the devices, the weights and the trees that a caller passes."""

from __future__ import annotations

import math
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from unidev.device import Device
from unidev.errors import (
    BackendMismatchError,
    DeviceSpecError,
    InvalidDataError,
    NotATensorError,
    UnsupportedContainerError,
)
from unidev.parallel.devices.packing import Kind, kinds_of
from unidev.system.arguments import real_number
from unidev.system.wording import count_text, kind_of, shown
from unidev.tensors.checks import check_memory
from unidev.tensors.containers import Opened
from unidev.tensors.device_messages import mixed_backends
from unidev.tensors.devices import resolve_device

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from unidev.contract.backend import Backend

    Tensor = Any


def checked_devices(devices: object, backend: Backend) -> list[Device]:
    """``devices`` as devices of ``backend``, all available."""
    if not isinstance(devices, (list, tuple)) or not devices:
        raise DeviceSpecError(
            "devices must be a list with at least one device, such as unidev.try_all_gpus(), not "
            f"{shown(devices)}.",
            spec=devices,
        )
    for device in devices:
        if isinstance(device, Device) and device.backend != backend.name:
            raise BackendMismatchError(
                f"{device} is a device of {device.backend}, and the tensors are of {backend.name}: "
                f"unidev.convert(batch, {device.backend!r}) makes those of {device.backend}, where "
                "they are.",
                backend=device.backend,
            )
    return [resolve_device(device, backend) for device in devices]


def checked_weights(weights: object, count: int, each: str) -> list[float] | None:
    """``weights`` as a list of ``count`` positive numbers, one for ``each``; None stays None."""
    if weights is None:
        return None
    found = [real_number(each) for each in weights] if isinstance(weights, (list, tuple)) else []
    numbers = [number for number in found if number is not None and 0 < number < math.inf]
    if len(numbers) != count or len(found) != count:
        raise InvalidDataError(
            f"weights must be a list of {count_text(count, 'positive number')}, one for {each}, "
            f"not {shown(weights)}."
        )
    return numbers


class Aligned:
    """Trees of one structure on one backend, and what stands at the same places in them.

    Attributes:
        lists: for each tree its tensors in order; tied ones, which are one object, once.
    """

    def __init__(self, trees: object, name: str) -> None:
        if not isinstance(trees, (list, tuple)) or not trees:
            found = "an empty list" if isinstance(trees, (list, tuple)) else f"a {kind_of(trees)}"
            raise UnsupportedContainerError(
                f"{name} must be a list with one tree for each device, not {found}."
            )
        self._name = name
        self._opened = [Opened(tree) for tree in trees]
        self._ties = [ties_of(tree) for tree in self._opened]
        self.backend = one_backend([x for tree in self._opened for x in tree.tensors], name)
        for number in range(1, len(trees)):
            self._check_structure(number)
        self.lists = [unique_tensors(*each) for each in zip(self._opened, self._ties, strict=True)]

    def path(self, number: int, position: int) -> str:
        """Where tree ``number`` has the tensor at ``position`` of its list: ``trees[1]['w']``."""
        path = self._opened[number].path(self._ties[0].index(position))
        return f"{self._name}[{number}]{path}"

    def with_tensors(self, lists: Sequence[Sequence[Tensor]]) -> list[Any]:
        """The trees with other tensors, given like ``lists``."""
        return [
            tree.with_tensors(tensors[position] for position in self._ties[0])
            for tree, tensors in zip(self._opened, lists, strict=True)
        ]

    def kinds(self, *, first_dimension: bool = True) -> list[Kind]:
        """The shape and the dtype of each tensor of the first tree.

        Raises:
            InvalidDataError: those of another tree differ, if only in the ``first_dimension``.
            UnsupportedOperation: one is sparse, ragged or nested.
        """
        check_whole(self._opened, self.backend, is_packed=first_dimension)
        kinds, start = kinds_of(self.lists[0]), int(not first_dimension)
        # The first has its own kinds; only its dimensions may be too few.
        for number, tensors in enumerate(self.lists[1 - start :], 1 - start):
            if first_dimension and kinds_of(tensors) == kinds:
                continue
            for position, x in enumerate(tensors):
                first, shape = kinds[position], tuple(x.shape)
                if len(shape) < start:
                    raise InvalidDataError(
                        f"{self.path(number, position)} has no dimension, so no rows to join: "
                        "all_reduce averages losses, as value_and_grad of a DataParallel does."
                    )
                if shape[start:] != first.shape[start:] or x.dtype != first.dtype:
                    raise InvalidDataError(
                        f"{self.path(number, position)} is {_described(Kind(shape, x.dtype))}, but "
                        f"{self.path(0, position)} is {_described(first)}: shapes"
                        f"{' after the first dimension' * start} and dtypes must match."
                    )
        return kinds

    def _check_structure(self, number: int) -> None:
        first, other = self._opened[0], self._opened[number]
        if not other.has_structure_of(first):
            pairs = zip(first.layout(), other.layout(), strict=False)
            same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
            raise InvalidDataError(
                f"{self._name} must have one structure, but {self._name}[0] has "
                f"{_place(first, same)}, and {self._name}[{number}] has {_place(other, same)}."
            )
        if self._ties[number] != self._ties[0]:
            raise InvalidDataError(
                f"{self._name}[0] and {self._name}[{number}] differ in which tensors are one "
                "object: tie the same ones in each."
            )


def check_whole(trees: Sequence[Opened], backend: Backend, *, is_packed: bool) -> None:
    """Refuse sparse, ragged and nested tensors; to be packed, all but one block of numbers."""
    for tree in trees:
        tree.check_whole()
        backend.collectives.check_dense([x for x, _ in tree.tensors], is_packed)


def one_backend(tensors: Sequence[tuple[Tensor, Backend]], name: str) -> Backend:
    """The backend of all ``tensors``, which it may compute with: none is deleted."""
    if not tensors:
        raise NotATensorError(f"{name} contains no tensors.")
    for _, backend in tensors:
        if backend is not tensors[0][1]:
            raise mixed_backends(f"{name} holds tensors", tensors[0][1], backend)
    check_memory(tensors[0][1], [x for x, _ in tensors])
    return tensors[0][1]


def common_rows(
    rows: Iterable[int | None], path: Callable[[int], str], lacks: str, differ: str
) -> int:
    """The number of rows of all tensors; ``lacks`` and ``differ`` are for messages."""
    found: dict[int, int] = {}
    for position, count in enumerate(rows):
        if count is None:
            raise InvalidDataError(f"{path(position)} has no dimension, {lacks}.")
        found.setdefault(count, position)
    if len(found) > 1:
        listed = ", ".join(f"{path(at)}: {count}" for count, at in found.items())
        raise InvalidDataError(f"{differ}; found {listed}.")
    return next(iter(found))


def _described(kind: Kind) -> str:
    return f"a {kind.dtype} tensor of shape {kind.shape}"


def ties_of(tree: Opened) -> list[int]:
    """For each tensor, its position among the different ones."""
    seen: dict[int, int] = {}
    return [seen.setdefault(id(x), len(seen)) for x, _ in tree.tensors]


def unique_tensors(tree: Opened, ties: list[int]) -> list[Tensor]:
    """The tensors, tied ones once."""
    if ties[-1] == len(ties) - 1:
        return [x for x, _ in tree.tensors]
    return list({id(x): x for x, _ in tree.tensors}.values())


def _place(tree: Opened, number: int) -> str:
    """Where the tensor ``number`` of a tree is, and in what container."""
    if number == len(tree.tensors):
        return f"only {count_text(number, 'tensor')}"
    steps = tree.layout()[number]
    inside = f" in a {steps[-1][1].__name__}" if steps else ""
    return f"a tensor at {tree.path(number) or 'the top'}{inside}"
