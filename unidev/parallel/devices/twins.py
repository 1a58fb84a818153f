"""A model's twins on other devices, swapped in one at a time and kept up to date, packed."""

from __future__ import annotations

from contextlib import contextmanager
from operator import is_
from typing import TYPE_CHECKING, Any, NamedTuple

from unidev.backends.boundary import call
from unidev.backends.transfers import of_model
from unidev.errors import DeviceMismatchError
from unidev.parallel.devices.packing import copied_to, write
from unidev.system.interrupts import held_interrupts
from unidev.system.wording import kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from unidev.contract.backend import Backend
    from unidev.device import Device

    Tensor = Any
    Part = Any

OPERATION = "DataParallel"
"""The name of its transfers in a trace."""


class State(NamedTuple):
    """The current parameters and buffers of a model, and their forms."""

    tensors: dict[str, Tensor]
    """Parameters and buffers, each once, by path, without gradients and random states."""
    forms: list[tuple[Any, ...]]
    """Shapes, dtypes and the names of what is trained: new ones need new twins."""

    @classmethod
    def of(cls, model: Any, backend: Backend) -> State:
        """Parameters and buffers of ``model``."""
        models = backend.models
        random = {id(x) for x in models.random_states(model).values()}
        unique: dict[int, tuple[str, Tensor]] = {}
        for path, x in models.tensors(model).items():
            if not path.endswith(".grad") and id(x) not in random:
                unique.setdefault(id(x), (path, x))
        tensors = dict(unique.values())
        forms: list[tuple[Any, ...]] = [(*x.shape, x.dtype) for x in tensors.values()]
        return cls(tensors, [*forms, tuple(models.trainable(model))])

    def is_like(self, other: State) -> bool:
        """Whether both have the same objects, of the same forms; their values may differ."""
        mine, others = self.tensors.values(), other.tensors.values()
        return (
            len(mine) == len(others) and all(map(is_, mine, others)) and self.forms == other.forms
        )


class Bindings:
    """The entries of dictionaries, to be restored."""

    def __init__(self, namespaces: Iterable[dict[str, Any]]) -> None:
        self._held = [(each, each.copy()) for each in namespaces]

    def restore(self) -> None:
        """Give each dictionary its entries back, and take out those that are new."""
        for namespace, entries in self._held:
            for name in namespace.keys() - entries.keys():
                del namespace[name]
            namespace.update(entries)


class Twins:
    """The twins of a model, which itself is on ``devices[0]``."""

    def __init__(self, model: Any, backend: Backend, devices: Sequence[Device]) -> None:
        self.model = model
        self.backend = backend
        self.devices = devices
        self._bound = self._bindings()
        """The bindings of the model's names at the beginning of a step."""
        self._make(State.of(model, backend))

    def _bindings(self) -> Bindings:
        return Bindings(self.backend.models.namespaces(self.model))

    def _make(self, state: State) -> None:
        model, backend, others = self.model, self.backend, self.devices[1:]
        call(
            backend, self._copy, state,
            doing=f"copying a {kind_of(model)} for several devices",
            operation=OPERATION,
            transfers=lambda: [
                each for device in others for each in of_model(OPERATION, model, device, backend)
            ],
        )  # fmt: skip
        self._state = state

    def _copy(self, state: State) -> None:
        models, others = self.backend.models, self.devices[1:]
        self._compiled = list(models.compiled(self.model, None))
        self._parts = [*models.parts(self.model, None), *self._compiled]
        self._twins = [[models.twin(part, device) for part in self._parts] for device in others]
        models.wait_for([twin for twins in self._twins for twin in twins])
        self._targets: list[list[Tensor]] = []
        for index in range(1, len(self.devices)):
            with self._swapped(index):
                found = State.of(self.model, self.backend).tensors
                self._targets.append([found[path] for path in state.tensors])
                self._reseed(index)

    def _reseed(self, index: int) -> None:
        models = self.backend.models
        for x in models.random_states(self.model).values():
            models.write(x, models.read(x) + index * _FAR % 2**31)

    @contextmanager
    def restoring(self) -> Iterator[None]:
        """A block after which the model's buffers are as before if it raises."""
        trained = {id(x) for x in self.backend.models.parameters(self.model).values()}
        buffers = [x for x in self._state.tensors.values() if id(x) not in trained]
        (kept,) = copied_to(self.backend, buffers, self.devices[:1], OPERATION)
        try:
            yield
        except BaseException:
            self._bound.restore()
            if buffers:
                write(self.backend, buffers, kept)
            raise

    def current(self, count: int) -> list[Sequence[Tensor]]:
        """The values of all that the first ``count`` replicas must have, on the device of each.

        Raises:
            DeviceMismatchError: the model is not on the first device any more.
        """
        if count < 2:
            return [()]
        models, device_of, first = self.backend.models, self.backend.device_of, self.devices[0]
        if not models.is_placed(self.model, first):
            where = {path: device_of(x) for path, x in models.tensors(self.model).items()}
            if any(device is not first for device in where.values()):
                raise DeviceMismatchError(
                    f"the {kind_of(self.model)} was moved away from {first}, the first device of "
                    f"its DataParallel: place(model, {str(first)!r}) moves it back.",
                    devices=where,
                )
        state = State.of(self.model, self.backend)
        if not state.is_like(self._state):
            self._make(state)
        self._bound = self._bindings()
        sources = list(state.tensors.values())
        return [(), *copied_to(self.backend, sources, self.devices[1:count], OPERATION)]

    @contextmanager
    def at(self, index: int, values: Sequence[Tensor]) -> Iterator[Any]:
        """The model as the replica ``index``, with these values."""
        if index == 0:
            yield self.model
            return
        first = self._bindings()
        try:
            self._bound.restore()  # what the first replica has bound anew is on its device
            with self._swapped(index):
                write(self.backend, self._targets[index - 1], values)
                self.backend.models.adapt(self.model, self.devices[index])
                yield self.model
        finally:
            self._bound.restore()
            first.restore()

    @contextmanager
    def _swapped(self, index: int) -> Iterator[None]:
        models = self.backend.models
        self._add_compiled(0)
        swapped: list[tuple[Part, Part]] = []
        try:
            with held_interrupts():
                for pair in zip(self._parts, self._twins[index - 1], strict=True):
                    models.swap(*pair)
                    swapped.append(pair)
            try:
                yield
            finally:
                self._add_compiled(index)
        finally:
            try:
                self._swap_back(swapped)
            except BaseException:  # a signal may have come before they were held
                self._swap_back(swapped)
                raise

    def _swap_back(self, swapped: list[tuple[Part, Part]]) -> None:
        with held_interrupts():
            while swapped:
                self.backend.models.swap(*swapped[-1])
                swapped.pop()

    def _add_compiled(self, index: int) -> None:
        """Make twins of what the framework has compiled for the replica that is swapped in."""
        models, (first, *others) = self.backend.models, self.devices
        for part in models.compiled(self.model, self._compiled):
            twins = [models.twin(part, device) for device in others]
            if index:  # it belongs to this replica, and the first has nothing yet
                twins[index - 1] = models.twin(part, first)
            models.wait_for(twins)
            if index:
                models.swap(part, twins[index - 1])
            self._compiled.append(part)
            self._parts.append(part)
            for known, twin in zip(self._twins, twins, strict=True):
                known.append(twin)


_FAR = 0x1E3779B9
"""Added to the state of a random generator: an odd number, so all replicas' states differ."""
