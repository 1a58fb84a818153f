"""What to do about transfers, in a line: of a trace's lines, and of what a guard stops."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unidev.contract.tracer import PlannedTransfer
    from unidev.tracing.trace import LineTotal, Transfer

_MANY = 10
"""A line that calls this often repeats itself; fewer calls cost too little to change a program."""
_CHECKPOINTS = ("save_parameters", "load_parameters")
"""Verbs that are meant to move the same parameters again and again."""
_MODULES = ("keras", "mx", "mxnet", "np", "npx", "numpy", "paddle", "tf", "torch")
_SHOWN = ("print", "repr", "str", "format")


def advice(total: LineTotal) -> str:
    """What to do about a line, by the most expensive of its kinds; "" where there is nothing."""
    kind = max(_kinds(total.transfers), key=_cost)
    first, calls = kind[0], len({each.call for each in kind})
    if "operand" in first.operation:
        return (
            f"{spoken(first.operation)}: bring them to one device, once, by "
            f'as_in_device(x, "{first.target}").'
        )
    if first.operation in _CHECKPOINTS or calls < _MANY:
        return ""
    called = f"{spoken(first.operation)}, {calls:,} times at {first.line}"
    return f"{called}: {_remedy_of_many(first)}."


def remedy(transfer: PlannedTransfer) -> str:
    """What to do about one transfer that nobody asked for."""
    source, target = transfer.source, transfer.target
    if target.kind == "cpu":
        ask = f'What has to be read here, ask for first: unidev.copy_to(x, "{target}").'
        what = "it" if transfer.shape is None or _is_one_number(transfer.shape) else "the result"
        return f"Keep {what} on {source}, and read it once, outside of the guard. {ask}"
    return (
        f'Ask for it: unidev.as_in_device(x, "{target}"), once, before; or keep both on {source}.'
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
    return f"`{operation}()`" if owner.partition(".")[0] in _MODULES else f"`.{name}()`"


def _kinds(transfers: Sequence[Transfer]) -> list[list[Transfer]]:
    kinds: dict[object, list[Transfer]] = {}
    for each in transfers:
        kinds.setdefault((each.operation, each.source, each.target), []).append(each)
    return list(kinds.values())


def _cost(kind: list[Transfer]) -> float:
    if all(each.is_seconds_real for each in kind):
        return sum(each.seconds for each in kind)
    return len(kind) * 1e-5 + sum(each.nbytes for each in kind) / 1e10


def _remedy_of_many(first: Transfer) -> str:
    source, target = first.source, first.target
    if target.kind != "cpu":
        if source.kind == "cpu":
            return (
                f"send to {target} once, before, what stays the same; and the rest in larger pieces"
            )
        return f"compute where the data is, on {source}, and send what comes of it"
    name = first.operation.lower()
    if any(word in name for word in _SHOWN):
        return f"each waits for {source}: print less often, or gather there and print at the end"
    if "bool" in name:
        return f"each waits for {source}: decide there (`where`), or look every hundred steps"
    if _is_one_number(first.shape):
        return f"keep the sum on {source} and read it once"
    return (
        f"keep the results on {source} and read them once, or read what is computed of them there"
    )


def _is_one_number(shape: tuple[int, ...] | None) -> bool:
    return shape is not None and math.prod(shape) == 1
