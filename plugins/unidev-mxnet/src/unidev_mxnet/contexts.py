"""A context object that may be shared."""

from __future__ import annotations

import threading
from typing import Any

from mxnet.context import Context  # type: ignore[import-untyped]


class _Entered(threading.local):
    def __init__(self) -> None:
        self.scopes: list[Context] = []


_entered = _Entered()


class SharedContext(Context):  # type: ignore[misc]  # MXNet is untyped
    """What stands in ``Device.native``: equal to MXNet's own context, and safe to enter.

    MXNet's keeps what was current before *in itself*, so that one object that is entered twice, or
    by two threads, restores the wrong one, and stays current for good. ``Device.native`` is one
    object for everybody: each ``with`` enters another.
    """

    def __enter__(self) -> Context:
        scope = Context(self)
        _entered.scopes.append(scope)
        return scope.__enter__()

    def __exit__(self, *exc_info: Any) -> None:
        _entered.scopes.pop().__exit__(*exc_info)

    def __reduce__(self) -> tuple[Any, ...]:
        # A model's parameters remember their contexts: what is saved must not need unidev.
        return Context, (self.device_type, self.device_id)
