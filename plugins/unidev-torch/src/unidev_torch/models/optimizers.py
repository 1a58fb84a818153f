"""What of an optimizer has to move along with a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from unidev.contract import kind_of
from unidev.errors import NotAModelError, UnsupportedOperation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def named_tensors(optimizer: Any, model: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """The state of the parameters of ``model``, and hyperparameters that are on an accelerator.

    Counters of steps that are on the CPU stay there, as ``Optimizer.load_state_dict`` leaves them,
    unless the optimizer is fused or made to be captured in a graph; some optimizers (``ASGD``) keep
    theirs beside the parameter. Hyperparameters on the CPU are numbers to torch, whatever device it
    computes on.

    Raises:
        NotAModelError: it is no optimizer of torch's.
        UnsupportedOperation: it is another model's.
    """
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise NotAModelError(
            f"an optimizer of torch's is needed, and this is of type {kind_of(optimizer)}."
        )
    own = {id(x) for x in model.parameters()}
    if not any(id(x) in own for group in optimizer.param_groups for x in group["params"]):
        raise UnsupportedOperation(
            f"placing this {type(optimizer).__name__} with this {type(model).__name__}",
            "it trains none of its parameters: give the optimizer that was made for this model",
        )
    for group in optimizer.param_groups:
        members = [x for x in group["params"] if id(x) in own]
        all_move = group.get("capturable") or group.get("fused")
        for x in members:
            for name, held in _tensors_in("optimizer.state", optimizer.state.get(x, {})):
                if all_move or not name.endswith(".step") or held.device.type != "cpu":
                    yield name, held
        if len(members) == len(group["params"]):
            for name, x in _tensors_in("optimizer.param_groups", group, ("params",)):
                if x.device.type != "cpu":
                    yield name, x


def _tensors_in(
    name: str, value: Any, but: Sequence[str] = ()
) -> Iterator[tuple[str, torch.Tensor]]:
    """Those in nested containers: LBFGS keeps lists of them. ``but``: keys to leave out."""
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, dict):
        for key, child in value.items():
            if key not in but:
                yield from _tensors_in(f"{name}.{key}", child)
    elif isinstance(value, (list, tuple)):
        for index, child in enumerate(value):
            yield from _tensors_in(f"{name}.{index}", child)
