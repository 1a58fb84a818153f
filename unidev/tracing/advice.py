"""Advice in one line: about a line of a trace, and about a transfer that a guard stops."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from unidev.backends.discovery import backend_specs
from unidev.backends.loading import loaded_backends
from unidev.contract.backend import Unsupported
from unidev.contract.tracer import Tracer

if TYPE_CHECKING:
    from unidev.tracing.transfer import Transfer
    from unidev.values import PlannedTransfer

_MANY = 10
"""The number of calls from which a line gets advice; fewer cost too little to matter."""
_SURELY_A_LOOP = 100
"""The number of calls that no set-up makes."""
_UNLESS_ONCE = "; fine if it is done once, such as for each parameter of a model"
_CHECKPOINTS = ("save_parameters", "load_parameters", "load_tensors")
"""Verbs that are expected to move the same parameters repeatedly."""
_SHOWN = ("print", "repr", "str", "format")


def advice(first: Transfer, calls: int) -> str:
    """Advice for a line that made ``first`` and the like in so many calls; "" if it needs none."""
    if "operand" in first.operation:
        return (
            f"{spoken(first.operation)}: move them to one device once, with "
            f'as_in_device(x, "{first.target}").'
        )
    if first.operation in _CHECKPOINTS or calls < _MANY:
        return ""
    called = f"{spoken(first.operation)}, {calls:,} times at {first.line}"
    if _last_part(first) in _tracer(first).loops:
        return f"{called}: it moves data and results itself; call it on more data, less often."
    is_set_up = calls < _SURELY_A_LOOP and not _is_one_number(first.shape)
    return f"{called}: {_remedy_of_many(first)}{_UNLESS_ONCE if is_set_up else ''}."


def remedy(transfer: PlannedTransfer) -> str:
    """The remedy for an implicit transfer, in words."""
    source, target = transfer.source, transfer.target
    if target.kind == "cpu" and _is_index(transfer):
        return (
            f"It reads an index, or the size of its result, from {source}. Index with Python's "
            "integers, keep the shape (`where`), or do it outside the guard."
        )
    if target.kind == "cpu":
        what = "it" if transfer.shape is None or _is_one_number(transfer.shape) else "the result"
        return (
            f"Keep {what} on {source} and read it once, outside the guard; or make the transfer "
            f'explicit: unidev.copy_to(x, "{target}").'
        )
    return (
        f'Make the transfer explicit, once and beforehand: unidev.as_in_device(x, "{target}"); '
        f"or keep both on {source}."
    )


def spoken(operation: str) -> str:
    """``Tensor.item`` as `.item()`, ``Tensor.__bool__`` as `bool()`, ``copy_to`` as `copy_to`."""
    if not all(part.isidentifier() for part in operation.split(".")):
        return operation
    owner, dot, name = operation.rpartition(".")
    if not dot:
        return f"`{name}`"
    if name.startswith("__") and name.endswith("__"):
        return f"`{name.strip('_')}()`"
    module = owner.partition(".")[0]
    is_of_module = any(
        module in (spec.framework, *spec.namespaces, *spec.short_names)
        for spec in backend_specs().values()
    )
    return f"`{operation}()`" if is_of_module else f"`.{name}()`"


def _remedy_of_many(first: Transfer) -> str:
    source, target = first.source, first.target
    if target.kind == "cpu":
        return _remedy_of_many_readings(first)
    if source.kind == "cpu":
        return (
            f"move what does not change to {target} once, beforehand, and the rest in larger pieces"
        )
    return f"compute on {source}, where the data is, and move only the result"


def _remedy_of_many_readings(first: Transfer) -> str:
    source, name = first.source, first.operation.lower()
    if any(word in name for word in _SHOWN):
        return f"each waits for {source}: print less often, or collect there and print at the end"
    if "bool" in name:
        return f"each waits for {source}: decide there (`where`), or check every hundred steps"
    if _is_index(first):
        return (
            f"each waits for {source}, for an index or the size of the result: index with Python's "
            "integers, or keep the shape (`where`)"
        )
    if _is_one_number(first.shape):
        return f"keep the sum on {source} and read it once"
    return (
        f"keep the results on {source} and read them once, or reduce them there and read the result"
    )


def _is_index(transfer: PlannedTransfer | Transfer) -> bool:
    is_one = _is_one_number(transfer.shape)
    return is_one and _last_part(transfer) in _tracer(transfer).index_operations


def _last_part(transfer: PlannedTransfer | Transfer) -> str:
    """``getitem`` for ``Tensor.__getitem__``."""
    return transfer.operation.rpartition(".")[2].strip("_")


def _tracer(transfer: PlannedTransfer | Transfer) -> Tracer | type[Tracer]:
    """The tracer of the framework in which bytes move, for its names; else the contract's own."""
    backend = loaded_backends.get(transfer.source.backend)
    if backend is None or isinstance(backend.tracer, Unsupported):
        return Tracer
    return backend.tracer


def _is_one_number(shape: tuple[int, ...] | None) -> bool:
    return shape is not None and math.prod(shape) == 1
