"""MXNet's calls that compute with arrays of several devices, or move a model's; and others.

Operands on another device than the first go there, and their gradients go back.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mxnet as mx  # type: ignore[import-untyped]
import numpy as np
from mxnet import autograd, gluon

from unidev.contract import PlannedTransfer, TransferExample

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from unidev.contract import Device

    Moved = tuple[PlannedTransfer, ...]
    Size = tuple[int, tuple[int, ...]]

MATRIX: Size = (16, (2, 2))
"""The bytes and the shape of ``matrix``."""
_OPERATORS: dict[str, Sequence[Callable[[Any, Any], object]]] = {
    "add": [
        lambda x, y: x + y,
        lambda x, y: x.copy().__iadd__(y),
        lambda x, y: x.as_nd_ndarray() + y.as_nd_ndarray(),
        lambda x, y: x.as_nd_ndarray().copy().__iadd__(y.as_nd_ndarray()),
        np.add,
    ],
    "equal": [lambda x, y: x == y],
    "dot": [mx.np.dot, lambda x, y: mx.nd.dot(x.as_nd_ndarray(), y.as_nd_ndarray())],
    "tensordot": [
        lambda x, y: mx.np.tensordot(x, y, 1), lambda x, y: mx.np.tensordot(x, y, ([0], [1])),
    ],
    "matmul": [lambda x, y: x @ y],
    "einsum": [lambda x, y: mx.np.einsum("ij,jk", x, y)],
    "concatenate": [lambda x, y: mx.np.concatenate([x, y])],
    "Concat": [lambda x, y: mx.nd.concat(x.as_nd_ndarray(), y.as_nd_ndarray(), dim=0)],
    "where": [lambda x, y: mx.np.where(x, x, y)],
    "add_n": [lambda x, y: mx.nd.add_n(x.as_nd_ndarray(), y.as_nd_ndarray())],
    "broadcast_like": [lambda x, y: mx.nd.broadcast_like(x.as_nd_ndarray(), y.as_nd_ndarray())],
}  # fmt: skip
"""Operators of two matrices."""


def computed(gpu: Device, others: Sequence[Device], cpu: Device) -> Iterator[TransferExample]:
    """Operands, gradients, layers, stores. ``others``: whose arrays MXNet takes beside a GPU's."""
    for other in others:
        yield from _operands(gpu, other)
        yield from _indices(gpu, other)
        yield from _gradients(gpu, other)
    yield from _layers(gpu, cpu)
    yield from _stores(gpu, cpu)


# -- operands --------------------------------------------------------------------------------------


def _operands(gpu: Device, other: Device) -> Iterator[TransferExample]:
    x, y = matrix(gpu), matrix(other)
    for name, calls in _OPERATORS.items():
        for call in calls:
            moved = moves(f"{name} of mixed operands", other, gpu, MATRIX)
            yield TransferExample(partial(call, x, y), moved)
            yield TransferExample(partial(call, x, x), ())
            yield TransferExample(partial(call, y, y), ())
    stacked = moves("stack of mixed operands", other, gpu, MATRIX, MATRIX)
    yield TransferExample(lambda: mx.np.stack([x, y, x, y]), stacked)
    wrong = mx.np.ones((3, 3), ctx=other.native)
    yield TransferExample(
        lambda: _refused(lambda: x + wrong),
        moves("add of mixed operands", other, gpu, (36, (3, 3))),
    )
    csr = mx.nd.array([[0, 5], [0, 0]], ctx=gpu.native).tostype("csr")
    dot = moves("dot of mixed operands", other, gpu, MATRIX)
    yield TransferExample(lambda: mx.nd.dot(csr, y.as_nd_ndarray()), dot)
    out = moves("out= of add", gpu, other, MATRIX)
    yield TransferExample(lambda: mx.np.add(x, x, out=y.copy()), out)
    yield TransferExample(lambda: np.add(x, x, out=y.copy()), out)
    brought = moves("add of mixed operands", other, gpu, MATRIX)
    yield TransferExample(lambda: mx.np.add(x, y, out=y.copy()), (*brought, *out))
    yield TransferExample(lambda: mx.np.add(x, x, out=x.copy()), ())


def _refused(call: Callable[[], object]) -> None:
    try:
        call()
    except mx.MXNetError:
        return
    raise AssertionError("MXNet did not refuse it")


def _indices(gpu: Device, other: Device) -> Iterator[TransferExample]:
    x, rows = matrix(gpu), mx.np.array([0, 1], ctx=other.native, dtype="int32")
    mask = matrix(other) > 2
    # MXNet copies the rows, and the other dimension's zeros that it has made beside them.
    read = moves("ndarray.__getitem__", other, gpu, *[(8, (2,))] * 2)
    yield TransferExample(lambda: x[rows], read)
    take = moves("take of mixed operands", other, gpu, (8, (2,)))
    yield TransferExample(lambda: mx.np.take(x, rows), take)
    masked = moves("boolean_mask of mixed operands", other, gpu, (4, (4,)))
    yield TransferExample(lambda: x[mask], masked)
    assigned = moves("boolean_mask_assign_scalar of mixed operands", other, gpu, (4, (2, 2)))
    yield TransferExample(lambda: x.copy().__setitem__(mask, 0), assigned)


# -- gradients -------------------------------------------------------------------------------------


_OF_HEAD = "backward of mixed operands"


def _gradients(gpu: Device, other: Device) -> Iterator[TransferExample]:
    there = other.native
    w, v, constant, given = _leaf(gpu), _leaf(other), matrix(gpu), matrix(other)
    over, back = moves("ndarray.as_in_ctx", gpu, other, MATRIX), _back("as_in_ctx", gpu, other)

    def chain() -> None:
        with autograd.record():
            y = (w * 2).as_in_ctx(there) * v
            loss = ((y + w) + constant).sum()
        loss.backward()

    added = moves("add of mixed operands", gpu, other, MATRIX, MATRIX)
    chained = *over, *added, *_back("add", gpu, other), *back  # none for the constant
    yield TransferExample(chain, chained)

    def used_before() -> None:
        for _ in range(2):
            with autograd.record():
                loss = (v * constant).sum()
            loss.backward()

    multiplied = moves("multiply of mixed operands", gpu, other, MATRIX, MATRIX)
    yield TransferExample(used_before, multiplied)

    def of(*variables: Any) -> None:
        with autograd.record():
            loss = (w.as_in_ctx(there) * v).sum()
        autograd.grad(loss, list(variables), retain_graph=True)
        loss.backward()
        _refused(loss.backward)  # the graph is gone

    yield TransferExample(partial(of, v), (*over, *back))
    yield TransferExample(partial(of, w), (*over, *back, *back))
    yield TransferExample(partial(of, v, w), (*over, *back, *back))

    hybrid = _dense(2, gpu)
    hybrid.hybridize()

    def tensordot() -> None:
        with autograd.record():
            loss = hybrid(mx.np.tensordot(constant, v, 1)).sum()
        loss.backward()

    brought = moves("tensordot of mixed operands", other, gpu, MATRIX)
    yield TransferExample(tensordot, (*brought, *_back("tensordot", other, gpu)))
    sent = moves(_OF_HEAD, other, gpu, MATRIX)
    yield TransferExample(partial(_backward, w, [given]), sent)
    yield TransferExample(partial(_backward, w, [None, given]), sent)
    yield TransferExample(partial(_backward, w, [constant]), ())

    def elsewhere() -> None:
        """A copy that is not recorded, or is not part of the loss, has no gradient."""
        with autograd.record():
            loss = w.sum()
            w.as_in_ctx(there)
            with autograd.pause():
                w.as_in_ctx(there)
        loss.backward()
        _refused(given.backward)  # it was not computed while autograd recorded

    yield TransferExample(elsewhere, (*over, *over))


def _leaf(device: Device) -> Any:
    x = matrix(device)
    x.attach_grad()
    return x


def _back(name: str, source: Device, target: Device) -> Moved:
    """The gradient of a matrix that went from ``source`` to ``target``."""
    return moves(f"gradient of {name}", target, source, MATRIX)


def _backward(w: Any, given: Sequence[Any]) -> None:
    with autograd.record():
        heads = [w * 2 for _ in given]
    autograd.backward(heads, given)


# -- models ----------------------------------------------------------------------------------------


def _layers(gpu: Device, cpu: Device) -> Iterator[TransferExample]:
    """A model is initialized on the CPU and sent, and is read to be saved."""
    on, x = gpu.native, matrix(gpu)
    sizes = (24, (3, 2)), (12, (3,))
    net, placed = _dense(3, cpu), _dense(3, gpu)
    for name, call, source, target, *sent in (
        ("Dense.initialize", lambda: gluon.nn.Dense(3, in_units=2).initialize(ctx=on),
         cpu, gpu, *sizes),
        ("ParameterDict.reset_ctx", lambda: net.collect_params().reset_ctx(on), cpu, gpu, *sizes),
        ("Dense.save_parameters", lambda: _in_file(placed.save_parameters), gpu, cpu, *sizes),
        ("Parameter.set_data", lambda: placed.bias.set_data(np.ones(3)), cpu, gpu, sizes[1]),
        ("Dense.__call__", partial(_deferred(gpu), x), cpu, gpu, MATRIX),
        ("mx.gluon.utils.split_and_load",
         lambda: gluon.utils.split_and_load(matrix(cpu), [cpu.native, on]), cpu, gpu, (8, (1, 2))),
    ):  # fmt: skip
        yield TransferExample(call, moves(name, source, target, *sent))
    yield _resumed(gpu, cpu)
    yield TransferExample(_training(gpu), ())
    hybrid = _dense(3, gpu)
    hybrid.hybridize()
    hybrid(x)
    yield TransferExample(lambda: _refused(lambda: hybrid(matrix(cpu))), ())


def _dense(units: int, device: Device) -> Any:
    made = gluon.nn.Dense(units, in_units=2)
    made.initialize(ctx=device.native)
    return made


def _deferred(gpu: Device) -> Any:
    """A layer that is initialized at its first call, by the input's shape; its bias is at once."""
    made = gluon.nn.Dense(2)
    made.initialize(ctx=gpu.native)
    return made


def _in_file(call: Callable[[str], object]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        call(str(Path(folder) / "file"))


def _resumed(gpu: Device, cpu: Device) -> TransferExample:
    """An optimizer's state that was loaded follows the weights at the next step."""
    weight = gluon.Parameter("weight", shape=(2, 2))
    weight.initialize(ctx=gpu.native)
    trainer = gluon.Trainer([weight], "sgd", {"momentum": 0.9})

    def step() -> None:
        with autograd.record():
            loss = weight.data().sum()
        loss.backward()
        trainer.step(1)

    def resume(file: str) -> None:
        step()
        trainer.save_states(file)
        trainer.load_states(file)
        step()
        step()

    saved = moves("Trainer.save_states", gpu, cpu, MATRIX)
    return TransferExample(
        partial(_in_file, resume), (*saved, *moves("Trainer.step", cpu, gpu, MATRIX))
    )


def _training(gpu: Device) -> Callable[[], None]:
    """Steps on one device, which move nothing."""
    net, x = gluon.nn.HybridSequential(), matrix(gpu)
    net.add(gluon.nn.Dense(4, in_units=2), gluon.nn.BatchNorm(in_channels=4), gluon.nn.Dense(1))
    net.initialize(ctx=gpu.native)
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "adam")
    net(x)  # initializes the last layer

    def train() -> None:
        for _ in range(2):
            with autograd.record():
                loss = (net(x) ** 2).sum()
            loss.backward()
            trainer.step(2)

    return train


def _stores(gpu: Device, cpu: Device) -> Iterator[TransferExample]:
    """A store's updater, which C++ calls, reads; how the store moves weights is not reported."""
    read = moves("NDArray.asnumpy", gpu, cpu, MATRIX)
    for key in (3, "weight"):
        store, x = mx.kv.create("local"), legacy(gpu)
        store.init(key, x)
        store._set_updater(_read_and_add)
        yield TransferExample(partial(store.pushpull, key, x, out=x.copy()), read)
        yield TransferExample(partial(store.pull, key, out=x.copy()), ())
        push = partial(_push_and_copy, store, key, x, cpu.native)
        copied = moves("NDArray.copyto", gpu, cpu, MATRIX)
        yield TransferExample(push, (*read, *copied))
        outer = mx.kv.create("local")
        outer.init(key, x)
        outer._set_updater(partial(_push_and_add, store, key))
        yield TransferExample(partial(outer.push, key, x), read)


def _read_and_add(_key: object, gradient: Any, weight: Any) -> None:
    gradient.asnumpy()
    weight += gradient


def _push_and_add(store: Any, key: object, _: object, gradient: Any, weight: Any) -> None:
    """Use another store in an updater."""
    store.push(key, gradient)
    weight += gradient


def _push_and_copy(store: Any, key: object, x: Any, there: Any) -> None:
    store.push(key, x)
    x.copyto(there)


# -- nothing ---------------------------------------------------------------------------------------


def nothing(gpu: Device) -> Iterator[TransferExample]:
    """Calls on one device, and numbers, which travel with the call."""
    x, old, on = matrix(gpu), legacy(gpu), gpu.native
    calls: Sequence[Callable[[], object]] = (
        lambda: x.as_in_ctx(on), lambda: x.as_in_context(on), lambda: x.copyto(on), x.copy,
        lambda: old.copyto(on), lambda: old.as_in_context(on), old.copy,
        lambda: mx.nd.array(old, on),
        lambda: x + 1, lambda: x @ x.T, x.sum, lambda: x[1], lambda: x[x > 1], lambda: list(x),
        lambda: len(x), lambda: x.reshape(-1).astype("float64"), x.detach, x.as_nd_ndarray,
        lambda: mx.np.stack([x, x]), lambda: mx.np.concatenate([x, x])[1:3], lambda: np.mean(x),
        lambda: mx.np.unique(x), lambda: mx.np.nonzero(x), lambda: mx.np.split(x, 2),
        lambda: x.copy().__setitem__(0, 5), lambda: x.copy().__setitem__(x > 2, 0),
        lambda: mx.np.zeros(2, ctx=on), lambda: mx.nd.ones((2,), on),
        lambda: mx.np.arange(2, ctx=on),
        lambda: mx.np.random.normal(size=(2,), ctx=on), lambda: mx.np.full((2,), 2.0, ctx=on),
        lambda: old.tostype("csr").tostype("default"), lambda: np.asarray(x), mx.nd.waitall,
    )  # fmt: skip
    yield from (TransferExample(call, ()) for call in calls)


# -- arrays, and the transfers to expect -----------------------------------------------------------


def matrix(device: Device) -> Any:
    """Four float32."""
    return mx.np.array([[1.0, 2.0], [3.0, 4.0]], ctx=device.native)


def legacy(device: Device) -> Any:
    """The same, of the legacy class."""
    return matrix(device).as_nd_ndarray()


def one(device: Device) -> Any:
    """A float32 without dimensions."""
    return mx.np.array(3.0, ctx=device.native)


def moves(
    name: str, source: Device, target: Device, *sizes: Size
) -> tuple[PlannedTransfer, ...]:  # fmt: skip
    """Transfers of that name, one of each size, which is its bytes and its shape."""
    return tuple(PlannedTransfer(name, source, target, *size) for size in sizes)
