"""Paddle's calls that read, copy or fill a tensor, and what they move; and what moves nothing.

Mixed operands are in ``mixed_operands``. Bytes are those that CUDA moves.
"""

from __future__ import annotations

import copy
import io
import pickle
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.contract import PlannedTransfer, TransferExample
from unidev_paddle.framework import core, paddle
from unidev_paddle.probe.mixed_operands import VALUES, by_default_on, mixed, on, refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from unidev.contract import Backend, Device, Tensor

    Read = Callable[[Tensor], object]

F: Any = paddle.nn.functional

_SCALAR: dict[str, Sequence[Read]] = {
    "Tensor.item": [lambda x: x.item()],
    "Tensor.__float__": [float],
    "Tensor.__int__": [int],
    "Tensor.__bool__": [bool, lambda x: not x, lambda x: 1 if x else 2],
    "Tensor.__format__": ["{:.2f}".format],
    "Tensor.numpy": [lambda x: x.numpy()],
    "Tensor.__array__": [np.float32],
    "paddle.full": [lambda x: paddle.full([2], x)],
    "paddle.full_like": [lambda x: paddle.full_like(paddle.ones([2]), x)],
    "paddle.uniform": [lambda x: paddle.uniform([2], min=0.0, max=x)],
    "Tensor.scale": [lambda x: paddle.scale(x * 2, x)],
    "Tensor.clip": [lambda x: (x * 2).clip(min=x)],
    "Tensor.allclose": [lambda x: paddle.allclose(x * 2, x, atol=x)],
    "dropout": [lambda x: F.dropout(x * 2, p=x)],
}
"""Reads of one float32, a tensor without axes, by the name that a trace has for them."""

_INDEX: dict[str, Sequence[Read]] = {
    "Tensor.__index__": [lambda n: "abc"[n], range],
    "Tensor.__getitem__": [
        lambda n: paddle.ones([3])[n],
        lambda n: paddle.ones([2, 3])[:, n],
        lambda n: paddle.ones([3])[n:],
        lambda n: paddle.ones([3])[:n],
        lambda n: paddle.ones([3])[::n],
    ],
    "Tensor.__setitem__": [
        lambda n: paddle.ones([3]).__setitem__(n, 2.0),
        lambda n: paddle.ones([3]).__setitem__(slice(n, None), 2.0),
    ],
    # Tensors in place of shapes, axes and counts.
    "paddle.arange": [paddle.arange],
    "paddle.linspace": [lambda n: paddle.linspace(0, 1, n)],
    "paddle.randperm": [paddle.randperm],
    "paddle.randint": [lambda n: paddle.randint(0, 5, [n])],
    "paddle.empty": [lambda n: paddle.empty([n, 2])],
    "paddle.zeros": [lambda n: paddle.zeros([2, n])],
    "paddle.randn": [lambda n: paddle.randn([n])],
    "Tensor.sum": [
        lambda n: paddle.ones([2, 2]).sum(n),
        lambda n: paddle.sum(paddle.ones([2, 2]), axis=n),
    ],
    "Tensor.argmax": [lambda n: paddle.argmax(paddle.ones([2, 2]), axis=n)],
    "Tensor.mean": [lambda n: paddle.mean(paddle.ones([2, 2]), axis=n)],
    "Tensor.max": [lambda n: paddle.max(paddle.ones([2, 2]), n)],
    "Tensor.prod": [lambda n: paddle.prod(paddle.ones([2, 2]), n)],
    "Tensor.nansum": [lambda n: paddle.nansum(paddle.ones([2, 2]), n)],
    "Tensor.nanmedian": [lambda n: paddle.nanmedian(paddle.ones([2, 2]), n)],
    "Tensor.cumsum": [lambda n: paddle.ones([2, 2]).cumsum(n)],
    "Tensor.concat": [lambda n: paddle.concat([paddle.ones([2, 2])] * 2, axis=n)],
    "Tensor.gather": [lambda n: paddle.gather(paddle.ones([2, 2]), paddle.zeros([1], "int64"), n)],
    "Tensor.roll": [lambda n: paddle.roll(paddle.ones([2]), shifts=n)],
    "Tensor.tile": [lambda n: paddle.tile(paddle.ones([2]), [n, 2])],
    "Tensor.reshape": [lambda n: paddle.reshape(paddle.ones([2]), [n, 2])],
    "Tensor.split": [lambda n: paddle.split(paddle.ones([2, 2]), 2, axis=n)],
    "Tensor.topk": [lambda n: paddle.topk(paddle.ones([2]), n)],
    "Tensor.slice": [lambda n: paddle.slice(paddle.ones([2]), [0], [0], [n])],
    "Tensor.unsqueeze": [lambda n: paddle.unsqueeze(paddle.ones([2]), n)],
    "Tensor.bincount": [
        lambda n: paddle.bincount(paddle.ones([2], "int64"), minlength=n),
        lambda n: paddle.bincount(paddle.ones([2], "int64"), paddle.ones([2]), n),
    ],
    "Tensor.multinomial": [lambda n: paddle.multinomial(paddle.ones([2]), n)],
    "sequence_mask": [lambda n: F.sequence_mask(paddle.ones([2], "int64"), maxlen=n)],
}
"""Reads of one int64, 1, a tensor without axes."""

_MATRIX: Sequence[tuple[Any, ...]] = [
    ("Tensor.numpy", lambda x: x.numpy(), (24, (2, 3))),
    ("Tensor.numpy", lambda x: x.T.numpy(), (24, (3, 2))),
    ("Tensor.numpy", lambda x: x[:0].numpy(), (0, (0, 3))),
    ("Tensor.numpy", lambda x: x.astype("bfloat16").numpy(), (12, (2, 3))),
    ("Tensor.tolist", lambda x: x.tolist(), (24, (2, 3))),
    ("Tensor.tolist", paddle.tolist, (24, (2, 3))),
    ("Tensor.__array__", np.asarray, (24, (2, 3))),
    ("Tensor.__array__", lambda x: np.array([x, x]), (24, (2, 3)), (24, (2, 3))),
    ("Tensor.item", lambda x: x.item(2), (4, ())),
    ("Tensor.item", lambda x: x.item(1, 2), (4, ())),
    ("Tensor.item", lambda x: x[:1, :1].item(), (4, (1, 1))),
    ("Tensor.item", lambda x: [each.item() for each in x[:, 0]], (4, ()), (4, ())),
    ("Tensor.__complex__", lambda x: complex(x[0, 1]), (8, ())),
    ("Tensor.__bool__", lambda x: max(x[0]), (1, ()), (1, ())),
    ("Tensor.__bool__", lambda x: 1.0 in x[0], (1, ()), (1, ())),
    ("Tensor.__bool__", lambda x: bool(paddle.equal_all(x, x)), (1, ())),
    ("Tensor.__reduce_ex__", pickle.dumps, (24, (2, 3))),
    ("paddle.save", lambda x: paddle.save(x, io.BytesIO()), (24, (2, 3))),
    ("paddle.save", lambda x: paddle.save({"a": x, "b": x[0]}, io.BytesIO()),
     (24, (2, 3)), (12, (3,))),
    ("Tensor.isclose", lambda x: paddle.isclose(x, x, rtol=x[0, 1].astype("float64")), (8, ())),
    ("Tensor.tile", lambda x: paddle.tile(x, x[0, 1:].astype("int64")), (16, (2,))),
    ("Tensor.__getitem__", lambda x: x[x[0, 1].astype("int32")], (4, ())),
    ("Tensor.__getitem__", lambda x: x[x[0, 1].astype("int64"), 0], (8, ())),
    ("DenseTensor.__array__", lambda x: np.array(_dense(x)), (24, (2, 3))),
    ("DenseTensor._get_element", lambda x: _dense(x)._get_float_element(2), (4, ())),
    ("Tensor.cpu", lambda x: x.cpu(), (24, (2, 3))),
    ("Tensor.to", lambda x: x.to("cpu"), (24, (2, 3))),
    ("Tensor.to", lambda x: x.to("cpu", dtype="float64"), (48, (2, 3))),
    ("Tensor.to", lambda x: x.to(paddle.to_tensor(1.0, place=core.CPUPlace())), (24, (2, 3))),
    ("DenseTensor._copy", lambda x: _dense(x)._copy(core.CPUPlace()), (24, (2, 3))),
    ("send_u_recv", lambda x: _send(x, x[0, :1].astype("int64"), x[0, 1].astype("int64")), (8, ())),
]  # fmt: skip
"""Reads of the matrix ``VALUES``: name, call, and the bytes and shape of each."""


_BATCH = 8
"""Calls in an example: opening a scope takes Paddle's tracer longer than most of them."""


def transfers_of(backend: Backend, gpu: Device) -> Iterator[TransferExample]:
    """See ``Probe.transfers``."""
    calls = _calls(backend, gpu)
    while batch := list(islice(calls, _BATCH)):
        yield TransferExample(
            partial(_one_by_one, [each.call for each in batch]),
            [moved for each in batch for moved in each.transfers],
        )


def _calls(backend: Backend, gpu: Device) -> Iterator[TransferExample]:
    cpu = type(gpu)(gpu.backend, "cpu", 0)
    others = [type(gpu)(gpu.backend, "gpu", i) for i in range(backend.device_count("gpu"))]
    other = next((each for each in others if each != gpu), None)
    yield from _reads(gpu, cpu)
    yield from _copies(cpu, gpu)
    if other is not None:
        yield from _copies(other, gpu)
        yield from _layers(gpu, other)
    yield from _filled(cpu, gpu)
    yield from mixed(gpu, cpu, other)
    yield from _nothing(gpu, cpu)


def _reads(gpu: Device, cpu: Device) -> Iterator[TransferExample]:
    for table, value, nbytes in (
        (_SCALAR, np.float32(0.5), 4), (_INDEX, np.int64(1), 8),
    ):  # fmt: skip
        for name, calls in table.items():
            read = PlannedTransfer(name, gpu, cpu, nbytes, ())
            for call in calls:
                yield TransferExample(partial(call, on(gpu, value)), (read,))
                yield TransferExample(partial(call, on(cpu, value)), ())
    for name, call, *several in _MATRIX:
        moved = tuple(PlannedTransfer(name, gpu, cpu, *each) for each in several)
        yield TransferExample(partial(call, on(gpu)), moved)


def _copies(source: Device, gpu: Device) -> Iterator[TransferExample]:
    """Calls that copy a tensor from ``source`` to ``gpu``."""
    at, x, y = gpu.native, on(source), on(gpu)
    parameter = _linear(source).weight
    empty = core.DenseTensor()
    for name, call, *moved in (
        ("Tensor.to", lambda: x.to(gpu.native_name), (24, (2, 3))),
        ("Tensor.to", lambda: x.to(at), (24, (2, 3))),
        ("Tensor.to", lambda: x.to(device=gpu.native_name, blocking=True), (24, (2, 3))),
        ("Tensor.to", lambda: x.to(y), (24, (2, 3))),
        ("Tensor.to", lambda: x.to(at, dtype="float64"), (48, (2, 3))),
        ("Tensor.to", lambda: x.T.to(at), (24, (3, 2))),
        ("Tensor._copy_to", lambda: x._copy_to(at, True), (24, (2, 3))),
        ("Tensor._copy_to", lambda: parameter._copy_to(at, True), (24, (3, 2))),
        ("Tensor._copy_to", lambda: paddle._C_ops.copy_to(x, at, True), (24, (2, 3))),
        ("paddle.to_tensor", lambda: paddle.to_tensor(x, place=at), (24, (2, 3))),
        ("paddle.Tensor", lambda: paddle.Tensor(x, place=at), (24, (2, 3))),
        ("paddle.Tensor", lambda: paddle.Tensor(_dense(x), at), (24, (2, 3))),
        ("Tensor.copy_", lambda: y.copy_(x, True), (24, (2, 3))),
        ("Tensor.copy_", lambda: y.value().set_tensor(x), (24, (2, 3))),
        ("Tensor.set_value", lambda: y.set_value(x), (24, (2, 3))),
        ("DenseTensor._copy", lambda: _dense(x)._copy(at), (24, (2, 3))),
        ("DenseTensor._copy_from", lambda: empty._copy_from(_dense(x), at), (24, (2, 3))),
        ("DenseTensor.set", lambda: empty.set(_dense(x), at), (24, (2, 3))),
    ):  # fmt: skip
        planned = tuple(PlannedTransfer(name, source, gpu, *each) for each in moved)
        yield TransferExample(call, planned)


def _layers(gpu: Device, other: Device) -> Iterator[TransferExample]:
    net, state = _linear(gpu), _linear(other).state_dict()
    here, there = (24, (3, 2)), (8, (2,))
    yield TransferExample(
        lambda: net.set_state_dict(state),
        [PlannedTransfer("Linear.set_state_dict", other, gpu, *each) for each in (here, there)],
    )
    yield TransferExample(
        lambda: net.to(other.native_name),
        [PlannedTransfer("Linear.to", gpu, other, *each) for each in (here, there)],
    )


def _filled(cpu: Device, gpu: Device) -> Iterator[TransferExample]:
    """Values of Python's and NumPy's that go to ``gpu``, the default device of some calls."""
    at, eager, dense = gpu.native, core.eager.Tensor, core.DenseTensor()
    x, file = on(gpu), io.BytesIO()
    behind = _dense(x)
    paddle.save(on(cpu), file)
    for name, call, *moved in (
        ("paddle.to_tensor", lambda: paddle.to_tensor(np.ones(3), place=at), (24, (3,))),
        ("paddle.to_tensor", lambda: paddle.to_tensor([1.0, 2.0], place=at), (8, (2,))),
        ("paddle.to_tensor", lambda: paddle.to_tensor(1.0, place=at), (4, ())),
        ("paddle.to_tensor", lambda: paddle.to_tensor(np.ones(3), "float16", at), (6, (3,))),
        ("paddle.tensor", lambda: paddle.tensor([1.0, 2.0], device=gpu.native_name), (8, (2,))),
        ("paddle.Tensor", lambda: paddle.Tensor([1.0, 2.0], device=gpu.native_name), (8, (2,))),
        ("paddle.Tensor", lambda: eager(VALUES, at), (24, (2, 3))),
        ("paddle.Tensor", lambda: eager(value=VALUES, place=at), (24, (2, 3))),
        ("paddle.Tensor", lambda: eager(VALUES), (24, (2, 3))),
        ("paddle.assign", lambda: paddle.assign(VALUES), (24, (2, 3))),
        ("paddle.load", lambda: paddle.load(io.BytesIO(file.getvalue())), (24, (2, 3))),
        ("Tensor.set_value", lambda: x.set_value(VALUES), (24, (2, 3))),
        ("DenseTensor.set", lambda: dense.set(VALUES, at), (24, (2, 3))),
        ("DenseTensor.set", lambda: dense.set([1.0, 2.0], at), (16, (2,))),
        ("DenseTensor._set_element", lambda: behind._set_float_element(2, 9.0), (4, ())),
        ("Tensor.__getitem__", lambda: x[[0, 1]], (16, (2,))),
        ("Tensor.__getitem__", lambda: x[[0] * 70], (560, (70,))),
        ("Tensor.__getitem__", lambda: x[np.array([True, False])], (2, (2,))),
        ("Tensor.__getitem__", lambda: x[[0, 1], np.array([0, 1])], (16, (2,)), (16, (2,))),
        ("Tensor.__setitem__", lambda: x.__setitem__(0, VALUES[0]), (12, (3,))),
    ):
        planned = tuple(PlannedTransfer(name, cpu, gpu, *each) for each in moved)
        yield TransferExample(partial(_called_on, gpu, call), planned)
    # Each number is read twice before the list goes back.
    read = PlannedTransfer("paddle.to_tensor", gpu, cpu, 4, ())
    filled = PlannedTransfer("paddle.to_tensor", cpu, gpu, 8, (2,))
    yield TransferExample(
        lambda: paddle.to_tensor([x[0, 0], x[0, 1]], place=at), (*[read] * 4, filled)
    )


def _nothing(gpu: Device, cpu: Device) -> Iterator[TransferExample]:
    """Work on one device, and numbers, which travel with the call."""
    for device in (gpu, cpu):
        yield TransferExample(partial(_called_on, device, *_at_home(on(device), on(cpu))), ())
    x = on(cpu)
    yield TransferExample(lambda: (x.tolist(), x.cpu(), np.asarray(x), f"{x}"), ())
    yield TransferExample(lambda: core.DenseTensor().set(VALUES, cpu.native), ())


def _at_home(x: Tensor, output: Tensor) -> Iterable[Callable[[], object]]:
    """Calls that move nothing where the device of ``x`` is the default."""
    return (
        lambda: x + x * 2.0 - 1, lambda: x[0:1, 1].reshape([1, 1]).T,
        lambda: [row.sum() for row in x], lambda: x.to(x.place), x.clone,
        lambda: paddle.concat([x, x.detach()]).reshape([-1, 3]).expand([4, 3]),
        lambda: copy.deepcopy(x), lambda: paddle.assign(x), lambda: x[x > 1],
        lambda: paddle.where(x > 1, x, paddle.zeros_like(x)),
        lambda: x.clone().__setitem__(0, 1.0), lambda: x[x[0].astype("int64") % 2],
        lambda: (x.shape, x.dtype, len(x), x.size), lambda: paddle.Tensor(x),
        lambda: paddle.to_tensor(x, place=x.place), lambda: paddle.add(x, x, out=output),
        lambda: core.eager.Tensor().copy_(x), lambda: refused(paddle.isclose, x, VALUES),
        lambda: paddle.full([3], 2.0), lambda: paddle.arange(3), lambda: paddle.rand([2, 3]),
        _train,
    )  # fmt: skip


def _send(x: Tensor, rows: Tensor, count: Tensor) -> object:
    # `paddle.geometric` reads the count by itself.
    return paddle._C_ops.send_u_recv(x, rows, rows, "SUM", count)


def _train() -> None:
    """Two steps of a model on the default device."""
    x = paddle.ones([2, 3])
    net = paddle.nn.Sequential(
        paddle.nn.Linear(3, 4), paddle.nn.Dropout(0.5), paddle.nn.BatchNorm1D(4)
    )
    optimizer = paddle.optimizer.AdamW(parameters=net.parameters())
    for _ in range(2):
        F.mse_loss(net(x), paddle.zeros([2, 4])).backward()
        optimizer.step()
        optimizer.clear_grad()


def _linear(device: Device) -> Any:
    with by_default_on(device):
        return paddle.nn.Linear(3, 2)


def _called_on(device: Device, *calls: Callable[[], object]) -> None:
    with by_default_on(device):
        _one_by_one(calls)


def _one_by_one(calls: Iterable[Callable[[], object]]) -> None:
    for call in calls:
        call()


def _dense(x: Tensor) -> Any:
    return x.value().get_tensor()
