"""Workers of one machine that take themselves for the only one of theirs, as between machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import engine_samples
import jax
import run_samples

from unidev.parallel.exchange import membership
from unidev.parallel.exchange.agreeing import Agreement
from unidev.parallel.launchers.processes import Processes
from unidev.parallel.messages.channel import Channel
from unidev_jax.group.engine import JaxEngine

if TYPE_CHECKING:
    import pytest


def share_no_folder(patch: pytest.MonkeyPatch) -> None:
    """Launchers have none for the workers to share, as those of several machines."""
    patch.setattr(Processes, "shared_folder", lambda self: None)


def exchanged() -> tuple[dict[str, Any], dict[str, Any]]:
    """Each collective, and how many processes JAX itself counts.

    Then the same by a mutant of the engine, in which what worker 1 gives to a sum is lost.
    """
    _share_no_memory()
    found = {**engine_samples.exchanged(), "processes": jax.process_count()}
    sound = JaxEngine._run

    def lost(self: Any, name: str, own: Any) -> Any:
        is_lost = name == "sum" and self._rank == 1
        return sound(self, name, own * 0 if is_lost else own)

    JaxEngine._run = lost  # type: ignore[method-assign]
    return found, engine_samples.exchanged()


def failing(how: str, rank: int) -> str:
    """As ``run_samples.failing``."""
    _share_no_memory()
    return run_samples.failing(how, rank)


def _share_no_memory() -> None:
    """In a worker, before it joins."""
    assert membership.current is not None
    assert isinstance(membership.current.channel, Channel)
    membership.current.channel.memory = None
    Agreement._shares_memory = property(lambda self: False)  # type: ignore[assignment,method-assign]
