"""Calls of unidev's functions, each in a function of tensors that a framework's compiler can take.

For ``compiled_table.py``. ``w``, ``x`` and ``y`` are float32 tensors of the shapes (3, 2), (2, 3)
and (2, 2). A call returns tensors and containers of them; of an answer that is no tensor, it makes
a factor. Compilers read these functions, so each is as short as a user's.
"""

# ruff: noqa: ARG001, D103  all have the same arguments; their names in CALLS say what they are

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

import unidev
from unidev.nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable

    Tensor = Any

GIVEN = SimpleNamespace(device=None, net=None, file="")
"""What the calls have from outside, as a user's function has its net: ``prepare`` fills it."""


def prepare(file: str) -> None:
    """Make the device, a new net with the same weights each time, and the name of a file."""
    unidev.seed(7)
    GIVEN.device, GIVEN.file = unidev.cpu(), file
    GIVEN.net = unidev.nn.sequential(unidev.nn.dense(3, 2))
    unidev.parameters(GIVEN.net)  # builds it, where that is needed


def _loss(w: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return functional.mean_squared_error(x @ w, y)


def _loss_of_one(pair: Any, x: Tensor, y: Tensor) -> Tensor:
    return _loss(pair["used"], x, y)


def _loss_of_net(net: Any, x: Tensor, y: Tensor) -> Tensor:
    return functional.mean_squared_error(net(x), y)


def differentiated(w: Tensor, x: Tensor, y: Tensor) -> Any:
    return unidev.value_and_grad(_loss)(w, x, y)


def differentiated_in_part(w: Tensor, x: Tensor, y: Tensor) -> Any:
    return unidev.value_and_grad(_loss_of_one)({"used": w, "unused": x}, x, y)


def differentiated_net(w: Tensor, x: Tensor, y: Tensor) -> Any:
    return unidev.value_and_grad(_loss_of_net)(GIVEN.net, x, y)


def stepped(w: Tensor, x: Tensor, y: Tensor) -> Any:
    return unidev.sgd(w, w * 2.0, lr=0.5)


def trained(w: Tensor, x: Tensor, y: Tensor) -> Any:
    loss, gradients = unidev.value_and_grad(_loss)(w, x, y)
    return loss, unidev.sgd(w, gradients, lr=0.5)


def trained_net(w: Tensor, x: Tensor, y: Tensor) -> Any:
    loss, gradients = unidev.value_and_grad(_loss_of_net)(GIVEN.net, x, y)
    unidev.sgd(GIVEN.net, gradients, lr=0.5)
    return loss


def not_recorded(w: Tensor, x: Tensor, y: Tensor) -> Any:
    with unidev.no_grad():
        return w * 2.0


def copied(w: Tensor, x: Tensor, y: Tensor) -> Any:
    return unidev.copy_to({"a": [w, x]}, GIVEN.device)


def moved(w: Tensor, x: Tensor, y: Tensor) -> Any:
    return unidev.as_in_device(w, GIVEN.device) * 2.0


def looked_up(w: Tensor, x: Tensor, y: Tensor) -> Any:
    return w * (2.0 if unidev.device_of(w) is GIVEN.device else 3.0)


def compared(w: Tensor, x: Tensor, y: Tensor) -> Any:
    return w * (2.0 if unidev.same_device(w, x) else 3.0)


def checked(w: Tensor, x: Tensor, y: Tensor) -> Any:
    unidev.check_same_device(w, x)
    return w * 2.0


def shared(w: Tensor, x: Tensor, y: Tensor) -> Any:
    return w * (2.0 if unidev.shares_memory(w, x) else 3.0)


def of_numbers(w: Tensor, x: Tensor, y: Tensor) -> Any:
    return unidev.array([[1.0, 2.0]]) + y


def of_a_tensor(w: Tensor, x: Tensor, y: Tensor) -> Any:
    return unidev.array(w)


def cast(w: Tensor, x: Tensor, y: Tensor) -> Any:
    return unidev.array(w, dtype="float16")


def zeros(w: Tensor, x: Tensor, y: Tensor) -> Any:
    return unidev.zeros((2, 2)) + y


def ones(w: Tensor, x: Tensor, y: Tensor) -> Any:
    return unidev.ones((2, 2)) + y


def empty(w: Tensor, x: Tensor, y: Tensor) -> Any:
    return y * float(unidev.empty((3, 2)).shape[0])


def full(w: Tensor, x: Tensor, y: Tensor) -> Any:
    return unidev.full((2, 2), 0.5) + y


def arange(w: Tensor, x: Tensor, y: Tensor) -> Any:
    return unidev.arange(2, dtype="float32") + y


def rand(w: Tensor, x: Tensor, y: Tensor) -> Any:
    return unidev.rand((2, 2)) + y * 0.0


def randn(w: Tensor, x: Tensor, y: Tensor) -> Any:
    return unidev.randn((2, 2)) + y * 0.0


def seeded(w: Tensor, x: Tensor, y: Tensor) -> Any:
    unidev.seed(3)
    return w * 2.0


def zeros_like(w: Tensor, x: Tensor, y: Tensor) -> Any:
    return unidev.zeros_like(w) + w


def ones_like(w: Tensor, x: Tensor, y: Tensor) -> Any:
    return unidev.ones_like(w) + w


def empty_like(w: Tensor, x: Tensor, y: Tensor) -> Any:
    return w * float(unidev.empty_like(w).shape[0])


def zeros_like_there(w: Tensor, x: Tensor, y: Tensor) -> Any:
    return unidev.zeros_like(w, device=GIVEN.device) + w


def in_scope(w: Tensor, x: Tensor, y: Tensor) -> Any:
    with GIVEN.device:
        return unidev.ones((2, 2)) + y


def read(w: Tensor, x: Tensor, y: Tensor) -> Any:
    return w * float(unidev.to_numpy(x).sum())


def converted(w: Tensor, x: Tensor, y: Tensor) -> Any:
    return w * float(unidev.convert(x, "numpy").sum())


def pinned(w: Tensor, x: Tensor, y: Tensor) -> Any:
    return unidev.pin(w) * 2.0


def put(w: Tensor, x: Tensor, y: Tensor) -> Any:
    return unidev.device_put({"a": w}, GIVEN.device)


def got(w: Tensor, x: Tensor, y: Tensor) -> Any:
    return w * float(unidev.device_get({"a": x})["a"].sum())


def is_tensor(w: Tensor, x: Tensor, y: Tensor) -> Any:
    return w * (2.0 if unidev.is_tensor(w) else 3.0)


def _double(x: Tensor) -> Tensor:
    return x * 2.0


def mapped(w: Tensor, x: Tensor, y: Tensor) -> Any:
    return unidev.map_tensors(_double, {"a": w, "b": [x]})


def split(w: Tensor, x: Tensor, y: Tensor) -> Any:
    return unidev.split_batch(x, [GIVEN.device])


def gathered(w: Tensor, x: Tensor, y: Tensor) -> Any:
    return unidev.gather([w, w], GIVEN.device)


def reduced(w: Tensor, x: Tensor, y: Tensor) -> Any:
    return unidev.all_reduce([w])


def broadcast(w: Tensor, x: Tensor, y: Tensor) -> Any:
    return unidev.broadcast(w, [GIVEN.device])


def called(w: Tensor, x: Tensor, y: Tensor) -> Any:
    return GIVEN.net(x)


def linear(w: Tensor, x: Tensor, y: Tensor) -> Any:
    return functional.linear(functional.relu(x), functional.tanh(x))


def error(w: Tensor, x: Tensor, y: Tensor) -> Any:
    return functional.mean_squared_error(y, y * 2.0)


def placed(w: Tensor, x: Tensor, y: Tensor) -> Any:
    unidev.place(GIVEN.net, GIVEN.device)
    return w * 2.0


def listed(w: Tensor, x: Tensor, y: Tensor) -> Any:
    return w * float(len(unidev.parameters(GIVEN.net)))


def saved(w: Tensor, x: Tensor, y: Tensor) -> Any:
    unidev.save_parameters(GIVEN.net, GIVEN.file)
    return w * 2.0


def loaded(w: Tensor, x: Tensor, y: Tensor) -> Any:
    unidev.load_parameters(GIVEN.net, GIVEN.file)
    return w * 2.0


def counted(w: Tensor, x: Tensor, y: Tensor) -> Any:
    device = unidev.try_gpu(9)
    return w * float(unidev.num_gpus() + len(unidev.list_devices()) + device.index)


def waited(w: Tensor, x: Tensor, y: Tensor) -> Any:
    unidev.synchronize(GIVEN.device)
    return w * 2.0


def traced(w: Tensor, x: Tensor, y: Tensor) -> Any:
    with unidev.trace_transfers():
        return w * 2.0


def guarded(w: Tensor, x: Tensor, y: Tensor) -> Any:
    with unidev.transfer_guard("forbid"):
        return w * 2.0


CALLS: dict[str, Callable[[Tensor, Tensor, Tensor], Any]] = {
    "`value_and_grad` of a tensor": differentiated,
    "`value_and_grad` of a container, in part unused": differentiated_in_part,
    "`value_and_grad` of a net": differentiated_net,
    "`sgd`": stepped,
    "`value_and_grad` and `sgd`, a whole step": trained,
    "a whole step of a net": trained_net,
    "`no_grad`": not_recorded,
    "`copy_to`": copied,
    "`as_in_device`": moved,
    "`device_of`": looked_up,
    "`same_device`": compared,
    "`check_same_device`": checked,
    "`shares_memory`": shared,
    "`array` of numbers": of_numbers,
    "`array` of a tensor": of_a_tensor,
    "`array(x, dtype=...)`": cast,
    "`zeros`": zeros,
    "`ones`": ones,
    "`empty`": empty,
    "`full`": full,
    "`arange`": arange,
    "`rand`": rand,
    "`randn`": randn,
    "`seed`": seeded,
    "`zeros_like`": zeros_like,
    "`ones_like`": ones_like,
    "`empty_like`": empty_like,
    "`zeros_like(x, device=...)`": zeros_like_there,
    "`with device:`": in_scope,
    "`to_numpy`": read,
    "`convert`": converted,
    "`pin`": pinned,
    "`device_put`": put,
    "`device_get`": got,
    "`is_tensor`": is_tensor,
    "`map_tensors`": mapped,
    "`split_batch`": split,
    "`gather`": gathered,
    "`all_reduce`": reduced,
    "`broadcast`": broadcast,
    "calling a net of `unidev.nn`": called,
    "`functional.linear`, `relu`, `tanh`": linear,
    "`functional.mean_squared_error`": error,
    "`parameters`": listed,
    "`place`": placed,
    "`save_parameters`": saved,
    "`load_parameters`": loaded,
    "`num_gpus`, `list_devices`, `try_gpu`": counted,
    "`synchronize`": waited,
    "`trace_transfers`": traced,
    "`transfer_guard`": guarded,
}
"""By what the table calls them."""


def copied_there(x: Tensor) -> Any:
    return unidev.copy_to(x, GIVEN.device)


def array_there(x: Tensor) -> Any:
    return unidev.array([1.0, 2.0], device=GIVEN.device)


def made_there(x: Tensor) -> Any:
    return unidev.zeros(2, device=GIVEN.device), unidev.full((600, 600), 1.0, device=GIVEN.device)


def put_there(x: Tensor) -> Any:
    return unidev.device_put([1.0, HOST], GIVEN.device)[1]


def like_there(x: Tensor) -> Any:
    return unidev.ones_like(x, device=GIVEN.device)


def scoped_there(x: Tensor) -> Any:
    with GIVEN.device:
        return unidev.ones(2)


def split_there(x: Tensor) -> Any:
    return unidev.split_batch(x, [GIVEN.device, GIVEN.device])


def replicated_there(x: Tensor) -> Any:
    return unidev.replicate(x, [GIVEN.device, GIVEN.device])


HOST = np.ones((2, 2), "float32")

PLACES: dict[str, Callable[[Tensor], Any]] = {
    "where: `copy_to`": copied_there,
    "where: `array`": array_there,
    "where: `zeros`, `full`": made_there,
    "where: `device_put` of NumPy's": put_there,
    "where: `ones_like(x, device=...)`": like_there,
    "where: `with device:`": scoped_there,
    "where: `split_batch`": split_there,
    "where: `replicate`": replicated_there,
}
"""By what the table calls them: functions that return tensors on ``GIVEN.device`` alone."""

DRAWN = {"`rand`", "`randn`"}
"""Calls that return other numbers each time."""

ANSWERS = {"`is_tensor`": "answers no"}
"""Calls whose answer may be another one where the framework does not pass tensors."""
