r"""Mutants: a backend with one thing broken, each named with the checks that catch it.

A suite that cannot fail proves nothing. Each mutant here does, in a few lines, what some real
framework does, and must be caught by the checks that it names. It is a plugin of its own; with this
folder's parent on the import path::

    UNIDEV_PLUGINS=mutants:copy_is_a_view UNIDEV_DISABLED_PLUGINS=numpy \
        unidev conform mutant_copy_is_a_view --simulate 2

Most break NumPy's backend, the reference. NumPy trains nothing, so mutants of gradients and of
models break PyTorch's (``torch_mutant``), and PyTorch's session judges them; mistakes that take
immutable tensors break that of ``examples/toy_backend`` (``toy_mutant``). Containers, scopes,
spellings and ``as_in_device`` are the core's own work: a mutant of those replaces the core's
function, for the whole process. So a mutant is loaded only in a child process.

``idle`` has backends that do nothing at all.
"""

from __future__ import annotations

import importlib
import pkgutil
from types import MappingProxyType
from typing import TYPE_CHECKING

from mutants import idle
from mutants.mutant import Mutant

if TYPE_CHECKING:
    from collections.abc import Mapping

_FOUND = [
    value
    for module in pkgutil.walk_packages(__path__, f"{__name__}.")
    for value in vars(importlib.import_module(module.name)).values()
    if isinstance(value, Mutant)
]
_ALL = {each.name: each for each in _FOUND}
if len(_ALL) < len(_FOUND):  # one of two of a name would never be judged
    names = [each.name for each in _FOUND]
    raise ValueError(f"two mutants have one name: {[n for n in _ALL if names.count(n) > 1]}")

SOUND: Mapping[str, Mutant] = MappingProxyType(
    {name: each for name, each in _ALL.items() if each.result == "pass"}
)
"""Variants in which nothing is broken: the checks that they name must pass."""

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
