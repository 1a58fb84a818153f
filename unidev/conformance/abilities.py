"""What a backend may do or decline, and how it is held to declining.

A backend declines with ``unsupported(reason)`` in the place of the ability. Calling that must raise
``UnsupportedOperation``: one that says "unsupported" and works is a false statement, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.backend import Unsupported
from unidev.conformance.events import Capability
from unidev.conformance.outcomes import NotSupportedError
from unidev.errors import UnsupportedOperation

if TYPE_CHECKING:
    from collections.abc import Callable

    from unidev.backend import Backend

    Trial = Callable[[Backend, Any], object]


def _matrix() -> np.ndarray[Any, Any]:
    return np.arange(6, dtype="float32").reshape(2, 3)


def _tensor(backend: Backend) -> Any:
    return backend.probe.make(_matrix(), backend.device("cpu", 0))


def _model(backend: Backend) -> Any:
    return backend.probe.models.model()


_TRIALS: dict[str, Trial] = {
    "native_scope": lambda backend, call: call(backend.device("cpu", 0)),
    "extents": lambda backend, call: call(_tensor(backend)),
    "memory": lambda backend, call: call(backend.device("cpu", 0)),
    "pinned": lambda backend, call: call(_tensor(backend)),
    "peaks": lambda backend, part: part.peak_bytes(backend.device("cpu", 0)),
    "probe.write": lambda backend, call: call(_tensor(backend), 1.0),
    "probe.gradient": lambda backend, call: call(
        lambda x: x, _matrix(), backend.device("cpu", 0)
    ),
    "probe.deleted": lambda backend, call: call(backend.device("cpu", 0)),
    "probe.allocated_bytes": lambda backend, call: call(backend.device("cpu", 0)),
    "models": lambda backend, part: part.parameters({"x": _tensor(backend)}),
    "autograd": lambda backend, part: part.leaf(_tensor(backend)),
    "layers": lambda _, part: part.relu(),
    "functions": lambda backend, part: part.relu(_tensor(backend)),
    "installation": lambda _, part: part.build(),
    "tracer": lambda _, part: part.watch(print, print),
    "probe.autograd": lambda backend, part: part.gradients(
        lambda x: x, [_matrix()], [backend.device("cpu", 0)]
    ),
    "probe.autograd.second_order": lambda backend, call: call(
        lambda x: x, _matrix(), backend.device("cpu", 0)
    ),
    "probe.autograd.is_differentiable": lambda backend, call: call(_tensor(backend)),
    "probe.models": lambda _, part: part.model(),
    "probe.models.earlier_optimizer": lambda backend, call: call(_model(backend)),
    "probe.models.add_hook": lambda backend, call: call(_model(backend), lambda: None),
    "probe.models.unbuilt": lambda _, call: call(),
    "probe.models.spread": lambda _, call: call(),
}  # fmt: skip
"""Each ability, and a call of it that makes sense: of a part, a call of one of its methods."""


def capabilities(backend: Backend) -> dict[str, Capability]:
    """What ``backend`` says that it can do, read off its attributes."""
    found = {
        "simulator": _capability(backend.spec.simulator),
        "probe": _capability(backend.probe),
    }
    for name in _TRIALS:
        if not name.startswith("probe.") or found["probe"].supported:
            found[name] = _capability(_resolve(backend, name)[1])
    if found.get("probe.allocated_bytes", found["probe"]).supported:
        found["probe.allocated_bytes"] = _counted(backend)
    return found


def require_ability(backend: Backend, name: str) -> None:
    """Return if ``backend`` has the ability, and hold it to it if it declines.

    Raises:
        NotSupportedError: it declines, and the call does raise ``UnsupportedOperation``.
        AssertionError: it declines, and yet the call does something else.
    """
    declined, ability = _resolve(backend, name)
    declines = isinstance(ability, Unsupported)
    if not declines and name != "probe.allocated_bytes":
        return
    try:
        result = _TRIALS[declined](backend, ability)
    except UnsupportedOperation as refusal:
        # The default of allocated_bytes asks the C library, and may decline only when called.
        raise NotSupportedError(refusal.reason, refusal.link) from refusal
    except Exception as error:
        raise AssertionError(
            f"{name} is declared unsupported ({_reason(ability)}), and raises "
            f"{type(error).__name__} in place of UnsupportedOperation: {error}"
        ) from error
    if declines:
        raise AssertionError(
            f"{name} is declared unsupported ({_reason(ability)}), and works: it returned "
            f"{type(result).__name__}"
        )


def _resolve(backend: Backend, name: str) -> tuple[str, Any]:
    """The ability; or the part of the backend that it would be in, if that is declined already."""
    found: Any = backend
    so_far: list[str] = []
    for part in name.split("."):
        so_far.append(part)
        found = getattr(found, part)
        # Of `probe` itself there is no trial: who has none to ask cannot be held to anything.
        if isinstance(found, Unsupported) and so_far != ["probe"]:
            break
    return ".".join(so_far), found


def _reason(ability: object) -> str:
    return ability.reason if isinstance(ability, Unsupported) else "when it is called"


def _counted(backend: Backend) -> Capability:
    try:
        backend.probe.allocated_bytes(backend.device("cpu", 0))
    except UnsupportedOperation as refusal:
        return Capability(supported=False, reason=refusal.reason, link=refusal.link)
    return Capability(supported=True)


def _capability(ability: object) -> Capability:
    if isinstance(ability, Unsupported):
        return Capability(supported=False, reason=ability.reason, link=ability.link)
    return Capability(supported=True)
