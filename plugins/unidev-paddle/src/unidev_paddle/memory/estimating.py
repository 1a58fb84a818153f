"""A step on copies of a model, its optimizer and its batch, counted by Paddle's statistics."""

from __future__ import annotations

import copy
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from unidev.contract import Estimator, StepMemory
from unidev.errors import InvalidDataError, UnsupportedOperation
from unidev_paddle.framework import paddle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from unidev.contract import Device

_PARAMETERS, _STATE = "parameters", "optimizer state"
_REST = "gradients, activations and the rest"


class PaddleEstimator(Estimator):
    """Counts what is allocated on the device of the parameters, or else of the first tensor."""

    def run(
        self,
        step: Callable[..., object],
        arguments: Sequence[Any],
        shapes: Mapping[int, tuple[int, ...]],
    ) -> StepMemory:
        """Needs room for the copies, beside what they are copied from."""
        device = self._device(arguments)
        peaks = self.backend.peaks
        before = peaks.used_bytes(device)
        copies = _copied(arguments, shapes)
        parameters = [x for each in copies for x in _parameters(each)]
        peaks.restart(device)
        for _ in range(2):
            step(*copies)
        self.backend.synchronize(device)
        peak = peaks.peak_bytes(device) - before
        known = {
            _PARAMETERS: _bytes(parameters),
            _STATE: _bytes([x for each in copies for x in _state(each)]),
        }
        return StepMemory(device, {**known, _REST: max(0, peak - sum(known.values()))})

    def _device(self, arguments: Sequence[Any]) -> Device:
        tensors = [x for each in arguments for x in _parameters(each)] or [
            x for x in arguments if isinstance(x, paddle.Tensor)
        ]
        if not tensors:
            raise InvalidDataError(
                "estimate_memory found no layer and no tensor that is itself an argument of the "
                "step: pass them as in estimate_memory(step, net, optimizer, x, y)."
            )
        devices = list(dict.fromkeys(map(self.backend.device_of, tensors)))
        if len(devices) > 1:
            raise UnsupportedOperation(
                "estimate_memory of a model on several devices",
                f"it counts one device, and these are {', '.join(map(str, devices))}",
            )
        return devices[0]


def _copied(arguments: Sequence[Any], shapes: Mapping[int, tuple[int, ...]]) -> Sequence[Any]:
    """Copies of the arguments; each optimizer has the parameters of the copied model."""
    memo: dict[int, Any] = {}
    for x in _tensors(arguments):
        if id(x) in shapes:
            with paddle.no_grad():
                memo[id(x)] = paddle.zeros(shapes[id(x)], x.dtype, device=x.place)
    for each in arguments:
        if isinstance(each, paddle.optimizer.Optimizer):
            memo[id(each)] = _copied_optimizer(each, memo)
    try:
        return copy.deepcopy(tuple(arguments), memo)
    except TypeError as error:
        raise UnsupportedOperation(
            "estimate_memory of these arguments", f"Python cannot copy one of them: {error}"
        ) from error


def _copied_optimizer(optimizer: Any, memo: dict[int, Any]) -> Any:
    """A new optimizer of the same settings, for the copied parameters.

    ``copy.deepcopy`` refuses one that has made a step (Paddle 3.3): it holds a program.
    """
    made = copy.copy(optimizer)
    made._parameter_list = copy.deepcopy(optimizer._parameter_list, memo)
    made._param_groups = copy.deepcopy(optimizer._param_groups, memo)
    made._accumulators = defaultdict(dict)
    made._accumulators_holder = {}
    made._already_create_accumulator = set()
    made._master_weights = {}
    made.clear_gradients = made.clear_grad  # an attribute, bound to the original
    return made


def _tensors(tree: Any) -> Iterator[Any]:
    if isinstance(tree, paddle.Tensor):
        yield tree
    elif isinstance(tree, dict):
        yield from _tensors([*tree.values()])
    elif isinstance(tree, (list, tuple)):
        for each in tree:
            yield from _tensors(each)


def _parameters(argument: Any) -> Sequence[Any]:
    return argument.parameters() if isinstance(argument, paddle.nn.Layer) else ()


def _state(argument: Any) -> Sequence[Any]:
    if not isinstance(argument, paddle.optimizer.Optimizer):
        return ()
    accumulators = argument._accumulators.values()
    return [x for each in accumulators for x in each.values()] + [
        *argument._master_weights.values()
    ]


def _bytes(tensors: Sequence[Any]) -> int:
    return sum(int(x.size) * int(x.element_size()) for x in {id(x): x for x in tensors}.values())
