"""A handle: an object that verbs take for the model that it has at work on several devices."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from unidev.contract.backend import Backend


class Handle:
    """An object that verbs take for ``model``, which it has at work on several devices.

    A package above adds one by deriving from this class.
    """

    model: Any
    backend: Backend

    def value_and_grad(
        self, evaluate: Callable[..., tuple[Any, Any]], arguments: Any, options: Any
    ) -> tuple[Any, Any]:
        """``evaluate(model, arguments, options)``, a loss and gradients, for all devices."""
        raise NotImplementedError


def model_of(x: Any) -> Any:
    """The model that ``x`` stands for, if it is a handle; else ``x`` itself."""
    return x.model if issubclass(type(x), Handle) else x
