"""Torch's optimizers: their tensors that move along with a model, their state as named arrays."""

from __future__ import annotations

import numbers
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from unidev.contract import found_in, kind_of
from unidev.errors import CheckpointError, NotAModelError, UnsupportedOperation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from unidev.contract import Array


def named_tensors(optimizer: Any, model: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Optimizer state of the parameters of ``model``, and hyperparameters on an accelerator.

    Step counters on the CPU stay there, as ``Optimizer.load_state_dict`` leaves them, unless the
    optimizer is fused or capturable in a graph; some optimizers (``ASGD``) keep their counters
    beside the parameter. Torch treats hyperparameters on the CPU as numbers, whatever device it
    computes on.

    Raises:
        NotAModelError: ``optimizer`` is not a torch optimizer.
        UnsupportedOperation: it trains another model.
    """
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise NotAModelError(
            f"expected an optimizer of torch.optim, and this is of type {kind_of(optimizer)}."
        )
    own = {id(x) for x in model.parameters()}
    if not any(id(x) in own for group in optimizer.param_groups for x in group["params"]):
        raise UnsupportedOperation(
            f"placing this {type(optimizer).__name__} with this {type(model).__name__}",
            "it trains none of the model's parameters: pass the optimizer made for this model",
        )
    for group in optimizer.param_groups:
        members = [x for x in group["params"] if id(x) in own]
        all_move = group.get("capturable") or group.get("fused")
        for x in members:
            state = optimizer.state.get(x, {})
            for name, held in found_in(state, torch.is_tensor, "optimizer.state"):
                if all_move or not name.endswith(".step") or held.device.type != "cpu":
                    yield name, held
        if len(members) == len(group["params"]):
            options = {key: value for key, value in group.items() if key != "params"}
            for name, x in found_in(options, torch.is_tensor, "optimizer.param_groups"):
                if x.device.type != "cpu":
                    yield name, x


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
