"""What the tracer reports of Paddle's own calls: operation, devices, bytes and shape, by hand."""

from __future__ import annotations

import copy

import numpy as np
import paddle
import pytest
from tracing import CPU, GPU, GPU_1, VALUES, on, recorded, recorded_by

import unidev

F = paddle.nn.functional


@pytest.fixture
def default_device():
    """``paddle.set_device``, undone afterwards."""
    before = paddle.device.get_device()
    yield paddle.set_device
    paddle.set_device(before)


def script():
    """What moves is written down in the test below."""
    x = paddle.to_tensor(VALUES, place=GPU.native)
    total = x.sum()
    for _ in range(2):
        total.item()
    y = x.to(GPU_1.native)
    z = x + y
    print(f"{total} {z.ndim}")  # noqa: T201
    if (z > 3).any():
        z = z.cpu()
    z.numpy()
    return z.clone() * 2


def test_a_script_is_told_to_the_byte_and_in_order(capsys):
    assert recorded_by(script) == [
        ("paddle.to_tensor", "cpu:0", "gpu:0", 24, (2, 3)),
        ("Tensor.item", "gpu:0", "cpu:0", 4, ()),
        ("Tensor.item", "gpu:0", "cpu:0", 4, ()),
        ("Tensor.to", "gpu:0", "gpu:1", 24, (2, 3)),
        ("add of mixed operands", "gpu:0", "gpu:1", 24, (2, 3)),
        ("Tensor.__format__", "gpu:0", "cpu:0", 4, ()),
        ("Tensor.__bool__", "gpu:1", "cpu:0", 1, ()),
        ("Tensor.cpu", "gpu:1", "cpu:0", 24, (2, 3)),
    ]
    assert capsys.readouterr().out == "15.0 2\n"


READS = {
    "item": (lambda x: x.sum().item(), "Tensor.item", 4, ()),
    "item of many": (lambda x: x.item(2), "Tensor.item", 4, ()),
    "item by row and column": (lambda x: x.item(1, 2), "Tensor.item", 4, ()),
    "numpy": (lambda x: x.numpy(), "Tensor.numpy", 24, (2, 3)),
    "tolist": (lambda x: x.tolist(), "Tensor.tolist", 24, (2, 3)),
    "paddle.tolist": (paddle.tolist, "Tensor.tolist", 24, (2, 3)),
    "asarray": (np.asarray, "Tensor.__array__", 24, (2, 3)),
    "a function of NumPy's": (lambda x: np.log1p(x.T.numpy()), "Tensor.numpy", 24, (3, 2)),
    "float": (lambda x: float(x.sum()), "Tensor.__float__", 4, ()),
    "int": (lambda x: int(x[0, 1]), "Tensor.__int__", 4, ()),
    "complex": (lambda x: complex(x.sum()), "Tensor.__complex__", 8, ()),
    "bool": (lambda x: bool(x.sum()), "Tensor.__bool__", 4, ()),
    "if": (lambda x: 1 if x.sum() > 3 else 0, "Tensor.__bool__", 1, ()),
    "not": (lambda x: not x[1, 1], "Tensor.__bool__", 4, ()),
    "index": (lambda x: [0, 1][x[0, 1].astype("int64")], "Tensor.__index__", 8, ()),
    "range": (lambda x: range(x[0, 1].astype("int32")), "Tensor.__index__", 4, ()),
    "f-string": (lambda x: f"{x.sum():.2f}", "Tensor.__format__", 4, ()),
    "slice": (lambda x: x[x[0, 1].astype("int64") :], "Tensor.__getitem__", 8, ()),
    "a number": (lambda x: paddle.full([2], x[0, 1]), "paddle.full", 4, ()),
    "a shape": (lambda x: paddle.tile(x, x[0, 1:].astype("int64")), "Tensor.tile", 16, (2,)),
    "a factor": (lambda x: paddle.scale(x, x.sum()), "Tensor.scale", 4, ()),
    "behind it": (
        lambda x: np.array(x.value().get_tensor()), "DenseTensor.__array__", 24, (2, 3),
    ),
    "an empty one": (lambda x: unidev.zeros((0, 3), device=GPU).numpy(), "Tensor.numpy", 0, (0, 3)),
    "a list of them": (lambda x: [each.item() for each in x[:1, 0]], "Tensor.item", 4, ()),
}  # fmt: skip


@pytest.mark.parametrize("name", READS)
def test_reading_a_value_is_told(name):
    read, operation, nbytes, shape = READS[name]
    assert recorded_by(read, on(GPU)) == [(operation, "gpu:0", "cpu:0", nbytes, shape)]


@pytest.mark.parametrize("show", [print, str, repr, "{}".format])
def test_printing_is_told_whatever_it_reads(show, capsys):
    transfers = recorded_by(show, on(GPU))  # Paddle 3.2 also reads whether there is a sign
    name = "Tensor.__str__" if show in (print, str, repr) else "Tensor.__format__"
    assert transfers[0] == (name, "gpu:0", "cpu:0", 24, (2, 3))
    assert {each[0] for each in transfers} == {name}


def test_each_comparison_of_max_and_in_is_told():
    x = on(GPU, VALUES[0])
    read = ("Tensor.__bool__", "gpu:0", "cpu:0", 1, ())
    assert recorded_by(max, x) == [read] * 2
    assert recorded_by(lambda: 1.0 in x) == [read] * 2


@pytest.mark.filterwarnings("ignore:To copy construct from a tensor")
@pytest.mark.parametrize(
    ("name", "move"),
    [
        ("Tensor.to", lambda x: x.to("sim:1")),
        ("Tensor.to", lambda x: x.to(GPU_1.native)),
        ("Tensor.to", lambda x: x.to(device="sim:1", blocking=True)),
        ("Tensor.to", lambda x: x.to(on(GPU_1))),
        ("Tensor._copy_to", lambda x: x._copy_to(GPU_1.native, True)),
        ("paddle.to_tensor", lambda x: paddle.to_tensor(x, place=GPU_1.native)),
        ("paddle.Tensor", lambda x: paddle.Tensor(x, place=GPU_1.native)),
        ("Tensor.copy_", lambda x: unidev.zeros((2, 3), device=GPU_1).copy_(x, True)),
        ("Tensor.set_value", lambda x: unidev.zeros((2, 3), device=GPU_1).set_value(x)),
    ],
)
def test_moving_is_told(name, move):
    transfers = recorded_by(move, on(GPU))
    assert transfers[-1] == (name, "gpu:0", "gpu:1", 24, (2, 3))
    assert [each[1] for each in transfers[:-1]] in ([], ["cpu:0"])  # what it is moved to is made


def test_what_is_behind_a_tensor_is_told_as_well():
    x, made = on(GPU), paddle.base.core.DenseTensor()
    dense = x.value().get_tensor()
    with recorded() as transfers:
        dense._copy(GPU_1.native)
        made._copy_from(dense, CPU.native)
        assert dense._get_float_element(2) == made._get_float_element(2) == 2.0
        dense._set_float_element(2, 9.0)
    assert transfers == [
        ("DenseTensor._copy", "gpu:0", "gpu:1", 24, (2, 3)),
        ("DenseTensor._copy_from", "gpu:0", "cpu:0", 24, (2, 3)),
        ("DenseTensor._get_element", "gpu:0", "cpu:0", 4, ()),
        ("DenseTensor._set_element", "cpu:0", "gpu:0", 4, ()),
    ]


def test_what_is_cast_on_the_way_moves_as_it_then_is():
    assert recorded_by(lambda: on(GPU).to("cpu", dtype="float64"))[1:] == [
        ("Tensor.to", "gpu:0", "cpu:0", 48, (2, 3))
    ]


def test_parameters_layers_and_files_are_told(tmp_path, default_device):
    default_device("sim:0")
    net, path = paddle.nn.Linear(3, 2), str(tmp_path / "net")
    assert recorded_by(net.weight._copy_to, GPU_1.native, True) == [
        ("Tensor._copy_to", "gpu:0", "gpu:1", 24, (3, 2))
    ]
    assert recorded_by(net.to, "sim:1") == [
        ("Linear.to", "gpu:0", "gpu:1", 24, (3, 2)),
        ("Linear.to", "gpu:0", "gpu:1", 8, (2,)),
    ]
    assert recorded_by(paddle.save, net.state_dict(), path) == [
        ("paddle.save", "gpu:1", "cpu:0", 24, (3, 2)),
        ("paddle.save", "gpu:1", "cpu:0", 8, (2,)),
    ]
    assert sorted(recorded_by(paddle.load, path)) == [
        ("paddle.load", "cpu:0", "gpu:0", 8, (2,)),
        ("paddle.load", "cpu:0", "gpu:0", 24, (3, 2)),
    ]


@pytest.mark.parametrize(
    ("name", "nbytes", "shape", "fill"),
    [
        ("paddle.to_tensor", 24, (3,), lambda x: paddle.to_tensor(np.ones(3), place=GPU.native)),
        ("paddle.to_tensor", 8, (2,), lambda x: paddle.to_tensor([1.0, 2.0], place=GPU.native)),
        ("paddle.tensor", 8, (2,), lambda x: paddle.tensor([1.0, 2.0], device="sim:0")),
        ("paddle.Tensor", 8, (2,), lambda x: paddle.Tensor([1.0, 2.0], device="sim:0")),
        ("paddle.assign", 24, (2, 3), lambda x: paddle.assign(VALUES)),
        ("Tensor.set_value", 24, (2, 3), lambda x: x.set_value(VALUES)),
        ("Tensor.__getitem__", 16, (2,), lambda x: x[[0, 1]]),
        ("Tensor.__getitem__", 2, (2,), lambda x: x[np.array([True, False])]),
        ("Tensor.__setitem__", 12, (3,), lambda x: x.__setitem__(0, VALUES[0])),
        ("add of mixed operands", 24, (2, 3), lambda x: x + VALUES),
        ("sub of mixed operands", 24, (2, 3), lambda x: VALUES - x),
    ],
)
def test_values_of_the_host_that_go_to_a_device_are_told(name, nbytes, shape, fill, default_device):
    default_device("sim:0")
    assert recorded_by(fill, on(GPU)) == [(name, "cpu:0", "gpu:0", nbytes, shape)]


MIXED = {
    "add": (lambda x, y: x + y, 24, (2, 3)),
    "sub": (lambda x, y: x - y, 24, (2, 3)),
    "eq": (lambda x, y: x == y, 24, (2, 3)),
    "multiply": (paddle.multiply, 24, (2, 3)),
    "add_": (lambda x, y: x.add_(y), 24, (2, 3)),
    "maximum": (paddle.maximum, 24, (2, 3)),
    "concat": (lambda x, y: paddle.concat([x, y]), 24, (2, 3)),
    "stack": (lambda x, y: paddle.stack([x, y]), 24, (2, 3)),
    "matmul": (lambda x, y: paddle.matmul(x, y, transpose_y=True), 24, (2, 3)),
    "logical_and": (paddle.logical_and, 24, (2, 3)),
    "isclose": (paddle.isclose, 24, (2, 3)),
    "getitem": (lambda x, y: x[y.astype("bool")], None, (2, 3)),
    "setitem": (lambda x, y: (x.__setitem__(0, y[0]), x)[1], None, None),
    "gather": (lambda x, y: paddle.gather(x, y[0, :2].astype("int32")), None, None),
}


@pytest.mark.parametrize("name", MIXED)
@pytest.mark.parametrize(
    ("here", "there"), [(GPU, GPU_1), (GPU_1, GPU), (GPU, CPU), (CPU, GPU_1)], ids=str
)
def test_operands_that_are_moved_silently_are_told(name, here, there):
    mix, nbytes, shape = MIXED[name]
    x, y = on(here), on(there)
    with recorded() as transfers:
        result = mix(x, y)
    ((operation, source, target, size, dimensions),) = transfers
    assert operation == f"{name} of mixed operands"
    assert target == str(unidev.device_of(result))
    assert source == str(here if target == str(there) else there)
    assert nbytes is None or (size, dimensions) == (nbytes, shape)


def test_of_three_operands_those_are_told_that_are_elsewhere():
    assert recorded_by(paddle.where, on(GPU) > 1, on(CPU), on(GPU_1)) == [
        ("where of mixed operands", "gpu:0", "gpu:1", 6, (2, 3)),
        ("where of mixed operands", "cpu:0", "gpu:1", 24, (2, 3)),
    ]


def test_several_indices_are_brought_together_by_the_first():
    x, rows, columns = on(CPU), on(CPU, np.array([0, 1])), on(GPU, np.array([1, 2]))
    assert recorded_by(lambda: x[rows, columns]) == [
        ("getitem of mixed operands", "gpu:0", "cpu:0", 16, (2,))
    ]


@pytest.mark.filterwarnings("ignore:\\s*Non compatible API")  # of Paddle 3.2 to itself
def test_sparse_tensors_move_with_their_indices():
    x = paddle.sparse.sparse_coo_tensor([[0, 1], [1, 2]], [1.0, 2.0], [2, 3], place=CPU.native)
    y = on(GPU, VALUES.T)
    with recorded() as transfers, pytest.raises(RuntimeError, match="not registered"):
        paddle.sparse.matmul(x, y)  # Paddle looks for the kernel after that
    assert transfers == [("sparse_matmul of mixed operands", "cpu:0", "gpu:0", 32 + 8, (2, 3))]


def step_on_one_device(x):
    net = paddle.nn.Sequential(
        paddle.nn.Linear(3, 4), paddle.nn.Dropout(0.5), paddle.nn.BatchNorm1D(4)
    )
    optimizer = paddle.optimizer.AdamW(parameters=net.parameters())
    for _ in range(2):
        F.mse_loss(net(x), net(x).detach()).backward()
        optimizer.step()
        optimizer.clear_grad()
        optimizer.set_lr(0.01)


@pytest.mark.filterwarnings("ignore:When training, we now always track")
@pytest.mark.parametrize("device", [CPU, GPU, GPU_1], ids=str)
@pytest.mark.parametrize(
    "compute",
    [
        lambda x: x + x * 2.0 - 1,
        lambda x: x[0:1, 1].reshape([1, 1]).T,
        lambda x: [row.sum() for row in x],
        lambda x: paddle.concat([x, x.detach()]).reshape([-1, 3]).expand([4, 3]),
        lambda x: x.to(x.place),
        copy.deepcopy,
        lambda x: paddle.where(x > 1, x, paddle.zeros_like(x)),
        lambda x: x.__setitem__(0, 1.0),
        lambda x: x[x.argmax() // 3],
        lambda x: (x.shape, x.place, x.dtype, len(x), x.size),
        step_on_one_device,
    ],
)
def test_what_stays_on_its_device_is_not_told(device, compute, default_device):
    x = on(device)
    default_device(device.native_name)
    assert recorded_by(compute, x) == []


def test_reading_and_copying_on_the_cpu_is_not_told():
    x = on(CPU)
    with recorded() as transfers:
        assert (x.sum().item(), float(x[0, 1]), x.tolist()) == (15.0, 1.0, VALUES.tolist())
        assert (x.numpy() == x.cpu().clone().numpy()).all()
        assert "2, 3" in f"{x}"
    assert transfers == []


def test_an_optimizer_that_works_elsewhere_is_told(default_device):
    default_device("sim:1")
    net = paddle.nn.Linear(3, 1, bias_attr=False)
    optimizer = paddle.optimizer.SGD(0.1, net.parameters())
    net(on(GPU_1)).sum().backward()
    default_device("sim:0")  # where it makes its learning rate
    assert recorded_by(optimizer.step) == [
        ("sgd_ of mixed operands", "gpu:0", "gpu:1", 4, ()),
    ]
