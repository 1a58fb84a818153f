r"""Mutants: the reference backend with one thing broken, each named with the checks that catch it.

A suite that cannot fail proves nothing. Each mutant here does, in a few lines, what some real
framework does, and must be caught by the checks that it names. It is a plugin of its own::

    UNIDEV_PLUGINS=unidev.conformance.mutants:copy_is_a_view UNIDEV_DISABLED_PLUGINS=numpy \
        unidev conform mutant_copy_is_a_view --simulate 2

Most replace a method of the reference backend. Trees, scopes, spellings and ``as_in_device`` are
the core's own doing: a mutant of those replaces the core's function when its backend is loaded, for
the whole process. So a mutant must never be loaded but in a child process that is there for it.

NumPy trains nothing, so mutants of training are of a reference that does: ``trains`` is that with
nothing broken, an autograd, a net and an optimizer over NumPy's simulated devices.

``idle`` has backends that do nothing at all.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from unidev.conformance.mutants import (
    as_in_device,
    autograd,
    checkpoints,
    containers,
    copying,
    creating,
    deleting,
    devices,
    gradients,
    idle,
    layers,
    models,
    placing,
    placing_models,
    refusals,
    scopes,
    suite,
    threads_and_memory,
    tracing,
    training,
    values,
)
from unidev.conformance.mutants.mutant import Mutant

if TYPE_CHECKING:
    from collections.abc import Mapping

_SUBJECTS = (
    suite, devices, creating, scopes, copying, values, placing, autograd, as_in_device, containers,
    refusals, deleting, threads_and_memory, training, tracing,
    gradients, models, placing_models, layers, checkpoints,
)  # fmt: skip

_ALL = {
    value.name: value
    for subject in _SUBJECTS
    for value in vars(subject).values()
    if isinstance(value, Mutant)
}

SOUND: Mapping[str, Mutant] = MappingProxyType(
    {name: each for name, each in _ALL.items() if each.result == "pass"}
)
"""Variants of the reference in which nothing is broken: the checks that they name must pass."""

MUTANTS: Mapping[str, Mutant] = MappingProxyType(
    {name: each for name, each in _ALL.items() if name not in SOUND}
)
"""Every mutant by its name."""

IDLE: Mapping[str, idle.IdleBackend] = MappingProxyType(
    {each.name: each for each in (idle.returns_none, idle.returns_its_input)}
)
"""Backends that do nothing: they pass no check that is required."""


def __getattr__(name: str) -> Mutant | idle.IdleBackend:
    for table in (MUTANTS, SOUND, IDLE):
        if name in table:
            return table[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
