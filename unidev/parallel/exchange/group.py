"""``group()``: the workers of a run, as each of them sees the others."""

from __future__ import annotations

import functools
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.backends.boundary import call
from unidev.backends.loading import load_backend
from unidev.backends.selection import active_backend
from unidev.errors import InvalidDataError, UnsupportedOperation
from unidev.models.placing import backend_of_model
from unidev.parallel.batches.sharding import Shard, opened
from unidev.parallel.devices.arguments import checked_weights
from unidev.parallel.devices.batches import rows_for
from unidev.parallel.devices.reducing import OPERATIONS, check_dtypes, check_writable
from unidev.parallel.exchange import checkpoints, membership
from unidev.parallel.exchange.exchanging import IN_PLACE, NEW_MEMORY, Exchange
from unidev.parallel.exchange.joining import outside_a_run
from unidev.parallel.exchange.trees import Tree, gathered_rows
from unidev.system.arguments import choice, flag, non_negative_integer, real_number, size
from unidev.system.wording import shown
from unidev.tensors.creating import array, to_numpy
from unidev.tensors.devices import resolve_device
from unidev.tensors.kinds import model_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Concatenate, ParamSpec, TypeVar

    from unidev.contract.backend import Backend
    from unidev.device import Device
    from unidev.parallel.exchange.membership import Membership

    T = TypeVar("T")
    P = ParamSpec("P")

_PIECE_BYTES = 1 << 24
"""How much of a checkpoint travels at once: it takes as much memory on each worker's device."""

_group: Group | None = None


def _collective(method: Callable[Concatenate[Group, P], T]) -> Callable[Concatenate[Group, P], T]:
    """A method of which nobody is left waiting by whoever leaves it early."""

    @functools.wraps(method)
    def whole(self: Group, /, *args: P.args, **kwargs: P.kwargs) -> T:
        self.check_caller()
        return self.exchange.part.whole(functools.partial(method, self, *args, **kwargs))

    return whole


def group() -> Group:
    """The workers of this run; in a process that is not a worker, a group of one.

    On PyTorch, the processes that torchrun or ``accelerate launch`` has started are a group, too:
    the first call connects them, and blocks until all have called it.

    Raises:
        UnsupportedOperation: torchrun has started this process, and the framework cannot join; or
            in another thread than the one that runs the function: the collectives
            of all workers must come in one order; or in a forked child of a worker.

    >>> import unidev
    >>> unidev.group().rank, unidev.group().size
    (0, 1)
    """
    global _group  # noqa: PLW0603  one for each process
    if _group is None:
        _group = Group(membership.current or outside_a_run())
    _group.check_caller()
    return _group


def leave() -> None:
    """Close what the group has opened, if there is one."""
    if _group is not None:
        _group.exchange.engines.leave()


class Group:
    """The workers of one run. All call the same collectives in the same order.

    A collective blocks until all workers have come to it. Before each, calls, structures, shapes
    and dtypes are compared: a difference is an error on every worker, and nothing is exchanged.
    Tensors travel as in ``unidev.all_reduce``: packed by dtype, large ones by themselves. All
    workers get the same bits. Autograd records none of it.

    Attributes:
        rank: this worker's number, from 0.
        size: the number of workers.

    Every collective raises:
        InvalidDataError: the workers differ in what they call, in structure, shapes, dtypes, kinds
            of device or listed weights.
        CollectiveError: it failed, usually because another worker has failed; or a worker has left
            one early, by an exception of its own: then no worker can exchange with it any more.
        DeviceMismatchError: the tensors of the tree are on several devices.
        NotATensorError, ContainerError: ``tree`` is not a tree of tensors.
    """

    def __init__(self, own: Membership) -> None:
        self._own = own
        self.rank = own.rank
        self.size = own.size
        self.exchange = Exchange(own, lambda: self.device)  # unidev's own

    def __repr__(self) -> str:
        return f"<group of {self.size}, rank {self.rank}>"

    @property
    def device(self) -> Device:
        """This worker's own device: its first GPU, or the CPU if the run has no GPUs."""
        return self.devices[0]

    @property
    def devices(self) -> tuple[Device, ...]:
        """All devices of this worker: its GPUs, or the CPU."""
        own, backend = self._own, self._backend()
        if own.gpus == 0:
            return (backend.cpu,)
        numbers = range(own.first_gpu, own.first_gpu + own.gpus)
        return tuple(resolve_device(f"gpu:{number}", backend) for number in numbers)

    @_collective
    def all_reduce(
        self,
        tree: T,
        op: str = "sum",
        *,
        weights: float | Sequence[float] | None = None,
        in_place: bool = False,
    ) -> T:
        """Combine the tensors at the same place in all workers' trees; all get the results.

        Args:
            tree: a tensor or a nested container of tensors, on one device; of the same structure on
                each worker. Non-tensor leaves stay as they are.
            op: ``sum``, ``mean``, ``min`` or ``max``. Sums and means of float16 and bfloat16 are
                computed in float32.
            weights: for ``mean``: this worker's own positive number, such as its rows; or a list
                with one for each worker, the same on all.
            in_place: write the results to the tensors of ``tree``, which stay the same objects.

        Returns:
            A tree in new memory on the same device; with ``in_place``, ``tree``.

        Raises:
            UnsupportedDtypeError: ``mean`` of integers, ``min`` or ``max`` of complex numbers,
                bool.
            UnsupportedOperation: ``in_place`` with immutable tensors.
            InvalidDataError: also if ``op``, ``weights`` or ``in_place`` are invalid.
        """
        into = IN_PLACE if flag("in_place", in_place) else NEW_MEMORY
        found: T = self.all_reduce_tree(Tree(tree, is_whole=True), op, weights, into)
        return found

    def all_reduce_tree(
        self, given: Tree, op: str, weights: float | Sequence[float] | None, into: str
    ) -> Any:
        """As ``all_reduce``; ``into`` as of ``Exchange.all_reduce``."""
        choice("op", op, OPERATIONS)
        checked = self._weights(op, weights)
        check_dtypes(given.backend, given.kinds, op, given.path)
        if into == IN_PLACE:
            check_writable(given.backend, given.tensors, given.path)
        return call(
            given.backend, self.exchange.all_reduce, given, op, checked, into,
            doing="reducing tensors over the workers",
            operation="all_reduce",
        )  # fmt: skip

    @_collective
    def broadcast(self, tree: T, root: int = 0) -> T:
        """The values that the worker ``root`` has in ``tree``, on every worker, in new memory.

        The others give a tree of the same structure, whose values do not matter.
        """
        number = non_negative_integer(root, self.size - 1)
        if number is None:
            raise InvalidDataError(
                f"root must be a rank from 0 to {self.size - 1}, not {shown(root)}."
            )
        given = Tree(tree)
        found = call(
            given.backend, self.exchange.broadcast, given, number,
            doing="broadcasting tensors to the workers",
            operation="broadcast",
        )  # fmt: skip
        return given.with_tensors(found)  # type: ignore[no-any-return]

    @_collective
    def all_gather(self, tree: T) -> list[T]:
        """The trees of all workers, by rank, in new memory on this worker's device of ``tree``."""
        given = Tree(tree)
        found = call(
            given.backend, self.exchange.all_gather, given,
            doing="gathering tensors from the workers",
            operation="all_gather",
        )  # fmt: skip
        return [given.with_tensors(tensors) for tensors in found]

    @_collective
    def barrier(self) -> None:
        """Return when all workers have called it."""
        self.exchange.agree("barrier", "barrier")

    def split_batch(self, batch: T) -> T:
        """This worker's rows of ``batch``, which is the same on every worker, on its device.

        As ``unidev.split_batch`` with a device for each worker: in new memory, in order, numbers of
        rows that differ by at most one. Exchanges nothing.

        Raises:
            InvalidDataError: a worker would get no row, or numbers of rows differ in ``batch``.
        """
        return rows_for(batch, self.device, self.rank, self.size)

    @_collective
    def shard(
        self,
        data: Any,
        *,
        batch_size: int | None = None,
        shuffle: bool | None = None,
        seed: int = 0,
        last: str = "pad",
    ) -> Shard:
        """The batches of ``data``, of which each worker reads its own rows only.

        A batch has the same rows whatever the number of workers, and its rows are shared out as
        ``split_batch`` does. So training takes the same steps as in one process::

            batches = unidev.group().shard(loader, seed=1)
            for epoch in range(epochs):
                for X, y in unidev.prefetch(batches, unidev.group().device):
                    loss, gradients = unidev.value_and_grad(loss_of)(net, X, y)

        A collective: the arguments, and the number of rows, are compared. The data must be the same
        on all workers, which unidev cannot see.

        Args:
            data: PyTorch's ``DataLoader`` or ``Dataset``; ``tf.data.Dataset``; Paddle's or Gluon's
                ``DataLoader`` or ``Dataset``; an array, a tensor, or a tuple or dict of them that
                have the same number of rows; any sequence of rows, which are stacked.
            batch_size: the rows of a batch of all workers together. None: the loader's own.
            shuffle: whether to draw the order anew for each epoch, from ``seed`` and the number of
                the epoch. None: as the loader does, with the order drawn here.
            seed: a non-negative integer, the same on all workers.
            last: a last batch of fewer rows than workers: "pad" repeats rows, each equally often,
                so that each worker has one and the mean over workers is the batch's, and
                ``Shard.padding`` counts them; "drop" leaves the batch out.

        Raises:
            InvalidDataError: the workers differ in what they pass; an argument is invalid, missing,
                or at odds with the loader; ``data`` has no length.
            UnsupportedOperation: the order of the loader's rows is its own, as a sampler's that
                draws with weights.
        """
        rows, sharding = opened(
            data, self.size, batch_size=batch_size, shuffle=shuffle, seed=seed, last=last
        )
        self.exchange.agree("shard", sharding.described())
        return Shard(rows, sharding, self.rank, self.size)

    @_collective
    def gather_rows(self, tree: T, *, padded: int = 0) -> T:
        """The rows of all workers' trees, by rank, in new memory on the device of ``tree``.

        Workers may have different numbers of rows. What a shard has padded is left out::

            for (X, y), padded in zip(batches, batches.padding):
                outputs = unidev.group().gather_rows(net(X), padded=padded)

        Args:
            tree: a tensor or a nested container of tensors with the same number of rows, on one
                device; of the same structure on each worker. Non-tensor leaves stay as they are.
            padded: how many of this worker's last rows are left out.

        Raises:
            InvalidDataError: also if ``padded`` is invalid, or numbers of rows differ in ``tree``.
        """
        found: T = gathered_rows(tree, padded, self.all_gather)
        return found

    @_collective
    def checkpoint(self, model: Any, step: int, optimizer: Any = None) -> None:
        """Worker 0 writes the model, and the optimizer's state, into the run's ``checkpoints``.

        A collective: returns once the checkpoint is on the disk. It is there as a whole or not at
        all, and replaces the one before.

        Args:
            model: as for ``save_parameters``; the same on all workers, whatever trains it.
            step: how far the training has come; the same positive integer on all workers.
            optimizer: the framework's own.

        Raises:
            UnsupportedOperation: the run has no ``checkpoints``, or the framework does not show the
                state of this optimizer.
            OSError: the file cannot be written; on every worker. The last checkpoint is still
                there.
        """
        number = size("step", step)
        folder, found = self._checkpoints(), model_of(model)
        backend = backend_of_model(found)

        def write() -> None:
            checkpoints.write(folder, number, found, optimizer, backend)

        self.exchange.by_the_first("checkpoint", f"checkpoint of step {number}", write)

    def restore(self, model: Any, optimizer: Any = None) -> int:
        """Load the last checkpoint, and return its step; 0 if there is none yet.

        A collective, with the same result on every worker; only worker 0 reads the folder, and
        broadcasts what it has read by the framework's engine.

        Raises:
            CheckpointError: it is that of another model or optimizer, or damaged.
            UnsupportedOperation: the run has no ``checkpoints``.
        """
        self.check_caller()
        folder, found = self._checkpoints(), model_of(model)
        files: dict[str, bytes] = {}

        def read() -> tuple[int, dict[str, int]]:
            step, contents = checkpoints.newest(folder)
            files.update(contents)
            return step, {name: len(content) for name, content in contents.items()}

        with tempfile.TemporaryDirectory(prefix="unidev-restore-") as place:

            def receive() -> int:
                step, sizes = self.exchange.by_the_first("restore", "restore", read)
                for name, size in sizes.items():
                    self._write(Path(place) / name, files.pop(name, b""), size)
                return int(step)

            step = self.exchange.part.whole(receive)
            if step:
                checkpoints.load(Path(place), found, optimizer, backend_of_model(found))
        return step

    def _write(self, file: Path, content: bytes, size: int) -> None:
        """Write ``content`` of worker 0 to ``file`` on every worker: broadcast piece by piece."""
        with file.open("wb") as opened:
            for start in range(0, size, _PIECE_BYTES):
                length = min(_PIECE_BYTES, size - start)
                own = np.frombuffer(content, "uint8", length, start) if content else None
                piece = array(np.zeros(length, "uint8") if own is None else own, device=self.device)
                opened.write(to_numpy(self.broadcast(piece)).data)

    def _checkpoints(self) -> Path:
        if self._own.checkpoints is None:
            raise UnsupportedOperation(
                "a checkpoint of this group",
                "the run has no folder for it: unidev.run(…, checkpoints=folder)",
            )
        return Path(self._own.checkpoints)

    def check_caller(self) -> None:
        """Raise UnsupportedOperation in another thread or process than runs the function."""
        self._own.check_process()
        if self._own.channel is not None and threading.current_thread() is not self._own.thread:
            raise UnsupportedOperation(
                "unidev.group() in this thread",
                "only the thread that runs the function may use it: the collectives of all workers "
                "must come in one order",
            )

    @_collective
    def join(self) -> None:
        """Join the engine of this worker's backend now; else the first exchange that needs it does.

        On the CPUs of one host, trees of up to 4 MiB travel without it. A program that also uses
        the framework's own collectives joins first.
        """
        self.exchange.join(self._backend())

    def _backend(self) -> Backend:
        return load_backend(self._own.backend) if self._own.backend else active_backend()

    def _weights(self, op: str, weights: object) -> float | list[float] | None:
        """This worker's own weight, or the list of all workers'."""
        if weights is None:
            return None
        if op != "mean":
            raise InvalidDataError(f"weights are those of a mean; op is {op!r}.")
        own = real_number(weights)
        if own is not None:
            (number,) = checked_weights([own], 1, "this worker") or []
            return float(number)
        return [float(each) for each in checked_weights(weights, self.size, "each worker") or ()]
