"""Paddle, imported by ``import_paddle``, as all other modules take it.

And errors raised where Paddle would crash, or give a wrong answer.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any

from unidev.errors import UnsupportedOperation
from unidev_paddle.importing import import_paddle

paddle: Any = import_paddle()
core: Any = paddle.base.core
DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8",
    "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
)  # fmt: skip
"""All that Paddle computes on, except float8; it reads ``uint16`` arrays as bfloat16."""


def run_as_written(*packages: str) -> None:
    """Keep ``paddle.jit.to_static`` from rewriting the code of these packages, when it is called.

    In 3.3.1, what it makes of our functions, and of optree's, refers to variables that it has not
    set. It still rewrites a user's loss that these call.
    """
    found = [find_spec(name) for name in packages]
    folders = [folder for spec in found if spec for folder in spec.submodule_search_locations or ()]
    core.eval_frame_skip_file_prefix(tuple(folder + os.sep for folder in folders))


def seed_anew() -> None:
    """Give this process's generators a seed of its own: in all forks they are in one state."""
    paddle.seed(int.from_bytes(os.urandom(4), "little"))


def check_eager(operation: str) -> None:
    """Raise ``in_static_graph`` while a static graph is being built."""
    if not paddle.in_dynamic_mode():
        raise in_static_graph(operation)


def check_building(operation: str) -> None:
    """Raise ``UnsupportedOperation`` unless a graph is being built."""
    if paddle.in_dynamic_mode():
        raise UnsupportedOperation(operation, "its graph is no longer being built")


def in_static_graph(operation: str) -> UnsupportedOperation:
    """Also for tensors of the dynamic graph: Paddle's own calls on them then crash the process."""
    return UnsupportedOperation(
        operation,
        "Paddle is building a static graph, where tensors have no memory yet: call "
        "paddle.disable_static() first, or call this outside the function passed to to_static",
    )


def symbolic(x: Any) -> UnsupportedOperation:
    """The error for a variable of a graph that is being built."""
    return UnsupportedOperation(
        "finding the device of a symbolic variable",
        f"a graph is being built, and {type(x).__name__} has no memory until it runs",
    )


def not_dense(x: Any) -> UnsupportedOperation:
    """The error for a tensor that is more than one piece of memory."""
    if x.is_dist():
        kind, remedy = "distributed", "it is spread over devices; x._local_value() is this one's"
    elif x.is_selected_rows():
        kind, remedy = "SelectedRows", "it is several tensors, meant for Paddle's optimizers"
    else:
        kind, remedy = "sparse", "it is several tensors: use x.to_dense(), or x.values()"
    return UnsupportedOperation(f"this, for a {kind} tensor,", remedy)
