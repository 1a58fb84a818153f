"""Two GPUs that are no simulated ones: what the suite takes for hardware, made of NumPy's arrays.

They have what real ones have and simulated ones do not: a context that first use creates, and that
does not survive a fork; an allocator with a limit, which hands freed memory out again at once;
streams, whose queued work is done as late as the rules of CUDA allow; a current device and stream.
A backend on them that is right passes all; mutants break one thing each.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import defaultdict
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mutants.mutant import mutant, replace, replace_value
from unidev.backends.numpy_backend import simulated_array
from unidev.backends.numpy_backend.backend import _refuse_references
from unidev.backends.numpy_backend.probe import NumpyProbe
from unidev.backends.numpy_backend.simulated_array import SimulatedArray
from unidev.contract.backend import Memory
from unidev.contract.memory import PeakCounter
from unidev.errors import UnsupportedOperation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


COUNT = 2
CAPACITY = 256 * 2**20


class _Block:
    """Memory that an allocator has handed out: given back when no array refers to it."""

    def __init__(self, raw: np.ndarray[Any, Any]) -> None:
        self.__array_interface__ = raw.__array_interface__


class Card:
    """One GPU of this process."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.used = self.peak = 0
        self.pid: int | None = None
        """The process whose context it is."""
        self.queues: dict[int, list[Callable[[], None]]] = defaultdict(list)
        """By stream, 0 for the usual one."""
        self._freed: dict[int, list[np.ndarray[Any, Any]]] = defaultdict(list)

    @property
    def has_context(self) -> bool:
        """Whether it was used in this process."""
        return self.pid == os.getpid()

    def touch(self) -> None:
        """Create the context, unless there is one."""
        if self.pid not in (None, os.getpid()):
            raise RuntimeError("Cannot re-initialize CUDA in forked subprocess")
        self.pid = os.getpid()

    def empty(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
        """An array in its memory."""
        self.touch()
        dtype = np.dtype(dtype)
        nbytes = max(int(np.prod(shape, dtype=float)) * dtype.itemsize, 1)
        if self.used + nbytes > CAPACITY:
            raise RuntimeError(
                f"CUDA out of memory. Tried to allocate {nbytes} bytes. GPU {self.index} has a "
                f"total capacity of {CAPACITY} bytes of which {CAPACITY - self.used} bytes is free."
            )
        self.used += nbytes
        self.peak = max(self.peak, self.used)
        freed = self._freed[nbytes]
        raw = freed.pop() if freed else np.empty(nbytes, "uint8")
        block = _Block(raw)
        weakref.finalize(block, self._give_back, raw)
        flat = np.asarray(block)
        return flat[: int(np.prod(shape, dtype=int)) * dtype.itemsize].view(dtype).reshape(shape)

    def _give_back(self, raw: np.ndarray[Any, Any]) -> None:
        self.used -= raw.nbytes
        self._freed[raw.nbytes].append(raw)

    def flush(self, stream: int | None = None) -> None:
        """Do what is queued in that stream, or in all."""
        for each in list(self.queues) if stream is None else [stream]:
            queue = self.queues[each]
            while queue:
                queue.pop(0)()


class Cards:
    """All of them, and what is current in each thread."""

    def __init__(self) -> None:
        self.all = [Card(index) for index in range(COUNT)]
        self.current = threading.local()
        self._streams = 0

    @property
    def index(self) -> int:
        """The current device."""
        return getattr(self.current, "index", 0)

    def stream(self, card: Card) -> int:
        """The current stream of ``card``."""
        return self._of_thread().get(card.index, 0)

    def _of_thread(self) -> dict[int, int]:
        return self.current.__dict__.setdefault("streams", {})

    def state(self) -> dict[str, object]:
        """Current device and streams."""
        return {"device": self.index, "streams": [self.stream(card) for card in self.all]}

    @contextmanager
    def side_stream(self, device: Any) -> Iterator[None]:
        """That device and a new stream of it are current."""
        card, before = self.all[device.index], self.index
        stream = self.stream(card)
        self._streams += 1
        self.current.index = card.index
        self._of_thread()[card.index] = self._streams
        try:
            yield
        finally:
            self.current.index = before
            self._of_thread()[card.index] = stream

    def of(self, device: Any) -> Card | None:
        """The card that ``device`` is; None for the CPU."""
        return self.all[device.index] if device.kind == "gpu" else None

    def wait_for(self, x: Any, backend: Any) -> None:
        """Do what the current stream of the card of ``x`` has queued, as each call does first."""
        card = self.of(backend.device_of(x))
        if card is not None:
            card.flush(self.stream(card))


def plain(x: Any) -> Any:
    """The array as NumPy's own, which refuses nothing."""
    return x.view(np.ndarray)


def put_cards_into(backend: Any) -> Cards:
    """Give the class of NumPy's backend two GPUs; rightly."""

    cards = Cards()
    _devices(backend, cards)
    _copies(backend, cards, SimulatedArray)
    _memory(backend, cards)
    _computing(cards)
    _probe(NumpyProbe, cards, SimulatedArray)
    return cards


def _devices(backend: Any, cards: Cards) -> None:
    @replace(backend)
    def device_count(self: Any, kind: str) -> int:
        return 1 if kind == "cpu" else COUNT

    @replace(backend)
    def synchronize(self: Any, device: Any) -> None:
        card = cards.of(device)
        if card is not None and card.has_context:
            card.flush()


def _copies(backend: Any, cards: Cards, array_type: Any) -> None:

    read, copy = backend.to_numpy, backend.copy_to

    @replace(backend)
    def _on(self: Any, array: Any, device: Any) -> Any:
        card = cards.of(device)
        if card is None:
            return array
        made = card.empty(array.shape, array.dtype)
        card.flush(cards.stream(card))
        made[...] = array
        return array_type.place(made, device)

    @replace(backend)
    def empty(self: Any, shape: Any, dtype: Any, device: Any) -> Any:
        card = cards.of(device)
        if card is None:
            return np.empty(shape, dtype)
        return array_type.place(card.empty(shape, dtype), device)

    @replace(backend)
    def to_numpy(self: Any, x: Any) -> Any:
        cards.wait_for(x, self)
        return read(self, x)

    @replace(backend)
    def copy_to(self: Any, x: Any, device: Any, non_blocking: bool) -> Any:
        source, target = cards.of(self.device_of(x)), cards.of(device)
        if source is None:
            return copy(self, x, device, non_blocking)
        _refuse_references(x)
        made = np.empty(x.shape, x.dtype) if target is None else target.empty(x.shape, x.dtype)

        values = plain(x)  # keeps the memory until the copy is done, as `record_stream` does

        def run() -> None:
            made[...] = values

        if target is not None and non_blocking:
            source.queues[cards.stream(source)].append(run)
            target.queues[cards.stream(target)].append(source.flush)
        else:  # to the host: what reads it there knows of no queue
            source.flush(cards.stream(source))
            run()
        return made if target is None else array_type.place(made, device)


def _memory(backend: Any, cards: Cards) -> None:

    def card_of(device: Any) -> Card:
        card = cards.of(device)
        if card is None:
            raise UnsupportedOperation("memory", "nothing counts the host's")
        return card

    class Peaks(PeakCounter):
        def used_bytes(self, device: Any) -> int:
            return card_of(device).used

        def peak_bytes(self, device: Any) -> int:
            return card_of(device).peak

        def restart(self, device: Any) -> None:
            card_of(device).peak = card_of(device).used

    def memory(self: Any, device: Any) -> Any:
        card = card_of(device)
        card.touch()
        return Memory(card.used, CAPACITY - card.used, CAPACITY)

    numbers = (
        "tried to allocate {requested}", "total capacity of {total}", "of which {free} is free",
    )  # fmt: skip
    replace_value(backend, "out_of_memory_numbers", numbers)
    replace_value(backend, "memory", memory)
    replace_value(backend, "peaks", property(Peaks))
    replace_value(backend, "pinned", _pinned_once())


def _pinned_once() -> Any:
    """A method that copies an array, unless it made it."""
    made: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()

    def pinned(self: Any, x: Any) -> Any:
        if made.get(id(x)) is x:
            return x
        y = x.copy()
        made[id(y)] = y
        return y

    return pinned


def _computing(cards: Cards) -> None:
    """Operators wait for what their stream has queued before them."""

    compute = simulated_array._on_one_device

    def in_order(*of_one: Any) -> Any:
        for card in cards.all:
            card.flush(cards.stream(card))
        return compute(*of_one)

    replace_value(simulated_array, "_on_one_device", in_order)


def _probe(probe: Any, cards: Cards, array_type: Any) -> None:
    write_now, read_now = probe.write, probe.read

    @replace(probe)
    def make(self: Any, array: Any, device: Any) -> Any:
        card = cards.of(device)
        if card is None:
            return np.array(array)
        made = card.empty(array.shape, array.dtype)
        card.flush(cards.stream(card))
        made[...] = array
        return array_type.place(made, device)

    @replace(probe)
    def read(self: Any, x: Any) -> bytes:
        cards.wait_for(x, self.backend)
        return read_now(self, x)

    @replace(probe)
    def write(self: Any, x: Any, value: float) -> None:
        cards.wait_for(x, self.backend)
        write_now(self, x, value)

    def allocated_bytes(self: Any, device: Any) -> int:
        from unidev.system.host_memory import allocated_bytes

        card = cards.of(device)
        return allocated_bytes(device) if card is None else card.used

    def contexts(self: Any) -> list[Any]:
        return [self.backend.device("gpu", card.index) for card in cards.all if card.has_context]

    replace_value(probe, "allocated_bytes", allocated_bytes)
    replace_value(probe, "contexts", contexts)
    replace_value(probe, "current", lambda self: cards.state())
    replace_value(probe, "side_stream", lambda self, device: cards.side_stream(device))


cards_mutant = partial(mutant, simulated_count=0)
"""As ``mutant``, of a backend with GPUs that count as hardware."""
