"""What an optimizer of Paddle's holds beside the parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unidev.errors import UnsupportedOperation, kind_of
from unidev_paddle.importing import import_paddle

if TYPE_CHECKING:
    from collections.abc import Iterator, Set

    Tensor = Any

paddle: Any = import_paddle()


def state_of(optimizer: Any, names: Set[str]) -> Iterator[Tensor]:
    """Its tensors for the parameters of these names, and its learning rate.

    The learning rate too: Paddle makes it on its default device, and a step takes the parameters
    from the CPU to where that is.

    Raises:
        UnsupportedOperation: it is none of Paddle's.
    """
    if not isinstance(optimizer, paddle.optimizer.Optimizer):
        raise UnsupportedOperation(
            f"placing a {kind_of(optimizer)} with a model",
            "it is no paddle.optimizer.Optimizer; give that which it is made of",
        )
    # Where there is a master weight, the state is called after that.
    names = names | {made.name for name, made in optimizer._master_weights.items() if name in names}
    for of_parameters in (*optimizer._accumulators.values(), optimizer._master_weights):
        yield from (tensor for name, tensor in of_parameters.items() if name in names)
    yield from optimizer._learning_rate_map.values()
    if isinstance(optimizer, paddle.optimizer.LBFGS):
        yield from _tensors_in(list(optimizer.state.values()))
    inner = getattr(optimizer, "inner_optimizer", None)  # of paddle.incubate's LookAhead
    if inner is not None:
        yield from state_of(inner, names)


def _tensors_in(state: Any) -> Iterator[Tensor]:
    if isinstance(state, paddle.Tensor):
        yield state
    elif isinstance(state, (list, tuple)):
        for item in state:
            yield from _tensors_in(item)
