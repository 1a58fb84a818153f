"""The launcher ``ray``: workers on the machines of a Ray cluster, or of a Ray of the run's own."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack, suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from unidev.contract import Ended, Event, Launcher, own_folder, seconds_in
from unidev.errors import InvalidDataError, UnsupportedOperation
from unidev_ray.connecting import LOOPBACK, cluster, own_ray
from unidev_ray.place import RayPlace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unidev.contract import Frame, HelperProcess, Job

PLACE_TIMEOUT = "UNIDEV_RAY_PLACE_TIMEOUT"
_PLACE_S = 60.0
_POLL_S = 1.0
_END_S = 15.0
_ANSWER_S = 8.0
"""Longer than a worker may take to write its stack."""


class RayLauncher(Launcher):
    """An actor for each worker, whose process it starts, hears and ends."""

    gpus_are_of = "the Ray cluster"

    def __init__(self, size: int, address: str | None) -> None:
        super().__init__(size, address)
        self._scope = ExitStack()
        self._actors: list[Any] = []
        self._polls: dict[Any, int] = {}
        self._silent: set[int] = set()
        """Workers whose host has not answered."""
        self._folder: str | None = None
        _check_installed()
        self._place_s = seconds_in(PLACE_TIMEOUT, _PLACE_S)
        try:
            if address is None:
                self._folder = self._scope.enter_context(own_folder())
                self._ray = own_ray(self._scope, size, self._folder)
            else:
                self._ray = cluster(self._scope, address)
        except BaseException:  # also Ctrl-C: `end` is not called if this raises
            self._scope.close()
            raise

    def gpu_count(self) -> int:
        """As many as Ray has counted on its machines."""
        return int(self._ray.cluster_resources().get("GPU", 0))

    def place(self, gpus: int) -> None:
        """An actor for each worker, on as many machines as there are."""
        ray, size = self._ray, self.size
        cls = ray.remote(RayPlace).options(
            num_cpus=1, num_gpus=gpus, max_concurrency=3, scheduling_strategy="SPREAD"
        )
        self._actors = [cls.remote() for _ in range(size)]
        try:
            hosts = ray.get([actor.host.remote() for actor in self._actors], timeout=self._place_s)
        except ray.exceptions.GetTimeoutError as error:
            there = int(ray.cluster_resources().get("CPU", 0))
            raise InvalidDataError(
                f"Ray has found no room for {_count(size, 'worker')} within {self._place_s:g} s: "
                f"the cluster has {_count(there, 'CPU')}, and each worker needs one. If it is "
                f"busy, or grows on demand, allow more seconds by {PLACE_TIMEOUT}."
            ) from error
        ray.get([actor.meet.remote(self._actors) for actor in self._actors])
        self.hosts = (LOOPBACK,) * size if self._folder is not None else tuple(hosts)

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
                found.append(Event(rank, Ended(-9, f"Ray: {error}")))
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


def _check_installed() -> None:
    if find_spec("ray") is None:
        raise UnsupportedOperation(
            "the launcher 'ray'",
            "ray is not installed. In unidev's repository, run: pip install . "
            "'./plugins/unidev-ray[framework]'",
        )


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"
