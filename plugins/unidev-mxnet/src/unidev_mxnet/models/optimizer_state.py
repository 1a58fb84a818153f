"""The state of a ``gluon.Trainer``, as named arrays: read, and loaded again."""

from __future__ import annotations

import numbers
from typing import TYPE_CHECKING, Any

import mxnet as mx  # type: ignore[import-untyped]
import numpy as np

from unidev import UnsupportedOperation
from unidev.contract import check_state, kind_of
from unidev_mxnet.native_calls import numpy_shapes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from unidev.contract import Array

    Tensor = Any


def state_of(trainer: Any) -> dict[str, Array]:
    """By ``CLASS.states.PARAMETER.PATH``, ``CLASS.steps.PARAMETER`` and ``CLASS.settings.NAME``.

    ``CLASS`` is that of the Trainer's optimizer. MXNet's own ``save_states`` writes a pickle.

    Raises:
        UnsupportedOperation: it is not a Trainer, is one of several devices, or its state is in a
            kvstore.
    """
    _check(trainer)
    with numpy_shapes():
        found = {name: np.array(x.asnumpy()) for name, x in _arrays(trainer).items()}
    kind, (updater,) = _kind(trainer), trainer._updaters
    for index, count in _steps(trainer).items():
        if index in updater.states:
            found[f"{kind}.steps.{index}"] = np.array(count)
    settings = _settings(trainer)
    return found | {name: np.array(getattr(*place)) for name, place in settings.items()}


def load_state(trainer: Any, given: Mapping[str, Array]) -> None:
    """Write to the updater's states, which are created for the parameters that have some.

    Raises:
        CheckpointError: it is of another optimizer, or of other parameters.
    """
    _check(trainer)
    kind, optimizer, (updater,) = _kind(trainer), trainer._optimizer, trainer._updaters
    trained = [
        index
        for index, parameter in enumerate(trainer._params)
        if f"{kind}.steps.{index}" in given and parameter.grad_req != "null"
    ]
    with numpy_shapes():
        for index in trained:
            if index not in updater.states:
                weight = trainer._params[index].data().as_nd_ndarray()
                updater.states[index] = optimizer.create_state_multi_precision(index, weight)
                updater.states_synced[index] = True
        arrays, settings = _arrays(trainer), _settings(trainer)
        shapes = {name: tuple(x.shape) for name, x in arrays.items()}
        steps = [f"{kind}.steps.{index}" for index in updater.states]
        check_state(kind, shapes | dict.fromkeys([*steps, *settings], ()), given)
        for name, x in arrays.items():
            x[:] = given[name]
    _steps(trainer).update({index: int(given[f"{kind}.steps.{index}"]) for index in updater.states})
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


def _arrays(trainer: Any) -> dict[str, Tensor]:
    (updater,) = trainer._updaters
    return {
        f"{_kind(trainer)}.states.{index}{path}": x
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
