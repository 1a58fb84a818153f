"""MXNet's contexts as unidev's devices. Simulated, ``gpu:i`` is MXNet's ``cpu(i + 1)``."""

from __future__ import annotations

import os
import re
import threading
from typing import Any

from mxnet import random  # type: ignore[import-untyped]
from mxnet.context import Context  # type: ignore[import-untyped]

_CPU, GPU, PINNED, SHARED = 1, 2, 3, 5
"""``Context.devstr2type``."""

_SPELLING = re.compile(r"(cpu|gpu)\((-?\d{1,10})\)", re.ASCII)


def context(kind: str, index: int, simulated_count: int) -> SharedContext:
    """A context that any thread may enter, any number of times."""
    if simulated_count and kind == "gpu":
        return SharedContext("cpu", index + 1)
    return SharedContext(kind, index)


def parse(spec: object, simulated_count: int) -> tuple[str, int] | None:
    """Kind and index of a context, or of its spelling: ``gpu(1)``."""
    if isinstance(spec, Context):
        return kind_and_index(spec.device_typeid, spec.device_id, simulated_count)
    match = _SPELLING.fullmatch(spec) if isinstance(spec, str) else None
    if match is None:
        return None
    return kind_and_index(Context.devstr2type[match[1]], int(match[2]), simulated_count)


def kind_and_index(typeid: int, index: int, simulated_count: int) -> tuple[str, int] | None:
    """Kind and index of MXNet's numbers; None for other memory, and for hidden real GPUs."""
    if typeid == _CPU:
        is_simulated = simulated_count and index > 0
        return ("gpu", index - 1) if is_simulated else ("cpu", index)
    if typeid == GPU and not simulated_count:
        return "gpu", index
    return None


class _Entered(threading.local):
    def __init__(self) -> None:
        self.scopes: list[Context] = []


_entered = _Entered()


class SharedContext(Context):  # type: ignore[misc]  # MXNet is untyped
    """The value of ``Device.native``: equal to MXNet's own context, and safe to enter.

    MXNet's context stores the previous current one *in itself*: entered twice, or by two threads,
    it restores the wrong one, which then stays current. ``Device.native`` is one object that is
    shared by all: each ``with`` enters another one.
    """

    def __enter__(self) -> Context:
        scope = Context(self)
        _entered.scopes.append(scope)
        return scope.__enter__()

    def __exit__(self, *exc_info: Any) -> None:
        _entered.scopes.pop().__exit__(*exc_info)

    def __reduce__(self) -> tuple[Any, ...]:
        # A model's parameters store their contexts: loading a saved model must not need unidev.
        return Context, (self.device_type, self.device_id)


def seed_anew() -> None:
    """Give each device's generator a seed of its own: in all forks they are in one state."""
    random.seed(int.from_bytes(os.urandom(3), "little"))
