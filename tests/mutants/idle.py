"""Backends that do nothing: every method returns None, or what it was given first.

They are no mutants, as nothing in them is right. What one of them passes proves nothing of any
backend, so no check that is required may pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unidev.backends.numpy_backend import NumpySimulator
from unidev.contract.backend import Backend
from unidev.contract.backend_spec import BackendSpec
from unidev.contract.hookspecs import hookimpl
from unidev.contract.probe import Probe

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, eq=False)
class IdleBackend:
    """The plugin: ``mutants:NAME``."""

    name: str
    answer: Callable[..., Any]
    """What each method does."""

    @hookimpl
    def unidev_register_backend(self) -> BackendSpec:
        """As NumPy's plugin does, but for ``load``."""
        return BackendSpec(
            name=self.name,
            contract_version=3,
            framework="numpy",
            install="pip install numpy",
            load=self.load,
            simulator=NumpySimulator,
            namespaces=("unidev",),
        )

    def load(self) -> type[Backend]:
        """A backend, and a probe, each of whose methods does nothing."""
        import numpy as np

        probe = _idle(Probe, self.answer)
        backend = _idle(Backend, self.answer)
        backend.tensor_types = property(lambda self: (np.ndarray,))
        backend.probe = property(probe)
        return backend  # type: ignore[no-any-return]


def _idle(contract: type, answer: Callable[..., Any]) -> Any:
    names: frozenset[str] = getattr(contract, "__abstractmethods__", frozenset())
    return type("Idle", (contract,), dict.fromkeys(names, answer))


returns_none = IdleBackend("returns_none", lambda self, *arguments: None)
returns_its_input = IdleBackend(
    "returns_its_input", lambda self, *arguments: arguments[0] if arguments else None
)
