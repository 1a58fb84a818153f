"""Ctrl-C while a model is placed: it is all there, or all where it was."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import unidev

if TYPE_CHECKING:
    from types import FrameType

FILES = ("contract/models.py", "numpy_backend/models.py")


class Interrupter:
    """Ctrl-C before the ``number``-th line that runs in these files; the rest of it is let be."""

    def __init__(self, number: int) -> None:
        self.left = number

    def __call__(self, frame: FrameType, event: str, argument: object) -> Any:
        if not frame.f_code.co_filename.endswith(FILES):
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self


def interrupted(number: int) -> bool:
    """Whether there was a line of that number; whatever happens, the model is whole."""
    model = {"a": unidev.ones(2), "b": [unidev.zeros(3)]}
    before = [model["a"], model["b"][0]]
    interrupter = Interrupter(number)
    sys.settrace(interrupter)
    try:
        unidev.place(model, "gpu:1")
    except KeyboardInterrupt:
        now = [model["a"], model["b"][0]]
        assert all(x is old for x, old in zip(now, before, strict=True)) or all(
            unidev.device_of(x) is unidev.gpu(1) for x in now
        )
        return True
    finally:
        sys.settrace(None)
    assert unidev.device_of(model) is unidev.gpu(1)
    return False


def test_ctrl_c_at_any_line_leaves_the_model_whole(two_gpus: None) -> None:
    count = 1
    while interrupted(count):
        count += 1
    assert count > 30
