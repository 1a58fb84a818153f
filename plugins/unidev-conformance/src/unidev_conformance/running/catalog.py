"""The list of checks: the name of each, what it proves, and whether a profile requires it."""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from unidev_conformance import HARDWARE
from unidev_conformance.judging.check import Check

if TYPE_CHECKING:
    from collections.abc import Callable

    from unidev_conformance.kit.workbench import Workbench

PROFILES = ("tensor", "train", "multi", "interop", HARDWARE)
GROUPS = (
    "smoke", "devices", "create", "dtypes", "copy", "as_in_device", "containers", "host_data",
    "errors", "values", "sequences", "threads", "prefetch", "memory", "statistics", "many",
    "pinned", "queued", "pending", "current", "contexts", "scarcity", "tracer", "gradients",
    "value_and_grad", "model_gradients", "compiled", "models", "placing", "trees", "failures",
    "footprint", "estimating", "nested", "layers", "functional", "checkpoints", "damage",
    "training_sequences", "splitting", "replicating", "packing", "reducing", "data_parallel",
    "spreading", "workers", "converting", "cards", "kernels", "bus", "moving",
)  # fmt: skip
"""The order in which they run: a faulty probe is found before it is used to judge anything."""

_CHECKS = "unidev_conformance.checks"
_ATTRIBUTE = "_unidev_check"


def check(
    *,
    required: bool = False,
    profile: str | None = None,
    needs: tuple[str, ...] = (),
    also_in: tuple[str, ...] = (),
    over: str | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a test function a check: ``test_zero_d`` in ``tensor/test_copy.py`` is ``copy.zero_d``.

    Args:
        required: whether a backend must pass it to conform.
        profile: the set that it belongs to; by default its folder in ``checks/``.
        needs: abilities, as ``backends.description`` names them, that the check cannot do without.
        also_in: other profiles that the check belongs to.
        over: what of the ``Workbench`` it goes through, such as ``devices`` or ``pairs``: the
            function is called with each device or pair, after the workbench.
    """

    def mark(function: Callable[..., Any]) -> Callable[..., Any]:
        *_, room, module = function.__module__.split(".")
        group = module.removeprefix("test_")
        belongs_to = profile or room
        name = function.__name__.removeprefix("test_")
        summary = inspect.getdoc(function) or ""
        made = Check(
            f"{group}.{name}", summary.partition("\n")[0], belongs_to, required, needs, also_in
        )
        if not {belongs_to, *also_in} <= set(PROFILES) or group not in GROUPS:
            raise ValueError(f"{made.id}: unknown profile or group")
        run = function if over is None else _through(over, function)
        setattr(run, _ATTRIBUTE, made)
        return run

    return mark


def _through(places: str, function: Callable[..., Any]) -> Callable[[Workbench], None]:
    def run(bench: Workbench) -> None:
        found = getattr(bench, places)
        for place in found() if callable(found) else found:
            function(bench, *(place if isinstance(place, tuple) else (place,)))

    # Without `functools.wraps`, whose `__wrapped__` would tell pytest of the other arguments.
    for name in functools.WRAPPER_ASSIGNMENTS:
        setattr(run, name, getattr(function, name))
    return run


def check_of(function: object) -> Check | None:
    """The check that a test function is, or None."""
    found = getattr(function, _ATTRIBUTE, None)
    return found if isinstance(found, Check) else None


def all_checks(profile: str = "tensor") -> list[Check]:
    """Every check of the profile, in the order in which they run."""
    return [
        replace(each, profile=profile, also_in=())
        for each in _every_check()
        if profile in (each.profile, *each.also_in)
    ]


def every_check() -> dict[str, Check]:
    """The checks of all profiles, by id."""
    return {each.id: each for each in _every_check()}


def _every_check() -> list[Check]:
    package = importlib.import_module(_CHECKS)
    found: dict[str, list[Check]] = {group: [] for group in GROUPS}
    for info in pkgutil.walk_packages(package.__path__, f"{_CHECKS}."):
        if info.ispkg:
            continue
        module = importlib.import_module(info.name)
        for function in vars(module).values():
            each = check_of(function)
            if each is not None:
                found[each.group].append(each)
    return [each for group in GROUPS for each in found[group]]
