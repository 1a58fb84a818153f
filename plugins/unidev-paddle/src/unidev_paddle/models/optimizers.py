"""The tensors of a Paddle optimizer besides the parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unidev.contract import found_in, kind_of
from unidev.errors import UnsupportedOperation
from unidev_paddle.framework import paddle

if TYPE_CHECKING:
    from collections.abc import Iterator, Set

    Tensor = Any


def state_of(optimizer: Any, names: Set[str]) -> Iterator[Tensor]:
    """The optimizer's tensors for the parameters of these names, and its learning rate.

    The learning rate is included because a step moves parameters from the CPU to its device. It
    stays on the CPU, where it does no harm, if the optimizer also trains other parameters.

    Raises:
        UnsupportedOperation: it is not a Paddle optimizer, or trains none of these parameters.
    """
    if not isinstance(optimizer, paddle.optimizer.Optimizer):
        raise UnsupportedOperation(
            f"placing a {kind_of(optimizer)} with a model",
            "it is not a paddle.optimizer.Optimizer; pass the optimizer that it wraps",
        )
    trained = {x.name for x in parameters_of(optimizer)}
    if not trained & names:
        raise UnsupportedOperation(
            f"placing this {type(optimizer).__name__} with this model",
            "it trains none of the model's parameters: pass the optimizer made for this model",
        )
    # If there is a master weight, the state is named after it.
    names = names | {made.name for name, made in optimizer._master_weights.items() if name in names}
    for of_parameters in (*optimizer._accumulators.values(), optimizer._master_weights):
        yield from (tensor for name, tensor in of_parameters.items() if name in names)
    for rate in optimizer._learning_rate_map.values():
        if trained <= names or not rate.place.is_cpu_place():
            yield rate
    if isinstance(optimizer, paddle.optimizer.LBFGS):
        state = list(optimizer.state.values())
        yield from (x for _, x in found_in(state, paddle.is_tensor))
    inner = getattr(optimizer, "inner_optimizer", None)  # paddle.incubate's LookAhead has one
    if inner is not None:
        yield from state_of(inner, names)


def parameters_of(optimizer: Any) -> Iterator[Tensor]:
    """The trained parameters, in the optimizer's order."""
    for item in optimizer._parameter_list:
        if isinstance(item, dict):  # a parameter group
            yield from item["params"]
        else:
            yield item
