"""What a ``gluon.Trainer`` has that moves with its model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mxnet as mx  # type: ignore[import-untyped]

from unidev import UnsupportedOperation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Tensor = Any


def check_trainer(optimizer: Any) -> None:
    """Raises ``UnsupportedOperation`` where the state is out of reach; says what to do."""
    if not isinstance(optimizer, mx.gluon.Trainer):
        raise UnsupportedOperation(
            f"placing a {type(optimizer).__name__} with a model of Gluon's",
            "what trains these is a mxnet.gluon.Trainer: give that",
        )
    if optimizer._kvstore is not None:
        raise UnsupportedOperation(
            "placing a Trainer that has a kvstore",
            f"its kvstore, {optimizer._kvstore.type!r}, has copies of the weights and may have the "
            "optimizer's state: make the Trainer with kvstore=None, or after the move",
        )
    if len(optimizer._contexts) != 1:
        raise UnsupportedOperation(
            "placing a Trainer of several devices", f"it has states on {optimizer._contexts}"
        )


def state_arrays(trainer: Any) -> list[Tensor]:
    """The arrays of its state (momentum and the like), each once."""
    optimizer = trainer._optimizer
    own = {name: value for name, value in vars(optimizer).items() if name != "param_dict"}
    found = {id(x): x for x in _arrays_in([updater.states for updater in trainer._updaters])}
    found.update((id(x), x) for x in _arrays_in(own))
    return list(found.values())


def go_on(trainer: Any, context: Any) -> None:
    """Have ``trainer`` go on as if its parameters had always been on ``context``.

    An optimizer counts updates by the number of the device: on another one Adam would begin anew.
    https://github.com/apache/mxnet/blob/1.9.1/python/mxnet/optimizer/optimizer.py#L398
    """
    for optimizer in (trainer._optimizer, *(updater.optimizer for updater in trainer._updaters)):
        counts = optimizer._index_update_count
        optimizer._all_index_update_counts[context.device_id] = counts
    trainer._contexts = [context]


def follow(trainer: Any, context: Any) -> None:
    """``go_on``, and have each state follow its weight at the next update.

    That is MXNet's own way with states that were loaded from a file.
    """
    for updater in trainer._updaters:
        updater.states_synced = dict.fromkeys(updater.states, False)
    go_on(trainer, context)


def trainers_of(parameters: Iterable[Any]) -> list[Any]:
    """The last ``Trainer`` that was made for each, once; not those that have a kvstore."""
    found = {id(parameter._trainer): parameter._trainer for parameter in parameters}
    return [trainer for trainer in found.values() if trainer and trainer._kvstore is None]


def _arrays_in(value: Any) -> Iterator[Tensor]:
    if isinstance(value, mx.nd.NDArray):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _arrays_in(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _arrays_in(item)
