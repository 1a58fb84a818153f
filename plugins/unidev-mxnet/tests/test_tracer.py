"""What MXNet's own calls move, as the tracer reports it: all, once, in order, nothing else."""

import copy
import pickle

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon
from traced import (
    HERE,
    MARKS,
    THERE,
    legacy,
    one,
    recorded,
    square,
)

import unidev
from unidev import TransferForbiddenError

pytestmark = MARKS


# -- a script whose transfers are known ------------------------------------------------------------


def script():
    x = mx.np.array([[1.0, 2.0], [3.0, 4.0]], ctx=HERE)
    w = mx.np.ones((2, 2), ctx=HERE)
    y = mx.np.dot(x, w) * 2
    z = y.as_in_ctx(THERE)
    total = 0.0
    for row in z:
        total += row.sum().item()
    if (z > 3).any():
        z += x
    print(f"{total:.1f}", z)  # noqa: T201  a way to read
    return z.asnumpy()


SCRIPT = [
    ("mx.np.array", "cpu:0", "gpu:0", 16, (2, 2)),
    ("ndarray.as_in_ctx", "gpu:0", "gpu:1", 16, (2, 2)),
    ("ndarray.item", "gpu:1", "cpu:0", 4, ()),
    ("ndarray.item", "gpu:1", "cpu:0", 4, ()),
    ("ndarray.__bool__", "gpu:1", "cpu:0", 1, ()),
    ("add of mixed operands", "gpu:0", "gpu:1", 16, (2, 2)),
    ("ndarray.__str__", "gpu:1", "cpu:0", 16, (2, 2)),
    ("ndarray.asnumpy", "gpu:1", "cpu:0", 16, (2, 2)),
]


def test_a_script_reports_exactly_what_it_moves_in_order(capsys):
    assert recorded(script) == SCRIPT
    assert capsys.readouterr().out.startswith("40.0 [[ 7.  8.]")


def test_a_trace_has_each_of_them_by_its_line():
    with unidev.trace_transfers() as trace:
        script()
    assert [
        (each.operation, str(each.source), str(each.target), each.nbytes, each.shape)
        for each in trace.transfers
    ] == SCRIPT
    sources = [each.line.source for each in trace.transfers]
    assert sources[1:4] == ["z = y.as_in_ctx(THERE)"] + ["total += row.sum().item()"] * 2


@pytest.mark.parametrize("read", [lambda x: x.asnumpy(), lambda x: x.asscalar()])
def test_the_guard_stops_a_loop_that_logs_at_the_first_read(read):
    losses = [mx.nd.array([value], ctx=HERE) for value in (3.0, 2.0, 1.0)]
    logged = []

    def log():
        for loss in losses:
            logged.append(read(loss * 0.5))  # noqa: PERF401  it is to be stopped halfway

    with unidev.transfer_guard("forbid"), pytest.raises(TransferForbiddenError) as caught:
        log()
    assert logged == []
    assert "shape (1,), 4 bytes, from gpu:0 to cpu:0" in str(caught.value)


# -- reading ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operation", "read"),
    [
        ("ndarray.asnumpy", lambda x: x.asnumpy()),
        ("ndarray.item", lambda x: x.item()),
        ("ndarray.item", lambda x: x.item(0)),
        ("ndarray.tolist", lambda x: x.tolist()),
        ("ndarray.__bool__", bool),
        ("ndarray.__bool__", lambda x: 1 if x else 0),
        ("ndarray.__bool__", lambda x: not x),
        ("ndarray.__int__", int),
        ("ndarray.__float__", float),
        ("ndarray.__repr__", repr),
        ("ndarray.__str__", str),
        ("ndarray.__str__", lambda x: print(x, end="")),  # noqa: T201
        ("ndarray.__format__", lambda x: f"{x}"),
        ("ndarray.__format__", lambda x: f"{x:.3f}"),
        ("pickle", pickle.dumps),
        ("copy.deepcopy", copy.deepcopy),
    ],
)
def test_every_way_to_read_an_array_is_reported_once(operation, read):
    x = one()
    assert recorded(lambda: read(x)) == [(operation, "gpu:0", "cpu:0", 4, ())]


@pytest.mark.parametrize(
    ("operation", "read"),
    [
        ("NDArray.asnumpy", lambda x: x.asnumpy()),
        ("NDArray.asscalar", lambda x: x.asscalar()),
        ("NDArray.__bool__", bool),
        ("NDArray.__repr__", str),
        ("NDArray.__repr__", lambda x: f"{x}"),
        ("pickle", pickle.dumps),
        ("copy.deepcopy", copy.deepcopy),
    ],
)
def test_every_way_to_read_a_legacy_array_is_reported_once(operation, read):
    x = mx.nd.array([3.0], ctx=THERE, dtype="float64")
    assert recorded(lambda: read(x)) == [(operation, "gpu:1", "cpu:0", 8, (1,))]


def test_a_comparison_in_a_condition_reads_one_bool():
    x = one()

    def compare():
        return 1 if x > 2 else 0

    assert recorded(compare) == [("ndarray.__bool__", "gpu:0", "cpu:0", 1, ())]


def test_iteration_reads_nothing_until_an_element_is_read():
    x = mx.np.array([1.0, 2.0, 3.0], ctx=HERE)
    assert recorded(lambda: list(x)) == []
    assert (
        recorded(lambda: [float(each) for each in x])
        == [("ndarray.__float__", "gpu:0", "cpu:0", 4, ())] * 3
    )


def test_an_index_that_is_an_array_is_read_or_brought_along():
    x, row = square(), mx.np.array(1, ctx=HERE, dtype="int32")
    rows = mx.np.array([0, 1], ctx=THERE, dtype="int32")
    assert recorded(lambda: x[row]) == [("ndarray.__getitem__", "gpu:0", "cpu:0", 4, ())]
    # MXNet copies the rows, and the other dimension's zeros that it has made beside them.
    assert recorded(lambda: x[rows]) == [("ndarray.__getitem__", "gpu:1", "gpu:0", 8, (2,))] * 2
    assert recorded(lambda: x[x > 1]) == []


def test_numpys_functions_that_fall_back_read_what_they_are_given():
    x = square()
    expected = [("numpy.allclose", "gpu:0", "cpu:0", 16, (2, 2))] * 2
    assert recorded(lambda: np.allclose(x, x)) == expected
    assert recorded(lambda: np.mean(x)) == []


def test_saving_reads_each_array(tmp_path):
    arrays = [legacy(), legacy(THERE), legacy(mx.cpu())]
    assert recorded(lambda: mx.nd.save(str(tmp_path / "x"), arrays)) == [
        ("mx.nd.save", "gpu:0", "cpu:0", 16, (2, 2)),
        ("mx.nd.save", "gpu:1", "cpu:0", 16, (2, 2)),
    ]


def test_a_metric_reads_labels_and_predictions():
    labels, scores = mx.nd.array([1, 0], ctx=HERE), mx.nd.array([[0.1, 0.9], [0.8, 0.2]], ctx=HERE)
    metric = mx.metric.Accuracy()
    assert recorded(lambda: metric.update([labels], [scores])) == [
        ("Accuracy.update", "gpu:0", "cpu:0", 8, (2,)),
        ("Accuracy.update", "gpu:0", "cpu:0", 8, (2,)),
    ]
    assert metric.get()[1] == 1.0


# -- moving ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operation", "move"),
    [
        ("ndarray.copyto", lambda x: x.copyto(THERE)),
        ("ndarray.copyto", lambda x: x.copyto(mx.np.empty((2, 2), ctx=THERE))),
        ("ndarray.as_in_ctx", lambda x: x.as_in_ctx(THERE)),
        ("ndarray.as_in_context", lambda x: x.as_in_context(THERE)),
        ("mx.np.array", lambda x: mx.np.array(x, ctx=THERE)),
        ("NDArray.copyto", lambda x: x.as_nd_ndarray().copyto(THERE)),
        ("NDArray.copyto", lambda x: x.as_nd_ndarray().copyto(mx.nd.empty((2, 2), THERE))),
        ("NDArray.as_in_context", lambda x: x.as_nd_ndarray().as_in_context(THERE)),
        ("mx.nd.array", lambda x: mx.nd.array(x.as_nd_ndarray(), ctx=THERE)),
    ],
)
def test_every_way_to_move_an_array_is_reported_once(operation, move):
    x = square()
    assert recorded(lambda: move(x)) == [(operation, "gpu:0", "gpu:1", 16, (2, 2))]


def test_assigning_an_array_of_elsewhere_moves_it():
    x, y = square(), square(THERE)
    assert recorded(lambda: x.__setitem__(slice(None), y)) == [
        ("ndarray.__setitem__", "gpu:1", "gpu:0", 16, (2, 2))
    ]
    assert recorded(lambda: x.__setitem__(0, y[1])) == [
        ("ndarray.__setitem__", "gpu:1", "gpu:0", 8, (2,))
    ]
    assert x.asnumpy().tolist() == [[3, 4], [3, 4]]


def test_values_of_the_host_are_moved_to_where_they_are_put():
    x, values = square(), np.ones((2, 2), "float32")
    sent = [("cpu:0", "gpu:0", 16, (2, 2))]
    for operation, put in {
        "mx.np.array": lambda: mx.np.array(values, ctx=HERE),
        "mx.nd.array": lambda: mx.nd.array(values, ctx=HERE),
        "ndarray.__setitem__": lambda: x.__setitem__(slice(None), values),
        "ndarray.as_in_ctx": lambda: mx.np.ones((2, 2), ctx=mx.cpu()).as_in_ctx(HERE),
    }.items():
        assert [each[1:] for each in recorded(put)] == sent
        assert recorded(put)[0][0] == operation


def test_a_batch_is_split_and_sent():
    batch = mx.np.ones((4, 2), ctx=mx.cpu())
    assert recorded(lambda: gluon.utils.split_and_load(batch, [HERE, THERE])) == [
        ("mx.gluon.utils.split_and_load", "cpu:0", "gpu:0", 16, (2, 2)),
        ("mx.gluon.utils.split_and_load", "cpu:0", "gpu:1", 16, (2, 2)),
    ]


def test_a_net_is_initialized_on_the_host_and_sent():
    net = gluon.nn.Dense(3, in_units=2)
    assert recorded(lambda: net.initialize(ctx=HERE)) == [
        ("Dense.initialize", "cpu:0", "gpu:0", 24, (3, 2)),
        ("Dense.initialize", "cpu:0", "gpu:0", 12, (3,)),
    ]


def test_a_state_that_was_loaded_follows_the_weights_at_the_next_step(tmp_path):
    weight = gluon.Parameter("weight", shape=(2, 2))
    weight.initialize(ctx=HERE)
    trainer = gluon.Trainer([weight], "sgd", {"momentum": 0.9})
    file = str(tmp_path / "states")

    def step():
        with autograd.record():
            loss = weight.data().sum()
        loss.backward()
        trainer.step(1)

    assert recorded(step) == []
    assert recorded(lambda: trainer.save_states(file)) == [
        ("Trainer.save_states", "gpu:0", "cpu:0", 16, (2, 2))
    ]
    assert recorded(lambda: trainer.load_states(file)) == []
    assert recorded(step) == [("Trainer.step", "cpu:0", "gpu:0", 16, (2, 2))]
