"""Gradients that cross devices on the way back, which happens in C++.

Python can read autograd's graph, but the graph does not record where its arrays were. So transfers
during recording are kept by the name of their node, and looked up in the graph of the arrays that
``backward`` is called on.
"""

from __future__ import annotations

import re
from ctypes import Array
from typing import TYPE_CHECKING, Any, NamedTuple

import mxnet as mx  # type: ignore[import-untyped]
from mxnet import autograd

from unidev.contract import PlannedTransfer
from unidev_mxnet.tracer.arrays import Borrowed, device_at, size_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from unidev.contract import Backend

_NODE = re.compile(r"(node_\d+)_")
"""Outputs are ``node_7_output``, ``node_7_output0``, ``node_7_mean``; a variable is ``var3``."""


class Crossing(NamedTuple):
    """One operand, or result, that changes device in an operator."""

    transfer: PlannedTransfer
    operand: int
    """The input of the operator that it is, or is computed from."""


def remember(
    kept: dict[str, list[Crossing]],
    crossings: Sequence[Crossing],
    inputs: Sequence[int | None],
    output: int | None,
) -> None:
    """Keep the crossings of the last operator that a gradient will go back over."""
    if output is None or not autograd.is_recording():
        return
    node = _symbol(output)
    differentiable = [each for each in crossings if _has_gradient(inputs[each.operand])]
    if node is not None and differentiable:
        kept[node.name] = differentiable


def gradients(
    kept: dict[str, list[Crossing]], heads: Sequence[int], variables: Any
) -> Iterator[tuple[str, PlannedTransfer]]:
    """Each node and its way back, last crossing first; only for ``variables``, if given."""
    outputs: dict[str, Any] = {}
    for head in heads if kept else ():
        symbol = _symbol(head)
        if symbol is not None:
            internals = symbol.get_internals()
            for name in internals.list_outputs():
                found = _NODE.match(name)
                if found and found[1] in kept:
                    outputs.setdefault(found[1], internals[name])
    wanted = None
    if isinstance(variables, Array):
        symbols = [_symbol(handle) for handle in variables]
        wanted = {symbol.name for symbol in symbols if symbol is not None}
    for name in reversed(kept):
        if name in outputs:
            for crossing in reversed(kept[name]):
                if wanted is None or _depends(outputs[name], crossing.operand, wanted):
                    yield name, _back(crossing.transfer)


def head_gradients(
    heads: Sequence[int], given: Any, backend: Backend
) -> Iterator[tuple[str, PlannedTransfer]]:
    """Given head gradients on another device than their heads; they have no node."""
    for head, gradient in zip(heads, given if isinstance(given, Array) else (), strict=False):
        source, target = device_at(gradient, backend), device_at(head, backend)
        if source is not None and target is not None and source is not target:
            shape, nbytes = size_at(gradient)
            yield "", PlannedTransfer("backward of mixed operands", source, target, nbytes, shape)


def _back(moved: PlannedTransfer) -> PlannedTransfer:
    what = moved.operation.removesuffix(" of mixed operands").rpartition(".")[2]
    return moved._replace(operation=f"gradient of {what}", source=moved.target, target=moved.source)


def _depends(node: Any, operand: int, wanted: set[str]) -> bool:
    return not wanted.isdisjoint(node.get_children()[operand].list_arguments())


def _has_gradient(handle: int | None) -> bool:
    """Constants are in the graph too once they are used, as ``null0``."""
    symbol = _symbol(handle)
    return symbol is not None and not symbol.name.startswith("null")


def _symbol(handle: int | None) -> Any:
    """The graph that computed an array; None if autograd did not record it."""
    if handle is None:
        return None
    try:
        return autograd.get_symbol(Borrowed(handle))
    except mx.MXNetError:
        return None
