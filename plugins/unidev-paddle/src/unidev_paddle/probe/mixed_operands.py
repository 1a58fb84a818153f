"""Calls of Paddle's with operands on several devices, and what it moves to compute them."""

from __future__ import annotations

import operator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.contract import PlannedTransfer, TransferExample
from unidev_paddle.framework import paddle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from unidev.contract import Device, Tensor

    Mix = Callable[[Tensor, Tensor], Tensor]

VALUES = np.arange(6, dtype=np.float32).reshape(2, 3)
"""24 bytes."""

_MIXES: Mapping[str, Mix] = {
    # Of two matrices of VALUES, of which one moves.
    "add": operator.add, "sub": operator.sub, "eq": operator.eq, "multiply": paddle.multiply,
    "add_": lambda x, y: x.add_(y), "maximum": paddle.maximum,
    "concat": lambda x, y: paddle.concat([x, y]), "stack": lambda x, y: paddle.stack([x, y]),
    "matmul": lambda x, y: paddle.matmul(x, y, transpose_y=True),
    "isclose": paddle.isclose,
    "greater_than": lambda x, y: paddle.greater_than(y=y, x=x),
    "einsum": lambda x, y: paddle.einsum("ij,ij->i", x, y),
}  # fmt: skip
_MIXES_OF_MASKS: Mapping[str, Mix] = {
    "logical_and": paddle.logical_and, "logical_or": lambda x, y: paddle.logical_or(y=y, x=x),
    "logical_xor_": lambda x, y: x.logical_xor_(y), "getitem": lambda x, y: x[y],
}  # fmt: skip
_OPERATORS = (
    "add", "radd", "sub", "rsub", "mul", "rmul", "div", "rdiv", "truediv", "rtruediv", "floordiv",
    "rfloordiv", "mod", "rmod", "pow", "rpow", "eq", "ne", "lt", "le", "gt", "ge",
)  # fmt: skip


def mixed(gpu: Device, cpu: Device, other: Device | None) -> Iterator[TransferExample]:
    """Operands on ``gpu``, the CPU and another GPU if there is one."""
    pairs = [(gpu, cpu), (cpu, gpu)] + ([(gpu, other)] if other is not None else [])
    for here, there in pairs:
        for name, mix in _MIXES.items():
            yield _mix(name, mix, here, there, VALUES + 1)
        for name, mix in _MIXES_OF_MASKS.items():
            yield _mix(name, mix, here, there, VALUES > 1)
    to_gpu = partial(_example, source=cpu, target=gpu)
    x, y, rows = on(gpu, VALUES + 1), on(cpu, VALUES + 1), on(cpu, np.array([1, 0]))
    for name in _OPERATORS:
        spelled, operand = name.removeprefix("r"), (24, (2, 3))
        yield to_gpu(partial(_by_operator, name, x, y, VALUES + 1), spelled, operand, operand)
    coo = paddle.sparse.sparse_coo_tensor([[0, 1], [1, 2]], [1.0, 2.0], [2, 3], place=cpu.native)
    csr = paddle.sparse.sparse_csr_tensor([0, 1, 2], [1, 0], [1.0, 2.0], [2, 3], place=cpu.native)
    for name, call, *moved in (
        ("add", lambda: VALUES + x, (24, (2, 3))),
        ("sub", lambda: VALUES - x, (24, (2, 3))),
        ("linear", lambda: paddle.nn.functional.linear(y, x.T), (24, (2, 3))),
        ("matmul", lambda: x @ VALUES.T, (24, (3, 2))),
        ("matmul", lambda: x.__rmatmul__(y.T), (24, (3, 2))),
        ("getitem", lambda: x[rows], (16, (2,))),
        ("getitem", lambda: x[rows, rows], (16, (2,)), (16, (2,))),
        ("setitem", lambda: x.__setitem__(rows, 2.0), (16, (2,))),
        ("setitem", lambda: x.__setitem__(0, y[0]), (12, (3,))),
        ("gather", lambda: paddle.gather(x, rows), (16, (2,))),
        ("where", lambda: paddle.where(y > 1, x, y), (6, (2, 3)), (24, (2, 3))),
        # The transfer comes before the error.
        ("add", lambda: refused(operator.add, x, y.T), (24, (3, 2))),
        # Simulated GPUs have no sparse kernels; the tracer counts indices and values.
        ("sparse_matmul", lambda: refused(paddle.sparse.matmul, coo, x.T), (32 + 8, (2, 3))),
        ("sparse_matmul", lambda: refused(paddle.sparse.matmul, csr, x.T), (40 + 8, (2, 3))),
        # Sizes and seeds are read where they are.
        ("nearest_interp", lambda: _resized(x, on(cpu, np.array([4, 4], "int32")))),
        ("dropout", lambda: _dropout(x, on(cpu, np.int32(3)))),
        ("nearest_interp", lambda: _nearest(x, on(cpu, np.full(2, 2, "float32")))),
    ):  # fmt: skip
        yield to_gpu(call, name, *moved)
    # A list is computed where its first tensor is; of several GPUs, the last decides.
    yield _example(
        lambda: paddle.concat([y[:1]] * 70 + [x]), "concat", (24, (2, 3)), source=gpu, target=cpu
    )
    yield _example(lambda: y[rows, x[0, :2].astype("int64") % 3], "getitem", (16, (2,)),
                   source=gpu, target=cpu)  # fmt: skip
    yield from _optimizers(gpu, cpu)
    if other is not None:
        third = on(other)
        yield TransferExample(lambda: paddle.where(x > 1, y, third), (
            PlannedTransfer("where of mixed operands", gpu, other, 6, (2, 3)),
            PlannedTransfer("where of mixed operands", cpu, other, 24, (2, 3)),
        ))  # fmt: skip


def _mix(name: str, mix: Mix, here: Device, there: Device, values: Any) -> TransferExample:
    """The operand moves that is not where the result is."""
    result = mix(on(here, values), on(there, values))
    # Of places, only these compare by index.
    target = next(each for each in (here, there) if str(each.native) == str(result.place))
    x, y = on(here, values), on(there, values)
    return _example(
        partial(mix, x, y), name, (values.nbytes, (2, 3)),
        source=there if target is here else here, target=target,
    )  # fmt: skip


def _optimizers(gpu: Device, cpu: Device) -> Iterator[TransferExample]:
    """Models on ``gpu``, whose optimizers make their state on the CPU."""
    kinds = paddle.optimizer
    rate, moment = (4, ()), (12, (3, 1))
    for kind, name, *moved in (
        (kinds.SGD, "sgd_", rate),
        (kinds.Momentum, "momentum_", moment, rate),
        # Powers of beta stay on the CPU.
        (kinds.Adam, "adam_", rate, moment, moment),
        (kinds.AdamW, "adamw_", rate, moment, moment),
        (kinds.Lamb, "lamb_", rate, moment, moment),
    ):
        with by_default_on(gpu):
            net = paddle.nn.Linear(3, 1, bias_attr=False)
            net(on(gpu)).sum().backward()
        optimizer = kind(0.1, parameters=net.parameters())
        yield _example(partial(_step, optimizer, cpu), name, *moved, source=cpu, target=gpu)
        yield _example(partial(_step, optimizer, cpu), name, rate, source=cpu, target=gpu)


def _step(optimizer: Any, device: Device) -> None:
    with by_default_on(device):
        optimizer.step()


def _by_operator(name: str, x: Tensor, *others: Any) -> None:
    for y in others:
        getattr(x, f"__{name}__")(y)


def _dropout(x: Tensor, seed: Tensor) -> object:
    return paddle._C_ops.dropout(x, seed, 0.5, False, "upscale_in_train", 0, False)


def _resized(x: Tensor, size: Tensor) -> object:
    return paddle.nn.functional.interpolate(x.reshape([1, 1, 2, 3]), size, mode="nearest")


def _nearest(x: Tensor, scale: Tensor) -> object:
    sizes = (-1, -1, -1)
    return paddle._C_ops.nearest_interp(
        x.reshape([1, 1, 2, 3]), None, None, scale, "NCHW", *sizes, [], "nearest", False, 0
    )


def _example(
    call: Callable[[], object], name: str, *moved: tuple[int, Any], source: Device, target: Device
) -> TransferExample:
    planned = (PlannedTransfer(f"{name} of mixed operands", source, target, *e) for e in moved)
    return TransferExample(call, tuple(planned))


def refused(call: Callable[..., object], *arguments: Any) -> None:
    """Call a function that may raise an error of Paddle's."""
    try:
        call(*arguments)
    except (ValueError, RuntimeError):
        return


def on(device: Device, values: Any = VALUES) -> Tensor:
    """A tensor on ``device``."""
    return paddle.to_tensor(values, place=device.native)


@contextmanager
def by_default_on(device: Device) -> Iterator[None]:
    """A block in which new tensors are made on ``device``."""
    before = paddle.device.get_device()
    paddle.device.set_device(device.native_name)
    try:
        yield
    finally:
        paddle.device.set_device(before)
