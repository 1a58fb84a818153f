"""A torch optimizer's state, as named arrays: read, and loaded again."""

from __future__ import annotations

import numbers
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from unidev.errors import CheckpointError, UnsupportedOperation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from unidev.contract import Array


def state_of(optimizer: torch.optim.Optimizer) -> dict[str, Array]:
    """By ``CLASS.tensors.PARAMETER.NAME``, ``CLASS.numbers.…`` and ``CLASS.groups.GROUP.NAME``.

    Raises:
        UnsupportedOperation: it keeps something that is neither a tensor nor a number.
    """
    kind, known = type(optimizer).__name__, optimizer.state_dict()
    found: dict[str, Array] = {}
    for position, entries in known["state"].items():
        for name, value in entries.items():
            if isinstance(value, torch.Tensor):
                found[f"{kind}.tensors.{position}.{name}"] = _array(value)
            elif isinstance(value, numbers.Real):
                found[f"{kind}.numbers.{position}.{name}"] = np.array(value)
            elif value is not None:
                raise UnsupportedOperation(
                    f"saving a torch.optim.{kind}",
                    f"it keeps a {type(value).__name__} as {name!r}, not a tensor or a number",
                )
    return found | {where: _array(group[name]) for where, (group, name) in _settings(known, kind)}


def load_state(optimizer: torch.optim.Optimizer, given: Mapping[str, Array]) -> None:
    """By ``load_state_dict``, which moves each tensor to its parameter's device and dtype.

    Raises:
        CheckpointError: it is of another optimizer, or of other groups of parameters.
    """
    kind, known = type(optimizer).__name__, optimizer.state_dict()
    settings = dict(_settings(known, kind))
    state: dict[int, dict[str, Any]] = {
        position: {} for group in known["param_groups"] for position in group["params"]
    }
    problems = [f"{name}: not in the file" for name in settings.keys() - given.keys()]
    for where, values in given.items():
        match where.split(".", 3):
            case [*_] if where in settings:
                group, name = settings[where]
                if name != "params":
                    group[name] = _like(group[name], values)
                elif values.tolist() != group["params"]:
                    problems.append(f"{where}: {values.tolist()}, not {group['params']}")
            case [first, "tensors" | "numbers" as form, position, name] if (
                first == kind and position.isdecimal() and int(position) in state
            ):
                value = torch.from_numpy(np.array(values)) if form == "tensors" else values.item()
                state[int(position)][name] = value
            case _:
                problems.append(f"{where}: not in this {kind}")
    if problems:
        raise CheckpointError(
            f"the state is not that of this torch.optim.{kind}: {problems[0]}", problems=problems
        )
    kept = {position: entries for position, entries in state.items() if entries}
    optimizer.load_state_dict({"state": kept, "param_groups": known["param_groups"]})


def _settings(known: dict[str, Any], kind: str) -> Iterator[tuple[str, tuple[dict[str, Any], str]]]:
    """Where each number or list of numbers in the groups is: the parameters by position, too."""
    for position, group in enumerate(known["param_groups"]):
        for name, value in group.items():
            several = value if isinstance(value, (list, tuple)) else [value]
            if all(isinstance(each, (numbers.Real, torch.Tensor)) for each in several):
                yield f"{kind}.groups.{position}.{name}", (group, name)


def _like(old: Any, values: Array) -> Any:
    """``values`` as the type that ``old`` has."""
    if isinstance(old, torch.Tensor):
        return torch.from_numpy(np.array(values)).to(old.device, old.dtype)
    return tuple(values.tolist()) if isinstance(old, tuple) else type(old)(values.item())


def _array(value: Any) -> Array:
    """New memory; bfloat16 as float32, which holds the same numbers."""
    if not isinstance(value, torch.Tensor):
        return np.array(value)
    x = value.detach()
    return np.array((x.float() if x.dtype is torch.bfloat16 else x).cpu().numpy())
