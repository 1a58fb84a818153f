"""The launcher ``ray``: workers on the machines of a Ray cluster, or of a Ray of the run's own."""

from __future__ import annotations

import os
import secrets
import socket
import sys
import tempfile
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from unidev.contract.launcher import ENDED, Ended, Event, Launcher
from unidev.distributed.launchers.ray_place import RayPlace
from unidev.distributed.launchers.run_folders import RAY, own_folder
from unidev.errors import DeviceNotFoundError, InvalidDataError, UnsupportedOperation
from unidev.registry.simulation import simulated_count
from unidev.support.arguments import seconds_in
from unidev.support.extras import check_extra
from unidev.support.printing import say
from unidev.support.wording import count_text, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from unidev.contract.group_engine import HelperProcess
    from unidev.contract.launcher import Frame, Job

_POLL_S = 1.0
_REACH_S = 10.0
PLACE_TIMEOUT = "UNIDEV_RAY_PLACE_TIMEOUT"
_PLACE_S = 60.0
_END_S = 15.0
_ANSWER_S = 8.0
"""Longer than a worker may take to write its stack."""
_LOOPBACK = "127.0.0.1"


class RayLauncher(Launcher):
    """An actor for each worker, whose process it starts, hears and ends."""

    takes_address = True

    def __init__(self, size: int, gpus: int | None, address: str | None) -> None:
        self._scope = ExitStack()
        self._actors: list[Any] = []
        self._polls: dict[Any, int] = {}
        self._silent: set[int] = set()
        """Workers whose host has not answered."""
        self._folder: str | None = None
        check_extra("distributed", 'unidev.run(launcher="ray")')
        self._place_s = seconds_in(PLACE_TIMEOUT, _PLACE_S)
        try:
            if address is None:
                self._folder = self._scope.enter_context(own_folder(RAY))
                self._scope.enter_context(_variables(_of_own_ray()))
            import ray  # now, since it reads these variables

            self._ray = ray
            self._connect(address, size)
            self._gpus = self._affordable(size, gpus)
            self._place(size, is_local=address is None)
        except BaseException:
            self.end()
            raise

    def gpus_per_worker(self, backend: str) -> int:  # noqa: ARG002  Ray counts them
        """As requested; or one, if there are enough. Each worker sees its own only."""
        return self._gpus

    def free_ports(self, counts: Sequence[int]) -> Sequence[Sequence[int]]:
        """Ports of each worker's host that were free a moment ago."""
        pairs = zip(self._actors, counts, strict=True)
        found = self._ray.get([actor.free_ports.remote(count) for actor, count in pairs])
        return [list(ports) for ports in found]

    def shared_folder(self) -> str | None:
        """A new folder on a Ray of the run's own; None on a cluster."""
        if self._folder is None:
            return None
        return tempfile.mkdtemp(prefix="run-", dir=self._folder)

    def start(self, jobs: Sequence[Job], helpers: Sequence[HelperProcess]) -> None:
        """Have each actor start its worker."""
        ours = {name: value for name, value in os.environ.items() if name.startswith("UNIDEV_")}
        jobs = [job._replace(environment={**ours, **job.environment}) for job in jobs]
        if helpers:
            self._ray.get(self._actors[0].start_helpers.remote(list(helpers)))
        pairs = zip(self._actors, jobs, strict=True)
        self._ray.get([actor.start.remote(job) for actor, job in pairs])
        self._polls = {
            actor.events.remote(_POLL_S): rank for rank, actor in enumerate(self._actors)
        }

    def send(self, rank: int, frame: Frame) -> None:
        """By Ray's object store."""
        if rank in self._polls.values():
            self._actors[rank].send.remote(rank, frame._replace(body=b""), bytes(frame.body))

    def events(self, timeout_s: float) -> Sequence[Event]:
        """The events that the actors report; a lost actor is an ended worker."""
        if not self._polls:
            return []
        ray, found = self._ray, list[Event]()
        ray.wait(list(self._polls), timeout=timeout_s)
        ready, _ = ray.wait(list(self._polls), num_returns=len(self._polls), timeout=0)
        for poll in ready:
            rank = self._polls.pop(poll)
            try:
                found += ray.get(poll)
            except ray.exceptions.RayActorError as error:  # its machine is gone, or it was killed
                found.append(Event(ENDED, rank, Ended(-9, f"Ray: {error}")))
            else:
                self._polls[self._actors[rank].events.remote(_POLL_S)] = rank
        return found

    def hindrance(self, rank: int) -> str | None:
        """By the actor."""
        found = self._answer(rank, "hindrance")
        return "its host does not answer" if rank in self._silent else found

    def stack_of(self, rank: int) -> str:
        """By the actor."""
        return self._answer(rank, "stack_of") or ""

    def end(self) -> None:
        """End the workers by their actors, the actors, and a Ray of the run's own."""
        actors, self._actors, self._polls = self._actors, [], {}
        ends = [actor.end.remote() for actor in actors]
        awaited = [each for rank, each in enumerate(ends) if rank not in self._silent]
        if awaited:
            with suppress(self._ray.exceptions.RayError):
                self._ray.get(awaited, timeout=_END_S)
        for actor in actors:
            self._ray.kill(actor)
        self._scope.close()

    # -- inside --------------------------------------------------------------------------------

    def _answer(self, rank: int, method: str) -> str | None:
        """What the actor says of its worker; asked no more once its host has not answered."""
        if rank in self._silent:
            return None
        asked = getattr(self._actors[rank], method).remote(rank)
        with suppress(self._ray.exceptions.RayError):
            try:
                answer: str | None = self._ray.get(asked, timeout=_ANSWER_S)
                return answer
            except self._ray.exceptions.GetTimeoutError:
                self._silent.add(rank)
        return None

    def _connect(self, address: str | None, size: int) -> None:
        if self._ray.is_initialized():
            if address is None:
                raise UnsupportedOperation(
                    "a Ray of the run's own",
                    "this process is connected to a Ray already: pass address=…, such as "
                    f'"{self._ray.get_runtime_context().gcs_address}"',
                )
            return
        quiet = {"logging_level": "ERROR", "log_to_driver": False}
        if address is None:
            self._scope.callback(self._ray.shutdown)
            self._ray.init(
                address="local", include_dashboard=False, num_cpus=size, _temp_dir=self._folder,
                _node_ip_address=_LOOPBACK, **quiet,
            )  # fmt: skip
            return
        _check_reachable(address)
        self._scope.callback(self._ray.shutdown)
        try:
            self._ray.init(address=address, **quiet)
        except ConnectionError as error:
            raise InvalidDataError(
                f"no Ray cluster was found at address={shown(address)}: start one with `ray start "
                "--head`, and pass its HOST:PORT."
            ) from error

    def _affordable(self, size: int, gpus: int | None) -> int:
        """How many GPUs each worker gets, of those that the cluster has."""
        if gpus == 0:
            return 0
        if simulated_count():
            there = simulated_count() * size  # each process has its own
        else:
            there = int(self._ray.cluster_resources().get("GPU", 0))
        if gpus is None:
            if 0 < there < size:
                say(
                    f"{count_text(there, 'GPU')} for {count_text(size, 'worker')}: all of them use "
                    "the CPU."
                )
            return int(there >= size)
        if gpus * size > there:
            raise DeviceNotFoundError(
                f"{count_text(size, 'worker')} with {count_text(gpus, 'GPU')} each need "
                f"{gpus * size}, and the Ray cluster has {there}: use fewer workers, or "
                "gpus_per_worker=0 for the CPU."
            )
        return gpus

    def _place(self, size: int, *, is_local: bool) -> None:
        ray = self._ray
        reserved = 0 if simulated_count() else self._gpus
        cls = ray.remote(RayPlace).options(
            num_cpus=1, num_gpus=reserved, max_concurrency=3, scheduling_strategy="SPREAD"
        )
        self._actors = [cls.remote() for _ in range(size)]
        try:
            hosts = ray.get([actor.host.remote() for actor in self._actors], timeout=self._place_s)
        except ray.exceptions.GetTimeoutError as error:
            there = int(ray.cluster_resources().get("CPU", 0))
            raise InvalidDataError(
                f"Ray has found no room for {count_text(size, 'worker')} within {self._place_s:g} "
                f"s: the cluster has {count_text(there, 'CPU')}, and each worker needs one. If it "
                f"is busy, or grows on demand, allow more seconds by {PLACE_TIMEOUT}."
            ) from error
        ray.get([actor.meet.remote(self._actors) for actor in self._actors])
        self.hosts = (_LOOPBACK,) * size if is_local else tuple(hosts)


_token: str | None = None
"""Ray reads it once for each process, when it is imported."""


def _of_own_ray() -> dict[str, str]:
    """Variables of a Ray that no one else can use: it listens on loopback, and has a token.

    Raises:
        UnsupportedOperation: it is too late for a token.
    """
    global _token  # noqa: PLW0603  one for each process
    own = {
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    }
    if os.environ.get("RAY_AUTH_MODE") == "token":  # the user's own
        return own
    if _token is None:
        if "ray" in sys.modules:
            raise UnsupportedOperation(
                "a Ray of the run's own",
                "this program has imported ray before, without a token: set RAY_AUTH_MODE=token "
                "and RAY_AUTH_TOKEN, import ray later, or pass the address of a cluster",
            )
        _token = secrets.token_hex(32)
    return {**own, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": _token}


@contextmanager
def _variables(values: dict[str, str]) -> Iterator[None]:
    """A block with these variables; Ray sets others, which go with them."""
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        for name in os.environ.keys() | before.keys():
            if name in before:
                os.environ[name] = before[name]
            elif name.startswith("RAY_") or name == "PYTHONBREAKPOINT":
                del os.environ[name]


def _check_reachable(address: str) -> None:
    """Ray itself would try for minutes."""
    if address == "auto":
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise InvalidDataError(f'address must be "auto" or "host:port", not {shown(address)}.')
    try:
        socket.create_connection((host, int(port)), timeout=_REACH_S).close()
    except OSError as error:
        raise InvalidDataError(
            f"nothing answers at address={shown(address)}: {error}. `ray start --head` prints the "
            "address of a cluster."
        ) from error
