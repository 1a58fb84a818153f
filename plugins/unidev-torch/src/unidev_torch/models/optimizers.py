"""Torch's optimizers: their tensors that move along with a model, their state as named arrays."""

from __future__ import annotations

import numbers
from collections import deque
from types import FunctionType, MappingProxyType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from unidev.contract import found_in, kind_of
from unidev.errors import CheckpointError, NotAModelError, UnsupportedOperation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from unidev.contract import Array


def named_tensors(
    optimizer: Any, model: torch.nn.Module | None
) -> Iterator[tuple[str, torch.Tensor]]:
    """Optimizer state of the parameters of ``model`` or, if None, all; hyperparameters elsewhere.

    Also what it keeps in other attributes, and that of optimizers there, which SAM and Lookahead
    wrap. Step counters on the CPU stay there, as ``Optimizer.load_state_dict`` leaves them, unless
    the optimizer is fused or capturable in a graph; some optimizers (``ASGD``) keep their counters
    beside the parameter. Torch treats a number on the CPU as one of Python's, whatever device it
    computes on.

    Raises:
        NotAModelError: ``optimizer`` is not a torch optimizer.
        UnsupportedOperation: it trains another model.
    """
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise NotAModelError(
            f"expected an optimizer of torch.optim, and this is of type {kind_of(optimizer)}."
        )
    trained = {id(x) for group in optimizer.param_groups for x in group["params"]}
    own = trained if model is None else {id(x) for x in model.parameters()}
    if trained.isdisjoint(own):
        raise UnsupportedOperation(
            f"placing this {type(optimizer).__name__} with this {type(model).__name__}",
            "it trains none of the model's parameters: pass the optimizer made for this model",
        )
    for name, x, of, group in _kept(optimizer):
        is_on_cpu = x.device.type == "cpu"
        if of is not None:
            all_move = group.get("capturable") or group.get("fused")
            moves = id(of) in own and (all_move or not (is_on_cpu and name.endswith(".step")))
        else:
            moves = not (is_on_cpu and x.dim() == 0) and own.issuperset(
                map(id, group.get("params", ()))
            )
        if moves:
            yield name, x


class _Kept(NamedTuple):
    """What an optimizer keeps, with its path: a tensor, or what may hold some."""

    name: str
    x: Any
    of: torch.Tensor | None
    """The parameter whose state it is."""
    group: Mapping[str, Any] = MappingProxyType({})
    """That parameter's group, or the group that has it as a hyperparameter."""


def _kept(optimizer: torch.optim.Optimizer) -> Iterator[_Kept]:
    """Of all optimizers that wrap each other."""
    optimizers: list[torch.optim.Optimizer] = []
    found = [*_walk(_Kept("optimizer", optimizer, None), optimizers, set())]
    groups = {
        id(x): group for each in optimizers for group in each.param_groups for x in group["params"]
    }
    for kept in found:
        if id(kept.x) not in groups:
            yield kept._replace(group=groups.get(id(kept.of), kept.group))


def _walk(at: _Kept, optimizers: list[torch.optim.Optimizer], seen: set[int]) -> Iterator[_Kept]:
    value, cls = at.x, type(at.x)
    if issubclass(cls, torch.Tensor):
        yield at
        return
    if id(value) in seen or issubclass(cls, _CLOSED):
        return
    seen.add(id(value))
    if issubclass(cls, dict):
        items = list(value.items())
        if isinstance(value.get("params"), list):
            at = at._replace(group=value)
    elif issubclass(cls, (list, tuple, set, frozenset, deque)):
        items = list(enumerate(value))
    else:
        items = list(getattr(value, "__dict__", {}).items())
        if issubclass(cls, torch.optim.Optimizer):
            optimizers.append(value)
            items = [(key, held) for key, held in items if key != "defaults"]  # those of a group
    for position, (key, held) in enumerate(items):
        name = f"{at.name}.{key if isinstance(key, (str, int)) else position}"
        of = key if isinstance(key, torch.Tensor) else at.of
        yield from _walk(_Kept(name, held, of, at.group), optimizers, seen)


_CLOSED = (torch.nn.Module, type, ModuleType, FunctionType, MethodType, str, torch.device)


def state_of(optimizer: torch.optim.Optimizer) -> dict[str, Array]:
    """By ``CLASS.tensors.PARAMETER.NAME``, ``CLASS.numbers.…`` and ``CLASS.groups.GROUP.NAME``.

    Raises:
        UnsupportedOperation: it keeps something that is neither a tensor nor a number, or that its
            ``state_dict`` leaves out.
    """
    kind, known = type(optimizer).__name__, optimizer.state_dict()
    saved = {id(x) for _, x in found_in(known, torch.is_tensor)}
    for name, x, *_ in _kept(optimizer):
        if id(x) not in saved or known.keys() != {"state", "param_groups"}:
            raise UnsupportedOperation(
                f"saving a {kind_of(optimizer)}",
                f"it keeps {name!r} beside what a state_dict of torch.optim has: save the "
                "optimizer that it wraps, or use torch.save",
            )
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
