"""The user's name for a call that moves something, read off the stack when it does."""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING

from unidev.contract import outermost_name
from unidev_jax.framework import jax

if TYPE_CHECKING:
    from types import FrameType

_OURS = ("unidev.contract.tracer", "unidev_jax.tracer")
_PLUMBING = ("jax._src.traceback_util", "jax._src.api_util", "jax._src.util")
_TRANSPARENT = ("jax._src.tree", "jax._src.tree_util", *_PLUMBING)
_ARRAY = "Array"


def called(own: str) -> str:
    """The outermost call into JAX or Flax by the user's line; ``own`` if it is the current one."""
    return outermost_name(_name_of, "jax", "jaxlib", "flax", "optax") or own


def is_jaxs_own() -> bool:
    """Whether JAX's own code makes the current call; mapping over a tree is the user's call."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__"))
        if not module.startswith(_OURS) and module not in _TRANSPARENT:
            return module.partition(".")[0] == "jax"
        frame = frame.f_back
    return False


def _name_of(frame: FrameType) -> str | None:
    code, module = frame.f_code, frame.f_globals["__name__"]
    name = code.co_name
    if (
        module in _PLUMBING
        or name.startswith("<")
        or (name.startswith("_") and not name.endswith("__"))
    ):
        return None
    if code.co_argcount and code.co_varnames[0] == "self":
        owner = frame.f_locals.get("self")
        kind = _ARRAY if isinstance(owner, jax.Array) else type(owner).__name__
        return None if kind.startswith("_") else f"{kind}.{name}"
    function = frame.f_globals.get(name)
    if function is None or not inspect.isfunction(inspect.unwrap(function)):
        return None  # an inner function
    if "numpy" in module.split("."):
        return f"jnp.{name}"
    top = module.partition(".")[0]
    return f"{top}.{name}" if hasattr(sys.modules[top], name) else None
