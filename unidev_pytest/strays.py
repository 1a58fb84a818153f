"""``Strays``: the tensors that a test's code makes without a device, and the lines that made them.

Imported when a test uses ``unidev_device``.
"""

from __future__ import annotations

import sys
import weakref
from contextlib import ExitStack
from traceback import walk_tb
from typing import TYPE_CHECKING, Any

import unidev
from unidev.backends.loading import load_backend
from unidev.contract.tracer import Makers
from unidev.tracing.call_site import CallSites

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import FrameType, TracebackType

    from unidev import Device

_MOST_FRAMES, _MOST_LINES = 3, 5


class Strays:
    """``with Strays(device) as strays:`` notes what is made elsewhere than on ``device``.

    Without ``device=``, and what is computed from it where the framework shows that. Holds no
    tensor alive.
    """

    def __init__(self, device: Device, default: Device) -> None:
        self.device = device
        self.default = default
        self._backend = load_backend(device.backend)
        self._sites = CallSites()
        self._sites.pass_over(self._backend)
        self._made: dict[int, tuple[weakref.ref[Any], str]] = {}
        self._lines: dict[str, None] = {}
        self._scopes = ExitStack()

    def __enter__(self) -> Strays:
        self._scopes.enter_context(self._backend.watch_made(self._note))
        self._scopes.enter_context(Makers([unidev], lambda x: self._note(x, None)))
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._scopes.close()

    def origin(self, values: Iterable[Any], depth: int = 2) -> str | None:
        """The line where the first stray among ``values``, and in lists of them, was made."""
        for value in values:
            noted = self._made.get(id(value))
            if noted is not None and noted[0]() is value:
                return noted[1]
            if depth and isinstance(value, (list, tuple, dict)):
                inner = value.values() if isinstance(value, dict) else value
                if (found := self.origin(inner, depth - 1)) is not None:
                    return found
        return None

    def told(self, failure: TracebackType | None) -> str:
        """Where the trap's devices are, and the lines of the strays that the failure is about."""
        there = f"what is made without `device=` is on {self.default}"
        said = f"unidev_device is {self.device}; {there}"
        frames = [] if failure is None else list(walk_tb(failure))
        for frame, _ in reversed(frames):
            if (found := self.origin(frame.f_locals.values())) is not None:
                return f"{said}\na tensor of the failed call was made so, at {found}"
        return "\nmade so in this test, at ".join([said, *list(self._lines)[-_MOST_LINES:]])

    def _note(self, result: Any, operands: Sequence[Any] | None) -> None:
        for x in result if isinstance(result, (tuple, list)) else (result,):
            if not isinstance(x, self._backend.tensor_types):
                continue
            try:
                if self._backend.device_of(x) is self.device:
                    continue
            except unidev.UnidevError:  # it has none, as a tensor of torch's device "meta"
                continue
            origin = self._here() if operands is None else self.origin(operands)
            if origin is not None:
                self._made[id(x)] = weakref.ref(x), origin

    def _here(self) -> str | None:
        """The line that made a tensor, and those that called it; None: unidev made it."""
        found: list[str] = []
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and len(found) < _MOST_FRAMES:
            name = f"{frame.f_globals.get('__name__')}."
            if name.startswith(("_pytest.", "unittest.")):
                break
            if self._sites.is_of_user(frame) and not name.startswith("unidev_pytest."):
                line = self._sites.line_of(frame)
                found.append(f"{line}: {line.source}")
            elif not found and name.startswith("unidev.") and "contract" not in name:
                return None
            frame = frame.f_back
        said = "\n  called at ".join(found)
        if said:
            self._lines[said] = None
        return said or None
