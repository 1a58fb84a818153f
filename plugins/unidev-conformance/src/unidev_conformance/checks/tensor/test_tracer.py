"""The tracer: each transfer once, to every scope of its thread, no other. PYTEST_DONT_REWRITE."""

from __future__ import annotations

import sys
import threading
from contextlib import ExitStack, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import unidev
from unidev.values import PlannedTransfer
from unidev_conformance.judging.outcomes import NotApplicableError
from unidev_conformance.kit.inputs import samples
from unidev_conformance.running.catalog import check

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from unidev.device import Device
    from unidev_conformance.kit.workbench import Workbench

_NEEDS = ("tracer", "probe.read_out")
_PATIENCE_S = 60
_READS = 10
_MANY = 1_100
"""More reads than any small table of a tracer has."""


class _RefusedError(Exception):
    """Raised by a scope's ``begin``."""


class _Scope:
    """A scope that records its transfers."""

    def __init__(self, bench: Workbench, name: str, heard: list[tuple[str, str]]) -> None:
        self._tracer = bench.backend.tracer
        self.name = name
        self.before_begin: Callable[[], object] = lambda: None
        self.transfers: list[PlannedTransfer] = []
        self.ended: list[object] = []
        """The tokens passed to ``end``."""
        self._heard = heard
        self._tokens: list[object] = []

    def __call__(self) -> AbstractContextManager[None]:
        return self._tracer.watch(self._begin, self._end)

    def _begin(self, transfer: PlannedTransfer) -> object:
        self.before_begin()
        token = object()
        self.transfers.append(transfer)
        self._tokens.append(token)
        self._heard.append(("begin", self.name))
        return token

    def _end(self, token: object) -> None:
        self.ended.append(token)
        self._heard.append(("end", self.name))

    def check(self, count: int, where: str) -> None:
        """``count`` transfers have begun, and each has ended with its own token."""
        begun = [f"{each.operation} of {each.nbytes} bytes" for each in self.transfers]
        assert len(begun) == count, f"{where}: transfers in the {self.name} scope: {begun}"
        is_each_ended = sorted(map(id, self.ended)) == sorted(map(id, self._tokens))
        assert is_each_ended, (
            f"{where}: the {self.name} scope's `end` was called {len(self.ended)} times for "
            f"{count} transfers, or not with the result of its `begin`"
        )


def _scopes(bench: Workbench, *names: str) -> tuple[list[_Scope], list[tuple[str, str]]]:
    heard: list[tuple[str, str]] = []
    return [_Scope(bench, name, heard) for name in names], heard


@check(required=True, needs=_NEEDS)
def test_read_is_reported_once(bench: Workbench) -> None:
    """Reading a GPU tensor into Python is one transfer to the CPU; a read on the CPU is none."""
    for gpu in bench.gpus():
        x = bench.matrix(gpu)
        (scope,), heard = _scopes(bench, "only")
        where = f"one read of a matrix on {gpu}"
        with scope():
            values = bench.probe.read_out(x)
        scope.check(1, where)
        _check_transfer(bench, scope.transfers[0], gpu, where)
        assert heard == [("begin", "only"), ("end", "only")], f"{where}: {heard}"
        found = np.asarray(values, "float32").tobytes()
        assert found == samples.counting((2, 3), "float32").tobytes(), f"{where}: {values!r}"
        bench.probe.read_out(x)
        scope.check(1, f"{where}, after the scope")
    _check_many(bench, bench.gpus()[-1])
    x = bench.matrix(bench.cpu)
    (scope,), _ = _scopes(bench, "only")
    with scope():
        bench.probe.read_out(x)
    scope.check(0, "a read on the CPU")


def _check_many(bench: Workbench, gpu: Device) -> None:
    """A trace has each of many reads, and counts those beyond its limit; also in another trace."""
    x = bench.matrix(gpu)
    with unidev.trace_transfers() as trace, unidev.trace_transfers(limit=3) as short:
        for _ in range(_MANY):
            bench.probe.read_out(x)
    for each, kept in ((trace, _MANY), (short, 3)):
        found = len(each.transfers), each.count, each.left_out, each.total_bytes
        expected = kept, _MANY, _MANY - kept, _MANY * 24
        where = f"of {_MANY} reads on {gpu}"
        assert found == expected, f"{where}, a trace keeps, counts, leaves out, and has bytes"
    with unidev.transfer_guard("forbid"):
        for read in (bench.probe.read_out, unidev.to_numpy, bench.probe.read_out):
            # Not with `x` among what a message shows: that would read it.
            bench.expect(unidev.TransferForbiddenError, lambda read=read: read(x))
            with unidev.transfer_guard("allow"):
                bench.works(read, x)
        for call in (unidev.copy_to, unidev.as_in_device, unidev.device_put):
            bench.works(call, x, bench.cpu)
    bench.works(bench.probe.read_out, x)


def _check_transfer(
    bench: Workbench, transfer: PlannedTransfer, source: Device, where: str
) -> None:
    assert isinstance(transfer, PlannedTransfer), f"{where}: `begin` received {transfer!r}"
    ways = transfer.source, transfer.target
    assert ways == (source, bench.cpu), f"{where}: it goes from {ways[0]} to {ways[1]}"
    assert transfer.nbytes == 24, f"{where}: {transfer.nbytes} bytes, not 24"
    assert transfer.shape in ((2, 3), None), f"{where}: its shape is {transfer.shape}"
    assert isinstance(transfer.operation, str), f"{where}: its name is {transfer.operation!r}"
    assert transfer.operation, f"{where}: it has no name"
    bench.evidence.add("transfers", transfer.operation)


@check(needs=("tracer",), over="gpus")
def test_each_call_of_the_framework(bench: Workbench, gpu: Device) -> None:
    """The calls that the probe names are reported with their transfers, and no others."""
    count = 0
    for number, example in enumerate(bench.probe.transfers(gpu)):
        (scope,), _ = _scopes(bench, "only")
        with scope():
            example.call()
        where = f"example {number} of the probe's transfers for {gpu}"
        assert _agree(scope.transfers, example.transfers), (
            f"{where}: recorded {_in_words(scope.transfers)}, not {_in_words(example.transfers)}"
        )
        scope.check(len(example.transfers), where)
        count += 1
    if not count:
        raise NotApplicableError("the probe names no calls that transfer")
    bench.evidence.add("calls", count)


def _agree(found: Sequence[PlannedTransfer], expected: Sequence[PlannedTransfer]) -> bool:
    return len(found) == len(expected) and all(
        each.operation and each == planned._replace(operation=planned.operation or each.operation)
        for each, planned in zip(found, expected, strict=True)
    )


def _in_words(transfers: Sequence[PlannedTransfer]) -> str:
    each = (
        f"{t.operation or 'a call'} from {t.source} to {t.target}, {t.nbytes} bytes, shape "
        f"{t.shape}" for t in transfers
    )  # fmt: skip
    return "; ".join(each) or "nothing"


@check(needs=(*_NEEDS, "probe.write"), over="gpus")
def test_begin_comes_before_the_bytes_move(bench: Workbench, gpu: Device) -> None:
    """Values that ``begin`` writes into the tensor are the values that are read."""
    x = bench.matrix(gpu)
    scope = _Scope(bench, "only", [])
    scope.before_begin = partial(bench.probe.write, x, 7.0)
    with scope():
        values = bench.probe.read_out(x)
    found = np.asarray(values, "float32")
    assert (found == 7).all(), f"on {gpu}: `begin` was called after the values were read"


@check(required=True, needs=_NEEDS, over="gpus")
def test_begin_that_raises(bench: Workbench, gpu: Device) -> None:
    """An error of ``begin`` reaches the caller unchanged; scopes that had begun have ended."""
    x = bench.matrix(gpu)
    scopes, _ = _scopes(bench, "outer", "middle", "inner")
    outer, middle, inner = scopes
    with outer(), middle(), inner():
        error = _RefusedError(f"this scope permits no reads of {gpu}")
        allowing, middle.before_begin = middle.before_begin, partial(_raise, error)
        caught = bench.expect(_RefusedError, lambda: bench.probe.read_out(x))
        assert caught is error, f"`begin` raised {error!r}, and {caught!r} reached the caller"
        for each in scopes:
            each.check(len(each.transfers), f"after a refused read of {gpu}")
        outer.check(1, f"a scope outside the one that refuses a read of {gpu}")
        middle.before_begin = allowing
        already = [len(each.transfers) for each in scopes]
        bench.works(bench.probe.read_out, x)
        for each, count in zip(scopes, already, strict=True):
            each.check(count + 1, f"a read of {gpu} after a refused one")
    (later,), _ = _scopes(bench, "later")
    with later():
        bench.works(bench.probe.read_out, x)
    later.check(1, f"a read of {gpu} in a scope after one that refused")


def _raise(error: BaseException) -> None:
    raise error


@check(required=True, needs=_NEEDS, over="gpus")
def test_scopes_nest(bench: Workbench, gpu: Device) -> None:
    """Every open scope records a transfer; ends come in the reverse order of begins."""
    x = bench.matrix(gpu)
    (outer, inner), heard = _scopes(bench, "outer", "inner")
    with outer():
        with inner():
            bench.probe.read_out(x)
        assert heard == [
            ("begin", "outer"), ("begin", "inner"), ("end", "inner"), ("end", "outer")
        ], f"one read of {gpu} in two scopes: {heard}"  # fmt: skip
        bench.probe.read_out(x)
    outer.check(2, f"reads of {gpu} in an inner scope and after it")
    inner.check(1, f"reads of {gpu} in an inner scope and after it")


@check(required=True, needs=_NEEDS, over="gpus")
def test_scopes_left_in_any_order(bench: Workbench, gpu: Device) -> None:
    """A scope left before a later one records nothing more; the later one continues.

    A device's scope, too, ends without a trace that was begun inside it.
    """
    x = bench.matrix(gpu)
    (first, second), _ = _scopes(bench, "first", "second")
    opened = ExitStack()
    opened.enter_context(first())
    with opened, second():
        opened.close()
        bench.probe.read_out(x)
    first.check(0, f"a read of {gpu} after the first scope was left")
    second.check(1, f"a read of {gpu} after the first scope was left")
    bench.probe.read_out(x)
    second.check(1, f"a read of {gpu} after both scopes were left")
    settings = dict(bench.probe.global_state())
    opened, (inside,) = ExitStack(), _scopes(bench, "inside")[0]
    opened.enter_context(gpu)
    with opened, inside():
        opened.close()
        bench.probe.read_out(x)
    inside.check(1, f"a read of {gpu} after the scope of {gpu} around the trace was left")
    now = dict(bench.probe.global_state())
    assert now == settings, f"a scope of {gpu} that ended before a trace inside it: {now}"


@check(required=True, needs=_NEEDS)
def test_threads_hear_their_own(bench: Workbench) -> None:
    """Two threads record at once, each its own transfers; a thread without a scope none."""
    gpu = bench.gpus()[0]
    barrier = threading.Barrier(3, timeout=_PATIENCE_S)
    scopes, _ = _scopes(bench, "first thread's", "second thread's")
    (outside,), _ = _scopes(bench, "main thread's")
    errors: list[BaseException] = []

    def work(scope: _Scope | None, length: int) -> None:
        try:
            x = bench.make(samples.counting((length,), "float32"), gpu)
            with nullcontext() if scope is None else scope():
                for _ in range(_READS):
                    barrier.wait()  # each read begins while the others' scopes are open
                    bench.probe.read_out(x)
                barrier.wait()
        except BaseException as error:  # noqa: BLE001  it is raised by the check's own thread
            errors.append(error)
            barrier.abort()

    threads = [
        threading.Thread(target=work, args=(scope, length))
        for scope, length in zip((*scopes, None), (1, 2, 3), strict=True)
    ]
    with outside():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(_PATIENCE_S)
    if errors:
        raise errors[0]
    outside.check(0, "reads in other threads")
    for scope, length in zip(scopes, (1, 2), strict=True):
        scope.check(_READS, f"{_READS} reads in each thread")
        sizes = {each.nbytes for each in scope.transfers}
        assert sizes == {4 * length}, f"the {scope.name} scope recorded sizes of {sizes} bytes"


@check(required=True, needs=_NEEDS)
def test_framework_is_as_it_was(bench: Workbench) -> None:
    """After an exception in the block the framework's functions and settings are restored."""
    gpu = bench.gpus()[0]
    x = bench.matrix(gpu)
    bench.probe.read_out(x)  # triggers the framework's lazy imports
    functions = _functions(bench, x)
    scopes, _ = _scopes(bench, "outer", "inner")
    outer, inner = scopes
    try:
        with outer(), inner():
            bench.probe.read_out(x)
            raise _RefusedError
    except _RefusedError:
        pass
    for each in scopes:
        each.check(1, f"a read of {gpu}")
    now = _functions(bench, x)
    changed = sorted(name for name in functions if now.get(name) is not functions[name])
    assert not changed, f"{len(changed)} functions stay replaced after the block: {changed[:5]}"
    bench.evidence.add("functions", len(functions))


def _functions(bench: Workbench, x: Any) -> dict[str, object]:
    """Functions and methods of the framework by name, from its modules and the tensor's class."""
    spec = bench.backend.spec
    packages = {spec.framework, *spec.namespaces} - {"unidev"}
    owners = [
        (name, vars(module))
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] in packages and hasattr(module, "__dict__")
    ] + [(cls.__qualname__, vars(cls)) for cls in type(x).__mro__]
    return {
        f"{owner}.{name}": value
        for owner, attributes in owners
        for name, value in list(attributes.items())
        if callable(value)
    }
