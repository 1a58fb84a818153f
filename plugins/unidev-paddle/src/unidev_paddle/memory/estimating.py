"""A step on copies of a model, its optimizer and its batch, counted by Paddle's statistics."""

from __future__ import annotations

import copy
import gc
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from unidev import track_memory
from unidev.contract import Estimator, StepMemory
from unidev.errors import UnsupportedOperation
from unidev_paddle.framework import paddle

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_PARAMETERS, _STATE = "parameters", "optimizer state"
_REST = "gradients, activations and the rest"


class PaddleEstimator(Estimator):
    """Counts what is allocated on the device of the parameters, or else of the first tensor."""

    def run(
        self,
        step: Callable[..., object],
        arguments: Sequence[Any],
        leaves: Sequence[Any],
        shapes: Mapping[int, tuple[int, ...]],
    ) -> StepMemory:
        """Needs room for the copies, beside what they are copied from."""
        device = self.counted_device(
            [x for each in leaves for x in _parameters(each)]
            or [x for x in leaves if isinstance(x, paddle.Tensor)]
        )
        gc.collect()  # what is freed during the step would be missing from its peak
        before = self.backend.peaks.used_bytes(device)
        made = _made(leaves, shapes)
        copies = _copied(arguments, made)
        copied = [made.get(id(each), each) for each in leaves]
        # Paddle's one counter is also that of the user's trackers, which this one takes care of.
        with track_memory(device) as tracked:
            for _ in range(2):
                step(*copies)
            self.backend.synchronize(device)
        peak = tracked.peak_bytes - before
        known = {
            _PARAMETERS: _bytes([x for each in copied for x in _parameters(each)]),
            _STATE: _bytes([x for each in copied for x in _state(each)]),
        }
        return StepMemory(device, {**known, _REST: max(0, peak - sum(known.values()))})


def _made(leaves: Sequence[Any], shapes: Mapping[int, tuple[int, ...]]) -> dict[int, Any]:
    """What stands for some of the leaves, by their ``id``: tensors of other shapes, optimizers."""
    made: dict[int, Any] = {}
    for x in leaves:
        if id(x) in shapes:
            with paddle.no_grad():
                made[id(x)] = paddle.zeros(shapes[id(x)], x.dtype, device=x.place)
    for each in leaves:
        if isinstance(each, paddle.optimizer.Optimizer):
            made[id(each)] = _copied_optimizer(each, made)
    return made


def _copied(arguments: Sequence[Any], made: dict[int, Any]) -> Sequence[Any]:
    """Copies of the arguments, with what is ``made`` already, to which the other copies are added.

    Each optimizer has the parameters of the copied model.
    """
    try:
        return copy.deepcopy(tuple(arguments), made)
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
    made._learning_rate = copy.deepcopy(optimizer._learning_rate, memo)  # may be a scheduler
    made._accumulators = defaultdict(dict)
    made._accumulators_holder = {}
    made._already_create_accumulator = set()
    made._master_weights = {}
    made.clear_gradients = made.clear_grad  # an attribute, bound to the original
    return made


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
