"""What a backend may do or decline, and how declining is verified.

A backend declines with ``unsupported(reason)`` in place of the ability. Calling that must raise
``UnsupportedOperation``: an ability that is declared "unsupported" but works is wrong, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.conformance.judging.outcomes import NotSupportedError
from unidev.contract.backend import Unsupported
from unidev.errors import UnsupportedOperation
from unidev.registry.description import resolve

if TYPE_CHECKING:
    from collections.abc import Callable

    from unidev.contract.backend import Backend

    Trial = Callable[[Backend, Any], object]


def _same(x: Any) -> Any:
    return x


def _matrix() -> np.ndarray[Any, Any]:
    return np.arange(6, dtype="float32").reshape(2, 3)


def _tensor(backend: Backend) -> Any:
    return backend.probe.make(_matrix(), backend.cpu)


def _model(backend: Backend) -> Any:
    return backend.probe.models.model()


_TRIALS: dict[str, Trial] = {
    "native_scope": lambda backend, call: call(backend.cpu),
    "extents": lambda backend, call: call(_tensor(backend)),
    "memory": lambda backend, call: call(backend.cpu),
    "pinned": lambda backend, call: call(_tensor(backend)),
    "peaks": lambda backend, part: part.peak_bytes(backend.cpu),
    "probe.write": lambda backend, call: call(_tensor(backend), 1.0),
    "probe.gradient": lambda backend, call: call(_same, _matrix(), backend.cpu),
    "probe.deleted": lambda backend, call: call(backend.cpu),
    "probe.cut_short": lambda backend, call: call(backend.cpu),
    "probe.allocated_bytes": lambda backend, call: call(backend.cpu),
    "probe.read_out": lambda backend, call: call(_tensor(backend)),
    "probe.current": lambda _, call: call(),
    "probe.side_stream": lambda backend, call: call(backend.cpu),
    "models": lambda backend, part: part.parameters({"x": _tensor(backend)}),
    "models.optimizer_state": lambda _, call: call(None),
    "models.load_optimizer_state": lambda _, call: call(None, None, {}),
    "autograd": lambda backend, part: part.leaf(_tensor(backend)),
    "layers": lambda _, part: part.relu(),
    "collectives": lambda backend, part: part.pack([_tensor(backend)]),
    "functions": lambda backend, part: part.relu(_tensor(backend)),
    "interop": lambda backend, part: part.export(_tensor(backend)),
    "installation": lambda _, part: part.build(),
    "tracer": lambda _, part: part.watch(print, print),
    "probe.autograd": lambda backend, part: part.gradients(_same, [_matrix()], [backend.cpu]),
    "probe.autograd.second_order": lambda backend, call: call(_same, _matrix(), backend.cpu),
    "probe.autograd.is_differentiable": lambda backend, call: call(_tensor(backend)),
    "probe.models": lambda _, part: part.model(),
    "probe.models.earlier_optimizer": lambda backend, call: call(_model(backend)),
    "probe.models.add_hook": lambda backend, call: call(_model(backend), lambda: None),
    "probe.models.unbuilt": lambda _, call: call(),
    "probe.models.spread": lambda _, call: call(),
    "probe.models.joining": lambda _, call: call(),
    "probe.models.compiled": lambda _, call: call(),
    "probe.models.remembering": lambda _, call: call(False),
    "probe.models.counting_optimizer": lambda backend, call: call(_model(backend), False),
    "probe.models.holding": lambda _, call: call({}, {}),
    "probe.models.embedding": lambda backend, call: call(backend.cpu),
}  # fmt: skip
"""Each ability with a meaningful call of it; for a part, a call of one of its methods."""


def require_ability(backend: Backend, name: str) -> None:
    """Return if ``backend`` has the ability; if it declines, verify that.

    Raises:
        NotSupportedError: it declines, and the call raises ``UnsupportedOperation``.
        AssertionError: it declines, but the call does something else.
    """
    declined, ability = resolve(backend, name)
    declines = isinstance(ability, Unsupported)
    if not declines and name != "probe.allocated_bytes":
        return
    try:
        result = _TRIALS[declined](backend, ability)
    except UnsupportedOperation as refusal:
        # The default of allocated_bytes uses the C library, and may decline only when called.
        raise NotSupportedError(refusal.reason, refusal.link) from refusal
    except Exception as error:
        raise AssertionError(
            f"{name} is declared unsupported ({_reason(ability)}), but raises "
            f"{type(error).__name__} instead of UnsupportedOperation: {error}"
        ) from error
    if declines:
        raise AssertionError(
            f"{name} is declared unsupported ({_reason(ability)}), but works: it returned "
            f"{type(result).__name__}"
        )


def _reason(ability: object) -> str:
    return ability.reason if isinstance(ability, Unsupported) else "when it is called"
