"""One collective from its call to its result: in host memory, with an error that names it."""

from __future__ import annotations

import sys
import threading
import time
import weakref
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch._C import _distributed_c10d

from unidev_torch_simulator import late
from unidev_torch_simulator.distributed import checks, names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import timedelta

c10d: Any = _distributed_c10d


@dataclass
class Call:
    """One call of a collective by this rank."""

    name: str
    """Torch's ``OpType``, such as ``ALLREDUCE``."""
    backend: Any
    """Gloo's, or that of NCCL, whose ``exchanges`` are gloo's."""
    is_nccl: bool
    is_async: bool = True
    timeout_ms: int = -1
    """-1: the group's."""
    tensors: Sequence[torch.Tensor] = ()
    """The tensors that it returns."""
    numel_in: int = 0
    peer: int | None = None
    """The other rank of a transfer whose exchange these two have alone."""
    begun: float = field(default_factory=time.monotonic)
    number: int = 0
    order: late.Collective | None = None
    """Its order, where devices are late."""

    def __post_init__(self) -> None:
        """Keep what an error says of the backend, which may end before the call does."""
        self._rank = self.backend.rank()
        if self.is_nccl and self.timeout_ms < 0:
            self._limit_ms = round(self.backend.options._timeout.total_seconds() * 1000)
        else:
            self._limit_ms = self.timeout_ms

    def backend_call(self, method: str, *given: Any) -> Any:
        """A work of gloo's, on host memory."""
        gloo = self.backend.exchanges.with_rank(self.peer) if self.is_nccl else self.backend
        return getattr(gloo, method)(*given)

    def rank_of(self, rank: int) -> int:
        """The number of ``rank`` for ``backend_call``."""
        return self.backend.exchanges.rank_in(self.peer, rank) if self.is_nccl else rank

    def options(self, kind: Any, **fields: Any) -> Any:
        """Options of torch for the exchange in host memory."""
        from datetime import timedelta

        made = kind()
        if self.timeout_ms >= 0:
            made.timeout = timedelta(milliseconds=self.timeout_ms)
        for name, value in fields.items():
            setattr(made, name, value)
        return made

    def described(self) -> str:
        """As NCCL's watchdog names it."""
        return (
            f"Work{names.current().title}(SeqNum={self.number}, OpType={self.name}, "
            f"NumelIn={self.numel_in}, "
            f"NumelOut={sum(t.numel() for t in self.tensors)}, Timeout(ms)={self._limit_ms})"
        )

    def failure(self, error: BaseException) -> BaseException:
        """What gloo raised, as NCCL reports it; gloo's own groups report it themselves."""
        if not self.is_nccl or isinstance(error, checks.DistBackendError):
            return error
        rank, text = self._rank, str(error)
        with suppress(ReferenceError):  # its backend has ended
            self.backend.has_failed = True  # NCCL's communicator is aborted, too
        if "imed out" in text or "imeout" in text:
            elapsed = round((time.monotonic() - self.begun) * 1000)
            return checks.DistBackendError(
                f"[Rank {rank}] Watchdog caught collective operation timeout: {self.described()} "
                f"ran for {elapsed} milliseconds before timing out."
            )
        return checks.DistBackendError(
            f"[Rank {rank}] {self.described()} failed: ncclRemoteError: A call failed possibly due "
            f"to a network error or a remote process exiting prematurely.\n{text}"
        )

    def run(self, start: Callable[[], Sequence[Any]], back: Callable[[], None]) -> Any:
        """Start gloo's works; ``back`` copies their results to the GPU when they are done."""
        try:
            works = start()
            if not self.is_async or self.order is not None:
                for work in works:
                    work.wait()
                with without_grad(self.tensors):
                    back()
                if self.order is not None:
                    self.order.end()
                return Ordered(self) if self.is_async else done(list(self.tensors))
        except RuntimeError as error:
            raise self.failure(error) from error
        # What follows runs in a thread of gloo's, which must not be the last to hold the backend:
        # its end joins that thread, and the process aborts ("Resource deadlock avoided", 2.13).
        self.backend = weakref.proxy(self.backend)
        futures = [work.get_future() for work in works]

        def finish(_: Any) -> list[torch.Tensor]:
            try:
                for future in futures:
                    future.value()  # raises what gloo raised
                with without_grad(self.tensors):
                    back()
            except RuntimeError as error:
                failure = self.failure(error)
                # Nobody may wait for this work. NCCL's watchdog writes the error, too.
                sys.stderr.write(f"{failure}\n")
                raise failure from error
            return list(self.tensors)

        if not futures:
            return done(finish(None))
        last = futures[0] if len(futures) == 1 else torch.futures.collect_all(futures)
        return c10d._create_work_from_future(last.then(finish))


@dataclass
class Batch:
    """Transfers that begin together: those of a rank with itself wait for the batch's end."""

    works: list[Transfers] = field(default_factory=list)
    sent: list[torch.Tensor] = field(default_factory=list)
    """Bytes for this rank itself, in the order of sending."""
    received: list[Callable[[torch.Tensor], None]] = field(default_factory=list)
    """What takes them, in the order of receiving; each checks their number."""

    def end(self) -> list[Transfers]:
        """Give this rank what it sent to itself, and return the works of all transfers.

        Raises:
            DistBackendError: as NCCL, a send without its receive, or the reverse.
        """
        if len(self.sent) != len(self.received):
            raise checks.unmatched(is_sent=len(self.sent) > len(self.received))
        for host, take in zip(self.sent, self.received, strict=True):
            take(host)
        return self.works


def done(value: list[torch.Tensor]) -> Any:
    """A work that is complete."""
    future: Any = torch.futures.Future()
    future.set_result(value)
    return c10d._create_work_from_future(future)


@contextmanager
def without_grad(tensors: Sequence[torch.Tensor]) -> Iterator[None]:
    """The mode in which they may be written, in whichever thread."""
    is_inference = any(tensor.is_inference() for tensor in tensors)
    with torch.inference_mode() if is_inference else torch.no_grad(), late.untracked():
        yield


_unfinished: set[Transfers] = set()
"""C++ calls the methods of a work while its Python object lives, and else waits forever (2.13)."""


class Transfers(c10d.Work):  # type: ignore[misc]
    """Sends and receives, whose works in gloo have no future: they end in ``wait``."""

    def __init__(self, call: Call, works: Sequence[Any], back: Callable[[], None]) -> None:
        super().__init__()
        self._call = call
        self._works = works
        self._back = back
        self._lock = threading.Lock()
        self._is_done = False
        self._error: BaseException | None = None
        self._future: Any = None
        for each in [each for each in _unfinished if each._is_done]:
            _unfinished.discard(each)
        _unfinished.add(self)

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait for all, and copy what came to the GPU."""
        with self._lock:
            if self._error is not None:
                raise self._error
            if self._is_done:
                return True
            try:
                for work in self._works:
                    if timeout is not None and timeout.total_seconds() > 0:
                        work.wait(timeout)
                    else:
                        work.wait()
                with without_grad(self._call.tensors):
                    self._back()
            except RuntimeError as error:
                self._error = self._call.failure(error)
                raise self._error from error
            finally:
                self._is_done = True
        return True

    def synchronize(self) -> None:
        """As ``wait``: nothing here runs beside the calling thread."""
        self.wait()

    def block_current_stream(self) -> None:
        """As ``wait``."""
        self.wait()

    def is_completed(self) -> bool:
        """Whether all came; a thread waits for them from the first question on."""
        self.get_future()
        return self._is_done

    def is_success(self) -> bool:
        """Whether none failed."""
        return self._is_done and self._error is None

    def exception(self) -> BaseException | None:
        """The error, if one failed."""
        return self._error

    def result(self) -> list[torch.Tensor]:
        """The tensors that were sent or received."""
        return list(self._call.tensors)

    def get_future(self) -> Any:
        """A future, filled by a thread that waits."""
        if self._future is None:
            self._future = torch.futures.Future()
            threading.Thread(target=self._fill, daemon=True).start()
        return self._future

    def _fill(self) -> None:
        try:
            self.wait()
        except RuntimeError as error:
            self._future.set_exception(error)
        else:
            self._future.set_result(list(self._call.tensors))


class Ordered(Transfers):
    """A collective of late devices: its data is there, and streams that wait are ordered by it."""

    def __init__(self, call: Call) -> None:
        super().__init__(call, [], lambda: None)

    def wait(self, timeout: timedelta | None = None) -> bool:
        """The current stream waits, and not the host."""
        assert self._call.order is not None
        self._call.order.wait()
        return super().wait(timeout)

    def get_future(self) -> Any:
        """A future, filled after the collective: streams that wait for it are ordered by it."""
        if self._future is None:
            devices: list[Any] = sorted({x.device for x in self._call.tensors}, key=str)
            self._future = torch.futures.Future(devices=devices)
            with ExitStack() as streams:
                for device in devices:
                    streams.enter_context(torch.Stream(device))
                self.wait()
                self._future.set_result(list(self._call.tensors))
        return self._future
