"""``gluon.Trainer``: its arrays that move along with a model, its state as named arrays."""

from __future__ import annotations

import numbers
import re
from typing import TYPE_CHECKING, Any

import mxnet as mx  # type: ignore[import-untyped]
import numpy as np

from unidev.contract import check_state, found_in, kind_of
from unidev.errors import UnsupportedOperation
from unidev_mxnet.native_calls import numpy_shapes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from unidev.contract import Array, Tensor


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


def state_of(trainer: Any) -> dict[str, Array]:
    """By ``CLASS.states.PLACE.PATH``, ``CLASS.steps.PLACE`` and ``CLASS.settings.NAME``.

    ``CLASS`` is that of the Trainer's optimizer, ``PLACE`` is the parameter's. MXNet's own
    ``save_states`` writes a pickle.

    Raises:
        UnsupportedOperation: it is not a Trainer, is one of several devices, or its state is in a
            kvstore.
    """
    _check(trainer)
    with numpy_shapes():
        found = {name: np.array(x.asnumpy()) for name, x in _arrays(trainer).items()}
    kind, (updater,) = _kind(trainer), trainer._updaters
    places = _places(trainer)
    for index, count in _steps(trainer).items():
        if index in updater.states:
            found[f"{kind}.steps.{places[index]}"] = np.array(count)
    settings = _settings(trainer)
    return found | {name: np.array(getattr(*place)) for name, place in settings.items()}


def load_state(trainer: Any, given: Mapping[str, Array]) -> None:
    """Write to the updater's states, which are created for the parameters that have some.

    Raises:
        CheckpointError: it is of another optimizer, or of other parameters.
    """
    _check(trainer)
    kind, optimizer, (updater,) = _kind(trainer), trainer._optimizer, trainer._updaters
    places = _places(trainer)
    trained = [
        index
        for index, parameter in enumerate(trainer._params)
        if f"{kind}.steps.{places[index]}" in given and parameter.grad_req != "null"
    ]
    with numpy_shapes():
        for index in trained:
            if index not in updater.states:
                weight = trainer._params[index].data().as_nd_ndarray()
                updater.states[index] = optimizer.create_state_multi_precision(index, weight)
                updater.states_synced[index] = True
        arrays, settings = _arrays(trainer), _settings(trainer)
        shapes = {name: tuple(x.shape) for name, x in arrays.items()}
        steps = {index: f"{kind}.steps.{places[index]}" for index in updater.states}
        check_state(kind, shapes | dict.fromkeys([*steps.values(), *settings], ()), given)
        for name, x in arrays.items():
            x[:] = given[name]
    _steps(trainer).update({index: int(given[name]) for index, name in steps.items()})
    for name, (holder, key) in settings.items():
        setattr(holder, key, type(getattr(holder, key))(given[name].item()))


def _check(trainer: Any) -> None:
    if not isinstance(trainer, mx.gluon.Trainer):
        raise UnsupportedOperation(
            f"a checkpoint of a {kind_of(trainer)}",
            "Gluon models are trained by a mxnet.gluon.Trainer: pass that",
        )
    if len(trainer._updaters) != 1 or (trainer._kvstore and trainer._update_on_kvstore):
        raise UnsupportedOperation(
            "a checkpoint of this Trainer",
            "its state is on several devices, or in a kvstore: make it with kvstore=None, for the "
            "parameters of one device",
        )


def _kind(trainer: Any) -> str:
    return type(trainer._optimizer).__name__


def _places(trainer: Any) -> list[int]:
    """For each of the trainer's parameters its place among their names, by the numbers in these.

    Gluon numbers the layers of a process, and a Trainer sorts the names as text: ``dense10_weight``
    comes before ``dense9_weight``. So the same model has another order of parameters after others.
    """
    names = [re.split(r"(\d+)", parameter.name) for parameter in trainer._params]
    by_name = [[int(part) if part.isdigit() else part for part in name] for name in names]
    in_order = sorted(range(len(names)), key=by_name.__getitem__)
    places = {index: place for place, index in enumerate(in_order)}
    return [places[index] for index in range(len(names))]


def _arrays(trainer: Any) -> dict[str, Tensor]:
    (updater,), places = trainer._updaters, _places(trainer)
    return {
        f"{_kind(trainer)}.states.{places[index]}{path}": x
        for index, state in updater.states.items()
        for path, x in _parts(state)
    }


def _parts(state: Any, path: str = "") -> Iterator[tuple[str, Tensor]]:
    if isinstance(state, mx.nd.NDArray):
        yield path, state
    elif isinstance(state, (tuple, list)):
        for position, part in enumerate(state):
            yield from _parts(part, f"{path}.{position}")


def _steps(trainer: Any) -> dict[int, int]:
    """How many steps each parameter has made, by its index; the optimizer's own dictionary.

    It has one for each device's number.
    """
    optimizer = trainer._optimizer
    optimizer._set_current_context(trainer._contexts[0].device_id)
    counts: dict[int, int] = optimizer._index_update_count
    return counts


def _settings(trainer: Any) -> dict[str, tuple[Any, str]]:
    """The object and the attribute of each number: the learning rate, and that of its schedule."""
    kind, optimizer = _kind(trainer), trainer._optimizer
    found = {f"{kind}.settings.{name}": (optimizer, name) for name in ("lr", "num_update", "wd")}
    schedule = optimizer.lr_scheduler
    if schedule is not None:
        found |= {
            f"{kind}.settings.schedule.{name}": (schedule, name)
            for name, value in vars(schedule).items()
            if isinstance(value, numbers.Real)
        }
    return found
