"""Paddle's optimizers: their tensors that move with a model, their state as named arrays."""

from __future__ import annotations

import numbers
from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.contract import check_state, found_in, kind_of
from unidev.errors import UnsupportedOperation
from unidev_paddle.framework import paddle

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Set

    from unidev.contract import Array, Tensor

_RATE = "learning_rate"


def moving_tensors(optimizer: Any, names: Set[str] | None) -> Iterator[Tensor]:
    """The optimizer's tensors for the parameters of these names (None: all), its learning rate.

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
    names = trained if names is None else names
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
    # What it wraps, as paddle.incubate's LookAhead does, and what else a program's own class keeps.
    public = {name: held for name, held in vars(optimizer).items() if not name.startswith("_")}
    kinds = (paddle.optimizer.Optimizer, paddle.Tensor)
    for _, held in found_in(public, lambda x: isinstance(x, kinds), "optimizer"):
        if isinstance(held, paddle.Tensor):
            yield held
        else:
            yield from moving_tensors(held, names)


def parameters_of(optimizer: Any) -> Iterator[Tensor]:
    """The trained parameters, in the optimizer's order."""
    for item in optimizer._parameter_list:
        if isinstance(item, dict):  # a parameter group
            yield from item["params"]
        else:
            yield item


def state_of(optimizer: Any) -> dict[str, Array]:
    """By ``CLASS.PARAMETER.NAME``, and ``CLASS.learning_rate`` or ``CLASS.schedule.NAME``.

    Paddle's own names count all that was ever made in the process.

    Raises:
        UnsupportedOperation: it is not one of ``paddle.optimizer``, or keeps its state otherwise.
    """
    _check(optimizer)
    found = {name: _array(x) for name, x in _tensors(optimizer).items()}
    return found | {name: np.array(value) for name, value in _numbers(optimizer).items()}


def load_state(optimizer: Any, given: Mapping[str, Array]) -> None:
    """Write to the accumulators, which are created for the parameters that have some.

    Raises:
        CheckpointError: it is of another optimizer, or of other parameters.
    """
    _check(optimizer)
    kind = type(optimizer).__name__
    words = [name.split(".") for name in given]
    trained = {int(each[1]) for each in words if each[0] == kind and each[1].isdecimal()}
    block = paddle.static.default_main_program().global_block()
    parameters = list(parameters_of(optimizer))
    missing = [x for position, x in enumerate(parameters) if position in trained]
    optimizer._create_accumulators(block, missing)
    tensors, settings = _tensors(optimizer), _numbers(optimizer)
    shapes = {name: tuple(x.shape) for name, x in tensors.items()}
    check_state(kind, shapes | dict.fromkeys(settings, ()), given)
    for name, x in tensors.items():
        x.set_value(paddle.to_tensor(given[name], place=x.place).astype(x.dtype))
    values = {name: type(old)(given[name].item()) for name, old in settings.items()}
    rate = values.pop(f"{kind}.{_RATE}", None)
    if rate is not None:
        optimizer.set_lr(rate)
    if values:
        schedule = optimizer._learning_rate
        new = {name.rpartition(".")[2]: value for name, value in values.items()}
        schedule.set_state_dict({**schedule.state_dict(), **new})


def _check(optimizer: Any) -> None:
    inner = getattr(optimizer, "inner_optimizer", None)
    is_plain = isinstance(optimizer, paddle.optimizer.Optimizer) and inner is None
    if not is_plain or isinstance(optimizer, paddle.optimizer.LBFGS):
        raise UnsupportedOperation(
            f"a checkpoint of a {kind_of(optimizer)}",
            "its state is not in accumulators, as that of Adam or Momentum is",
        )


def _tensors(optimizer: Any) -> dict[str, Tensor]:
    """Accumulators and master weights, by the positions of their parameters."""
    kind, found = type(optimizer).__name__, {}
    masters = optimizer._master_weights
    for position, parameter in enumerate(parameters_of(optimizer)):
        master = masters.get(parameter.name)
        if master is not None:
            found[f"{kind}.{position}.master"] = master
        own = parameter.name if master is None else master.name
        for name, tensors in optimizer._accumulators.items():
            if own in tensors:
                found[f"{kind}.{position}.{name}"] = tensors[own]
    return found


def _numbers(optimizer: Any) -> dict[str, Any]:
    kind, rate = type(optimizer).__name__, optimizer._learning_rate
    if isinstance(rate, numbers.Real):
        return {f"{kind}.{_RATE}": float(rate)}
    return {
        f"{kind}.schedule.{name}": value
        for name, value in rate.state_dict().items()
        if isinstance(value, numbers.Real)
    }


def _array(x: Tensor) -> Array:
    """New memory; bfloat16 as float32, which holds the same numbers."""
    wide = x.astype("float32") if x.dtype == paddle.bfloat16 else x
    return np.array(wide.numpy())
