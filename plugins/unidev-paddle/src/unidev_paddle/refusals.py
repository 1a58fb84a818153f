"""What the backend says where Paddle would crash, or would answer wrongly."""

from __future__ import annotations

from typing import Any

from unidev.errors import UnsupportedOperation
from unidev_paddle.importing import import_paddle

paddle: Any = import_paddle()


def check_eager(operation: str) -> None:
    """Raise ``in_static_graph`` if that is where we are."""
    if not paddle.in_dynamic_mode():
        raise in_static_graph(operation)


def in_static_graph(operation: str) -> UnsupportedOperation:
    """For tensors of the dynamic graph too: Paddle's own calls on them crash the process then."""
    return UnsupportedOperation(
        operation,
        "Paddle is building a static graph, where tensors have no memory yet: call "
        "paddle.disable_static() first, or do it outside the function given to to_static",
    )


def symbolic(x: Any) -> UnsupportedOperation:
    """A variable of a graph that is being built."""
    return UnsupportedOperation(
        "asking for the device of a symbolic variable",
        f"a graph is being built, and {type(x).__name__} has no memory until it runs",
    )


def not_dense(x: Any) -> UnsupportedOperation:
    """A tensor that is more than one piece of memory."""
    if x.is_dist():
        kind, remedy = "distributed", "it lies on several devices; x._local_value() is this one's"
    elif x.is_selected_rows():
        kind, remedy = "SelectedRows", "it is several tensors, for Paddle's optimizers to read"
    else:
        kind, remedy = "sparse", "it is several tensors: take x.to_dense(), or its values()"
    return UnsupportedOperation(f"this, of a {kind} tensor,", remedy)
