"""A worker sees its own GPUs only: by the vendors' variables, before a framework is imported."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from unidev.devices import messages
from unidev.hardware.visible import restriction
from unidev.registry import simulation
from unidev.support.wording import count_text

if TYPE_CHECKING:
    from unidev.distributed.exchange.membership import Membership


def see_own_gpus(own: Membership, place: int) -> None:
    """Let this process see the ``own.gpus`` GPUs at its ``place`` among the workers of its host."""
    first = place * own.gpus
    variables = restriction(os.environ, first, own.gpus)
    numbers = variables["HIP_VISIBLE_DEVICES"]  # or CUDA's, if that was set
    # GPUs that are simulated by the framework's own name are hidden as real ones are.
    if simulation.simulated_count() and not os.environ.get(simulation.NAME):
        variables = _of_simulated(own)
        numbers = ",".join(str(first + index) for index in range(own.gpus))
    os.environ.update(variables)
    messages.note = f"This is worker {own.rank} of {own.size}, and has " + (
        f"{count_text(own.gpus, 'GPU')} for itself, number{'s' * (own.gpus > 1)} {numbers} of "
        "this host's, from gpu:0 on: unidev.group().devices."
        if own.gpus
        else "no GPU for itself: gpus_per_worker=1 gives each worker one."
    )


def _of_simulated(own: Membership) -> dict[str, str]:
    if own.gpus:
        # By the rank: a launcher may start each worker of a host as if it were the only one.
        first = own.rank * own.gpus
        return {simulation.VARIABLE: str(own.gpus), simulation.FIRST: str(first)}
    for name in simulation.DETAILS:
        os.environ.pop(name, None)
    return {simulation.VARIABLE: "0"}
