"""The current device, stream and defaults of a thread; how blocks begin and end."""

from __future__ import annotations

import contextlib
import warnings
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

import unidev

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    from unidev.device import Device
    from unidev_conformance.kit.workbench import Workbench


def check_stays(
    bench: Workbench, device: Device, calls: Iterable[tuple[str, Callable[[], object]]]
) -> None:
    """No call changes what is current, which is a new stream of ``device``, if it has any."""
    outside = dict(bench.probe.current())
    with bench.probe.side_stream(device) if bench.has("probe.side_stream") else nullcontext():
        inside = dict(bench.probe.current())
        for name, call in calls:
            bench.works(call)
            found = dict(bench.probe.current())
            assert found == inside, f"{name}, while {inside} were current: now {found}"
    assert dict(bench.probe.current()) == outside, f"{device}: not as before the side stream"
    bench.evidence.add("current", {name: str(value) for name, value in inside.items()})


def defaults(bench: Workbench) -> dict[str, object]:
    """The framework's settings and NumPy's, without generators of random numbers.

    And the filters of whole kinds of warnings: those of single ones come with modules.
    """
    state = dict(bench.probe.global_state())
    state["filters"] = [
        f for f in warnings.filters if f[2].__module__ == "builtins" and not (f[1] or f[3])
    ]
    state["NumPy's errors"] = np.geterr()
    if bench.simulated and bench.has("probe.current"):
        state["current"] = dict(bench.probe.current())
    return {n: value for n, value in state.items() if "random" not in n and "rng" not in n}


def check_unchanged(bench: Workbench, before: dict[str, object], where: str) -> None:
    """The settings are those of ``before``."""
    after = defaults(bench)
    changed = [f"{n}: {x}, now {after.get(n)}" for n, x in before.items() if after.get(n) != x]
    assert not changed, f"{where} has changed the framework's defaults: {'; '.join(changed)}"


def check_ends(bench: Workbench, device: Device, error: type[BaseException]) -> None:
    """A block that ``error`` leaves ends, and the error goes on."""
    try:
        with device:
            unidev.zeros(3)
            raise error("as a user's own code may, within the scope")
    except error:
        where = f"after {error.__name__} in {device}"
        bench.oracle.check_device(unidev.zeros(3), bench.cpu, where)
    else:
        raise AssertionError(f"`with {device}` swallows {error.__name__}")


def suspended_within(device: Device) -> Generator[None]:
    """A generator that waits inside the device's block."""
    with device:
        yield


def _throw_into(suspended: list[Generator[None]]) -> None:
    with contextlib.suppress(ZeroDivisionError):
        suspended[0].throw(ZeroDivisionError("as whoever iterates may"))


ENDS: dict[str, Callable[[list[Any]], object]] = {
    "closed": lambda suspended: suspended[0].close(),
    "ended by an error that was thrown into it": _throw_into,
    "dropped": lambda suspended: suspended.clear(),
    "left to the garbage collector": lambda suspended: suspended.append(suspended),
}
"""How a generator ends that is inside a block; each receives a list that has the generator."""
