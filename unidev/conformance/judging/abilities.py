"""Abilities that a backend may decline, and how declining is verified.

A backend declines with ``unsupported(reason)`` in place of the ability, whose every use raises
``UnsupportedOperation``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unidev.conformance.judging.outcomes import NotSupportedError
from unidev.contract.backend import Unsupported
from unidev.errors import UnsupportedOperation
from unidev.registry.description import resolve

if TYPE_CHECKING:
    from unidev.contract.backend import Backend


def require_ability(backend: Backend, name: str) -> None:
    """Return if ``backend`` has the ability.

    Raises:
        NotSupportedError: it declines.
        AssertionError: it declines by an object that may do what it declines.
    """
    ability = resolve(backend, name)
    if isinstance(ability, Unsupported):
        if type(ability) is not Unsupported:
            raise AssertionError(
                f"{name} is declared unsupported ({ability.reason}) by a {type(ability).__name__}, "
                "which may work: declare it with unidev.unsupported(reason)"
            )
        raise NotSupportedError(ability.reason, ability.link)
    if name == "probe.allocated_bytes":  # the default uses the C library, and may decline then
        try:
            ability(backend.cpu)
        except UnsupportedOperation as refusal:
            raise NotSupportedError(refusal.reason, refusal.link) from refusal
