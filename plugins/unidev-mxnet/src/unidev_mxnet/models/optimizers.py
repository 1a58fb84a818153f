"""The state of a ``gluon.Trainer`` that moves with its model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mxnet as mx  # type: ignore[import-untyped]

from unidev import UnsupportedOperation
from unidev.contract import found_in

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Tensor = Any


def check_trainer(optimizer: Any) -> None:
    """Raise ``UnsupportedOperation`` if the state is out of reach; the error gives a remedy."""
    if not isinstance(optimizer, mx.gluon.Trainer):
        raise UnsupportedOperation(
            f"placing a {type(optimizer).__name__} with a Gluon model",
            "Gluon models are trained by a mxnet.gluon.Trainer: pass that",
        )
    if optimizer._kvstore is not None:
        raise UnsupportedOperation(
            "placing a Trainer that has a kvstore",
            f"its kvstore, {optimizer._kvstore.type!r}, has copies of the weights and may have the "
            "optimizer's state: make the Trainer with kvstore=None, or after the move",
        )
    if not _is_on_one(optimizer):
        raise UnsupportedOperation(
            "placing a Trainer of several devices", f"it has states on {optimizer._contexts}"
        )


def state_arrays(trainer: Any) -> list[Tensor]:
    """The arrays of the trainer's state (momentum and the like), each once."""
    optimizer = trainer._optimizer
    own = {name: value for name, value in vars(optimizer).items() if name != "param_dict"}
    held = [updater.states for updater in trainer._updaters] + [own]
    found = found_in(held, lambda x: isinstance(x, mx.nd.NDArray))
    return list({id(x): x for _, x in found}.values())


class TrainerPart:
    """Moves a ``Trainer``'s record of where its parameters are.

    A trainer made before a move would look for them on the old device. A parameter refers to the
    last trainer made for it; that one is updated, even if it was not passed.
    """

    __slots__ = ("is_given", "moved", "trainer")

    def __init__(self, trainer: Any, is_given: bool, moved: frozenset[int]) -> None:
        self.trainer = trainer
        self.is_given = is_given
        """Whether its state moves with it; otherwise MXNet moves that at the next update."""
        self.moved = moved
        """Ids of the parameters that move."""

    def stays(self, is_there: Callable[[Any], bool]) -> Any:
        """A parameter that is not there and does not move either, or None."""
        of = (parameter for parameter in self.trainer._params if id(parameter) not in self.moved)
        return next((parameter for parameter in of if not is_there(parameter)), None)


class TrainerTwin:
    """The values that ``exchange_trainers`` gives a ``Trainer``."""

    __slots__ = ("contexts", "counts", "states_synced")

    def __init__(self, part: TrainerPart, context: Any) -> None:
        """With the same update counts.

        An optimizer keeps them by device number: on another one Adam would start again. MXNet
        itself moves state that is not synced at the next update, as it does after loading from a
        file.
        https://github.com/apache/mxnet/blob/1.9.1/python/mxnet/optimizer/optimizer.py#L398
        """
        (updater,) = part.trainer._updaters
        known, last = updater.optimizer._all_index_update_counts, updater.optimizer
        self.contexts = [context]
        self.counts = {**known, context.device_id: last._index_update_count}
        self.states_synced = dict.fromkeys(updater.states, part.is_given)


def trainer_parts(optimizer: Any, parameters: Sequence[Any]) -> list[TrainerPart]:
    """The ``Trainer`` that was passed, if any, and those that the parameters refer to.

    Without those that have a kvstore: MXNet moves their arrays to the weights at each step.
    """
    moved = frozenset(map(id, parameters))
    found = {id(parameter._trainer): parameter._trainer for parameter in parameters}
    others = [
        trainer
        for trainer in found.values()
        if trainer and trainer is not optimizer and not trainer._kvstore and _is_on_one(trainer)
    ]
    given = [] if optimizer is None else [TrainerPart(optimizer, True, moved)]
    return [*given, *(TrainerPart(trainer, False, moved) for trainer in others)]


def exchange_trainers(trainer: Any, twin: TrainerTwin) -> None:
    """Calls nothing after the first store, see ``swap.exchange_parameters``."""
    updater = trainer._updaters[0]
    optimizer = updater.optimizer
    trainer._contexts, twin.contexts = twin.contexts, trainer._contexts
    updater.states_synced, twin.states_synced = twin.states_synced, updater.states_synced
    counts = optimizer._all_index_update_counts
    optimizer._all_index_update_counts, twin.counts = twin.counts, counts


def _is_on_one(trainer: Any) -> bool:
    return len(trainer._contexts) == 1
