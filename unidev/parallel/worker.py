"""A worker's process: sees its own GPUs only, runs the function, and leaves when all have."""

from __future__ import annotations

import faulthandler
import gc
import os
import pickle
import socket
import sys
import traceback
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unidev.backends import simulation
from unidev.backends.discovery import backend_spec
from unidev.backends.loading import load_backend, load_class
from unidev.contract.optional import import_named
from unidev.errors import CollectiveError, InvalidDataError
from unidev.parallel.exchange import membership
from unidev.parallel.exchange.membership import Membership
from unidev.parallel.messages.channel import Channel
from unidev.system.collecting import collection_paused
from unidev.system.host.board import Board
from unidev.system.host.frames import FAILED, RESULT
from unidev.system.host.guarding import end_with_parent
from unidev.system.host.shared_memory import SharedMemory
from unidev.system.settings import DETAILS, SIMULATE, SIMULATE_AS, SIMULATE_FIRST
from unidev.system.visible import restriction
from unidev.system.wording import count_text, shown
from unidev.tensors import device_messages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

_LONGEST = 64 * 1024
_IMPORTED_LATER = (
    "unidev.cli.launch", "unidev.models.gradients", "unidev.parallel.exchange.data_parallel",
    "unidev.parallel.exchange.group",
)  # fmt: skip
"""What most workers import before their first step, besides this module and the framework."""
_UNIDEV = str(Path(__file__).parents[1]) + os.sep


_of_a_fork: list[Callable[[], object]] = []
"""What seeds the generators anew, which all forks would have in one state."""


def prepare_forks(backend: str, preparation: bytes, workers: int) -> None:
    """Import what workers of ``backend`` import, and nothing that computes; they fork afterwards.

    Of the framework the modules alone: a ``Backend`` begins with its devices, which differ.
    """
    # As in a new process: MXNet handles a crash by itself where nobody else does at its import.
    quiet = Path(os.devnull).open("w")  # noqa: SIM115  until each fork names its own file
    faulthandler.enable(quiet)
    _prepare(pickle.loads(preparation))  # noqa: S301  our starter's
    spec = backend_spec(backend)
    slow = spec.forks.slow_modules if workers > len(os.sched_getaffinity(0)) else ()
    with collection_paused():
        load_class(spec)
        for module in (*_IMPORTED_LATER, *spec.forks.modules, *slow):
            import_module(module)
    if spec.forks.reseed is not None:
        _of_a_fork.append(import_named(spec.forks.reseed, "`forks`", backend))
    if (numpys := sys.modules.get("numpy.random")) is not None:
        _of_a_fork.append(numpys.seed)  # that of `random` is Python's to seed


def main() -> None:
    """The life of a worker; the arguments are numbers that ``WorkerHost`` passes."""
    parent, down, up, crash, board, place, count, *shared = map(int, sys.argv[1:])
    end_with_parent(parent)
    for reseed in _of_a_fork:
        reseed()
    for file in (down, up, board, crash, *shared):
        os.set_inheritable(file, False)
    faulthandler.enable(crash)
    how: Any = {"encoding": "utf-8", "errors": "backslashreplace", "line_buffering": True}
    for stream in (sys.stdout, sys.stderr):  # which the parent reads as UTF-8 in any locale
        stream.reconfigure(**how)  # type: ignore[union-attr]
    channel = Channel(up, down)
    order = channel.order()
    channel.rank = order["membership"]["rank"]
    own = Membership(**order["membership"], channel=channel, mark=Board(board, count).mark(place))
    if shared and count == own.size:
        channel.memory = SharedMemory(shared, own.rank, own.size)
    membership.current = own
    _see_own_gpus(own, place)
    try:
        main = _prepare(order["preparation"])
        if own.joins_first:
            from unidev.parallel.exchange import group  # with NumPy

            group.group().join()
        _import_main(own, main)
        result = _result(own, order["call"])
    except BaseException as error:  # also Ctrl-C and sys.exit: the parent must hear it
        if os.getpid() != own.process:  # a fork that the function has made: only a child of it
            raise
        _flush()
        channel.report(FAILED, pickle.dumps(_described(error)))
    else:
        if os.getpid() != own.process:
            return
        _flush()
        channel.report(RESULT, result)
    channel.wait_for_finish()  # of a failed worker, its end
    from unidev.parallel.exchange import group

    group.leave()


def _see_own_gpus(own: Membership, place: int) -> None:
    """Hide the other workers' GPUs, by the vendors' variables, before a framework is imported."""
    first = place * own.gpus
    variables = restriction(os.environ, first, own.gpus)
    numbers = variables["HIP_VISIBLE_DEVICES"]  # or CUDA's, if that was set
    # GPUs that are simulated by the framework's own name are hidden as real ones are.
    if simulation.simulated_count() and not os.environ.get(SIMULATE_AS):
        variables = _of_simulated(own)
        numbers = ",".join(str(first + index) for index in range(own.gpus))
    os.environ.update(variables)
    device_messages.note = f"This is worker {own.rank} of {own.size}, and has " + (
        f"{count_text(own.gpus, 'GPU')} for itself, number{'s' * (own.gpus > 1)} {numbers} of "
        "this host's, from gpu:0 on: unidev.group().devices."
        if own.gpus
        else "no GPU for itself: gpus_per_worker=1 gives each worker one."
    )


def _of_simulated(own: Membership) -> dict[str, str]:
    if own.gpus:
        # By the rank: a launcher may start each worker of a host as if it were the only one.
        first = own.rank * own.gpus
        return {SIMULATE: str(own.gpus), SIMULATE_FIRST: str(first)}
    for name in DETAILS:
        os.environ.pop(name, None)
    return {SIMULATE: "0"}


def _prepare(preparation: dict[str, Any]) -> dict[str, Any]:
    """Find modules as the parent does; returns what is left to prepare: its script."""
    from multiprocessing import spawn

    theirs = [each for each in preparation["sys_path"] if os.path.exists(each)]
    own = [each for each in sys.path if each]  # without "", the folder in which the worker starts
    here = {**preparation, "sys_path": list(dict.fromkeys([*theirs, *own]))}
    if not os.path.isdir(here.get("dir") or "."):
        del here["dir"]
    main = {name: here.pop(name) for name in [*here] if name.startswith("init_main_")}
    if "init_main_from_path" in main:
        check_file(os.path.join(here.get("orig_dir") or "", main["init_main_from_path"]))
    spawn.prepare(here)
    return main


def _import_main(own: Membership, main: dict[str, Any]) -> None:
    from multiprocessing import spawn

    with _modules_named():
        if own.backend:
            load_backend(own.backend)  # before the user's module imports the framework by itself
            gc.freeze()  # all that is there stays: no collection looks at it, not even the last
        own.is_importing_main = True
        spawn.prepare(main)
    own.is_importing_main = False


def _result(own: Membership, call: bytes) -> bytes:
    from unidev.parallel.messages.pickling import packed

    with _modules_named():
        function, arguments = (pickle.loads(part) for part in pickle.loads(call))  # noqa: S301
    return packed(function(*arguments), f"the result of worker {own.rank}")


def check_file(path: str) -> None:
    """Raise InvalidDataError if a program is not on this machine."""
    if not os.path.isfile(path):
        raise _missing(f"there is no file {path}")


@contextmanager
def _modules_named() -> Iterator[None]:
    """A block in which a missing module is an InvalidDataError that names the machine."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise _missing(str(error)) from error


def _missing(what: str) -> InvalidDataError:
    return InvalidDataError(
        f"{what}, on {socket.gethostname()}, where this worker is: install on each machine what "
        "the workers import, or ship the program's folder to them, if the launcher can."
    )


def _flush() -> None:
    with suppress(Exception):  # the function may have closed or replaced it
        sys.stdout.flush()


def _described(error: BaseException) -> dict[str, Any]:
    """An error for the parent, as text: its class may be unknown there, its objects not travel."""
    lines = "".join(traceback.format_exception(type(error), error, _of_the_call(error)))
    if isinstance(error, SystemExit) and type(error.code) is str:
        lines = ""  # the message is the program's own, and Python prints nothing else
    return {
        "what": _what(error)[:_LONGEST].rstrip(": "),
        "traceback": lines[-_LONGEST:],
        "is_consequence": is_consequence(error),
    }


def _what(error: BaseException) -> str:
    if isinstance(error, SystemExit) and error.code is not None:
        is_plain = type(error.code) in (int, str)
        return f"called sys.exit({repr(error.code) if is_plain else shown(error.code)})"
    try:
        text = str(error)
    except Exception as another:  # noqa: BLE001  the user's own code
        text = f"<its str() raised {type(another).__name__}>"
    return f"raised {type(error).__name__}: {text}"


def _of_the_call(error: BaseException) -> TracebackType | None:
    """The traceback from the first frame that is not unidev's; all of it if there is none."""
    found = error.__traceback__
    while found is not None and found.tb_frame.f_code.co_filename.startswith(_UNIDEV):
        found = found.tb_next
    return found or error.__traceback__


def is_consequence(error: BaseException | None) -> bool:
    """Whether ``error`` is a broken collective, or was raised while one was handled."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, CollectiveError):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False
