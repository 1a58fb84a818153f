"""``run``: a function in several processes at once, and what each returned."""

from __future__ import annotations

import errno
import os
import pickle
import sys
import tempfile
from contextlib import contextmanager, suppress
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unidev.backends.discovery import backend_spec
from unidev.backends.loading import group_setting
from unidev.backends.selection import backend_choice
from unidev.backends.simulation import simulated_gpus
from unidev.contract.group_engine import Arrangement, Rendezvous
from unidev.contract.optional import Unsupported
from unidev.errors import (
    BackendNotFoundError,
    InvalidDataError,
    RunError,
    UnsupportedOperation,
    WorkerFailedError,
)
from unidev.parallel.exchange import membership
from unidev.parallel.launchers.finding import launcher_class
from unidev.parallel.launchers.gpus import gpus_of_each
from unidev.parallel.messages.pickling import packed_call, preparation
from unidev.parallel.running.supervisor import Supervisor
from unidev.system.arguments import checked_path, non_negative_integer, real_number
from unidev.system.host.events import Job
from unidev.system.host.host import FILES
from unidev.system.printing import say
from unidev.system.settings import BACKEND, START
from unidev.system.wording import error_text, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from unidev.contract.group_engine import GroupSetting
    from unidev.contract.launcher import Launcher

_PROGRAM = "from unidev.parallel.worker import main; main()"
_READ_BY_LIBRARIES = ("OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "LD_", "PYTHON")
"""How names of variables begin that NumPy, its libraries, or Python read when they start."""
_LEEWAY_S = 60.0
"""How much longer engines wait than the user's timeout: the supervisor is to end the run, which
knows who is missing, and not an error of an engine that does not."""


def run(  # noqa: PLR0913  each is an option of its own
    function: Callable[..., Any],
    /,
    *args: Any,
    workers: int = 2,
    launcher: str | None = None,
    address: str | None = None,
    backend: str | None = None,
    gpus_per_worker: int | None = None,
    start: str | None = None,
    timeout: float = 600,
    retries: int = 0,
    checkpoints: str | os.PathLike[str] | None = None,
) -> list[Any]:
    """Call ``function(*args)`` in several new processes at once, and return what each returned.

    Within ``function``, ``unidev.group()`` connects the workers. Blocks until all have returned.
    What they print is shown line by line, with the worker's number.

    Args:
        function: must be importable: defined at the top of a module, or of the script, which calls
            ``run`` under ``if __name__ == "__main__":``.
        *args: for each worker the same; plain values and NumPy arrays, pickled.
        workers: how many.
        launcher: ``processes``, on this machine, or one of a plugin, such as ``ray``. None: the one
            that takes an address, if there is an ``address``, else ``processes``.
        address: of a cluster; for Ray ``auto`` or ``host:port``.
        backend: the backend of the tensors that workers exchange. None: as ``active_backend``
            selects it; workers get it as UNIDEV_BACKEND.
        gpus_per_worker: how many GPUs (or simulated ones) each worker has for itself. 0: the CPU.
            None: one, if there are enough for all workers; else all use the CPU, which is reported.
        start: ``spawn``: each worker is a new process. ``fork``: it is forked from one on its host
            that has imported unidev and the framework. None: as UNIDEV_START says, else ``fork``
            where the backend declares it and the workers use no real GPUs, else ``spawn``.
        timeout: how many seconds the others wait for a worker at a collective.
        retries: how often the run starts again after a worker has failed, from the last checkpoint.
        checkpoints: the folder for ``group().checkpoint``; made if it is missing.

    Returns:
        The results by rank; plain values and NumPy arrays.

    Raises:
        WorkerFailedError: a worker raised, was killed, ended, returned while others waited, or did
            not call a collective; names the one that failed first.
        InvalidDataError: an argument is invalid, or cannot be sent to a worker; or a result cannot
            be unpickled here.
        NotATensorError: an argument holds a tensor or a model: pass ``to_numpy(x)``.
        DeviceNotFoundError: there are not as many GPUs.
        RunError: the system does not allow so many processes, or so many open files; or another
            run has this folder for its checkpoints.
        UnsupportedOperation: this is a worker already, the launcher is not available here, workers
            cannot be forked and ``fork`` is requested, or psutil, which is needed to watch workers,
            is not installed.

    However it ends, also by SIGKILL, no worker is left, nor any process that a worker has started:
    the variable UNIDEV_RUN_MARKS marks those in other sessions, unless their environment was
    cleared.
    """
    if membership.current is not None:
        raise UnsupportedOperation("unidev.run in a worker", _why_not_here(membership.current))
    size = _integer(workers, "workers", 1)
    gpus = None if gpus_per_worker is None else _integer(gpus_per_worker, "gpus_per_worker", 0)
    attempts = 1 + _integer(retries, "retries", 0)
    timeout_s = real_number(timeout)
    if timeout_s is None or not 0 < timeout_s < inf:
        raise InvalidDataError(
            f"timeout must be a positive number of seconds, not {shown(timeout)}."
        )
    if attempts > 1 and checkpoints is None:
        raise InvalidDataError(
            "retries start again from the last checkpoint: pass checkpoints=…, a folder that all "
            "workers can reach."
        )
    for name, given in (("address", address), ("backend", backend), ("start", start)):
        if given is not None and not isinstance(given, str):
            raise InvalidDataError(f"{name} must be a string or None, not {shown(given)}.")
    how = START.value() if start is None else START.parse("start", start)
    call = packed_call(function, args)
    cls = launcher_class(launcher, address)
    folder = _folder(checkpoints)
    order = {
        "size": size, "backend": _existing(backend), "timeout_s": timeout_s, "checkpoints": folder,
    }  # fmt: skip
    with _alone_in(folder):
        for attempt in range(attempts):
            with _limits_named():
                workers_of = cls(size, address)
            try:
                with _limits_named():
                    _start(workers_of, gpus, how, call, {**order, "attempt": attempt})
                results = Supervisor(workers_of, timeout_s).results()
            except WorkerFailedError as error:
                if attempt + 1 == attempts:
                    raise
                say(f"{str(error).splitlines()[0]} Trying again ({attempt + 1} of {attempts - 1}).")
            else:
                return [_unpacked(result, rank) for rank, result in enumerate(results)]
            finally:
                workers_of.end()
    raise AssertionError


@contextmanager
def _alone_in(folder: str | None) -> Iterator[None]:
    """A block in which no other run has that folder for its checkpoints, as far as can be seen."""
    if folder is None or sys.platform == "win32":
        yield
        return
    import fcntl

    held = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if isinstance(error, BlockingIOError):  # else there are no locks, as on some network's disk
            os.close(held)
            raise RunError(
                f"another run writes its checkpoints into {folder}: give each a folder of its own."
            ) from None
    try:
        yield
    finally:
        with suppress(OSError):  # where there are none
            fcntl.flock(held, fcntl.LOCK_UN)  # also of forks, which have a copy
        os.close(held)


def _existing(backend: str | None) -> str:
    """The name of the workers' backend, before GPUs are counted by it."""
    if backend:
        return backend_spec(backend).name
    choice = backend_choice()
    try:
        return backend_spec(choice.name).name
    except BackendNotFoundError as error:
        raise choice.not_found(error) from None


def _unpacked(result: bytes, rank: int) -> Any:
    try:
        return pickle.loads(result)  # noqa: S301  our workers'
    except Exception as error:  # objects' own code runs
        told = f"the result of worker {rank} cannot be unpickled: {error_text(error)}"
        raise InvalidDataError(told) from error


@contextmanager
def _limits_named() -> Iterator[None]:
    """Name the limit in the error, and how to raise it, if a limit keeps workers from starting."""
    try:
        yield
    except OSError as error:
        remedy = _remedy(error)
        if remedy is None:
            raise
        raise RunError(f"the workers do not start: {error}. {remedy}") from error


def _remedy(error: OSError) -> str | None:
    """How to raise the limit; None if it is not about a limit."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return (
            f"Make room in the temporary folder {tempfile.gettempdir()}, or set TMPDIR to another "
            "folder."
        )
    if error.errno == errno.EFBIG:
        return "Raise the limit on the length of files (`ulimit -f`)."
    if error.errno == errno.EMFILE:
        import resource

        most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return (
            f"Each worker takes {FILES} of the {most} files that this process may have open: "
            "raise that limit (`ulimit -n`), or use fewer workers."
        )
    if error.errno == errno.EAGAIN:
        return (
            "The system lets this user have no more processes: raise that limit (`ulimit -u`), or "
            "use fewer workers."
        )
    return None


def _start(
    launcher: Launcher, wanted_gpus: int | None, start: str | None, call: bytes,
    order: Mapping[str, Any],
) -> None:  # fmt: skip
    """Start the workers, each with its ``Membership``."""
    backend = order["backend"]
    gpus = gpus_of_each(launcher, wanted_gpus, backend)
    launcher.place(gpus if simulated_gpus() is None else 0)
    # A launcher may start them on machines where these are not set.
    ours = {name: value for name, value in os.environ.items() if name.startswith("UNIDEV_")}
    setting = group_setting(backend_spec(backend))
    if len(launcher.hosts) == 1:
        setting = None  # one worker joins no other
    rendezvous, arrangement = _arranged(launcher, setting, order["timeout_s"])
    prepared = preparation(call)
    template = _template(start, gpus, backend, arrangement, prepared)
    jobs = []
    for rank in range(len(launcher.hosts)):
        own = {
            **order, "rank": rank, "gpus": gpus, "rendezvous": rendezvous,
            "joins_first": setting is not None and setting.joins_first,
        }  # fmt: skip
        message = pickle.dumps({"membership": own, "call": call, "preparation": prepared})
        environment = {**ours, BACKEND: backend, **arrangement.environment[rank]}
        jobs.append(Job(rank, environment, _PROGRAM, message, template))
    launcher.start(jobs, arrangement.helpers)


def _template(
    start: str | None, gpus: int, backend: str, arrangement: Arrangement, prepared: dict[str, Any]
) -> str:
    """The statements before workers fork; "" if each is to be a new process."""
    reason = "" if start == "spawn" else _why_not_forked(gpus, backend, arrangement)
    if reason and start == "fork":
        raise UnsupportedOperation("unidev.run(start='fork')", reason)
    if reason is not None:
        return ""
    general = {name: value for name, value in prepared.items() if not name.startswith("init_main_")}
    given = f"{backend!r}, {pickle.dumps(general)!r}, {len(arrangement.environment)}"
    return f"from unidev.parallel.worker import prepare_forks; prepare_forks({given})"


def _why_not_forked(gpus: int, backend: str, arrangement: Arrangement) -> str | None:
    forks, simulated = backend_spec(backend).forks, simulated_gpus()
    if sys.platform != "linux":
        return "a fork is known to be safe on Linux alone"
    if isinstance(forks, Unsupported):
        return forks.reason
    if simulated is None and gpus:
        return "workers with GPUs are new processes, since a driver need not survive a fork"
    if simulated is not None and (simulated.name is not None or not forks.simulates):
        return "simulated GPUs are set up before the framework is imported, by each worker"
    first, *others = arrangement.environment
    for name in sorted({each for one in arrangement.environment for each in one}):
        is_read = name.startswith((*_READ_BY_LIBRARIES, *forks.reads))
        if is_read and any(first.get(name) != other.get(name) for other in others):
            return f"{name}, which is read when the framework is imported, differs between workers"
    return None


def _folder(checkpoints: str | os.PathLike[str] | None) -> str | None:
    if checkpoints is None:
        return None
    folder = Path(checked_path(checkpoints)).absolute()
    if folder.is_file():
        raise InvalidDataError(f"checkpoints must be a folder, and {str(folder)!r} is a file.")
    folder.mkdir(parents=True, exist_ok=True)
    return str(folder)


def _arranged(
    launcher: Launcher, setting: GroupSetting | None, timeout_s: float
) -> tuple[Rendezvous, Arrangement]:
    """Where the workers meet; ports are looked for only if the framework's engine needs some."""
    size = len(launcher.hosts)
    helper_ports = 0 if setting is None else setting.helper_ports
    counts = [0 if setting is None else 1] * size
    counts[0] += helper_ports
    ports = launcher.free_ports(counts)
    folder = None if setting is None else launcher.shared_folder()
    rendezvous = Rendezvous(
        launcher.hosts,
        tuple(own[0] if own else 0 for own in ports),
        tuple(ports[0][1:]),
        None if folder is None else Path(folder),
        timeout_s + _LEEWAY_S,
    )
    if setting is None:
        return rendezvous, Arrangement(({},) * size)
    arrangement = setting.prepare(rendezvous)
    if arrangement.listens is not None:
        say(f"while the workers run, {arrangement.listens}.")
    return rendezvous, arrangement


def _integer(value: object, name: str, least: int) -> int:
    number = non_negative_integer(value, membership.MOST)
    if number is None or number < least:
        raise InvalidDataError(
            f"{name} must be an integer from {least} to {membership.MOST}, not {shown(value)}."
        )
    return number


def _why_not_here(own: membership.Membership) -> str:
    if own.is_importing_main:
        return (
            "the script calls it while a worker imports it: put that call under "
            '`if __name__ == "__main__":`'
        )
    return f"this is worker {own.rank} of a run; start all workers from one process"
