"""The optimizer's tensors that move along with a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from unidev.contract import found_in, kind_of
from unidev.errors import NotAModelError, UnsupportedOperation

if TYPE_CHECKING:
    from collections.abc import Iterator


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
