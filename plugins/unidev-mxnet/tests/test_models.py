"""Gluon's models: each kind of parameter and block, and what is refused."""

import copy
import dis

import mxnet as mx
import numpy as np
import pytest
from gluon_models import arrays_of, make_net, make_trainer, numpy_semantics, output, train
from mxnet import autograd, gluon
from mxnet.gluon import nn

import unidev
from unidev import UnsupportedOperation
from unidev_mxnet.models import optimizers as trainers
from unidev_mxnet.models import swap

GPU1 = mx.cpu(2)  # as it is simulated


@pytest.mark.parametrize(
    "exchange", [swap.exchange_arrays, swap.exchange_parameters, trainers.exchange_trainers]
)
def test_python_lets_no_interrupt_into_an_exchange(exchange):
    """Handlers of signals run in calls and when jumping back (Python 3.11 and later)."""
    names = [instruction.opname for instruction in dis.get_instructions(exchange)]
    first = names.index("STORE_ATTR")
    assert not [name for name in names[first:] if name.startswith(("CALL", "JUMP_BACK", "FOR"))]


# -- placing ------------------------------------------------------------------------------------


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("hybrid", [False, True])
def test_a_net_moves_with_all_that_hangs_on_it_and_computes_the_same_bits(legacy, hybrid):
    net = make_net(legacy=legacy)
    if hybrid:
        net.hybridize()
    x = mx.nd.ones((2, 4)) if legacy else mx.np.ones((2, 4))
    shapes, arrays = numpy_semantics() if not legacy else (mx.util.np_shape(False),) * 2
    with shapes, arrays:
        before = net(x).asnumpy()
        parameters = list(net.collect_params().values())
        held = arrays_of(net)
        assert unidev.place(net, "gpu:1") is net
        assert all(a is b for a, b in zip(held, arrays_of(net), strict=True))
        assert list(net.collect_params().values()) == parameters
        assert {x.ctx for x in held} == {GPU1}
        assert {str(context) for p in parameters for context in p.list_ctx()} == {str(GPU1)}
        assert net(x.copyto(GPU1)).asnumpy().tobytes() == before.tobytes()
        with pytest.raises((RuntimeError, ValueError), match="context"):
            net(x).wait_to_read()  # Gluon itself refuses what is elsewhere
    assert net[0].weight is net[3].weight
    assert net[2].weight.grad_req == "null"
    assert str(unidev.device_of(net)) == "gpu:1"


def test_parameters_have_gluons_structural_names_and_buffers_are_none():
    net = make_net()
    assert list(unidev.parameters(net)) == [
        "0.weight", "0.bias", "1.gamma", "1.beta", "2.weight", "2.bias", "4.weight", "4.bias",
    ]  # fmt: skip
    assert unidev.parameters(net)["0.weight"] is net[0].weight.data()
    assert set(net._collect_params_with_prefix()) - set(unidev.parameters(net)) == {
        "1.running_mean", "1.running_var", "3.weight", "3.bias",
    }  # fmt: skip


def test_a_parameter_that_is_no_attribute_and_a_constant_move_too():
    class Mine(gluon.Block):
        def __init__(self):
            super().__init__(prefix="mine_")
            self.params.get("hidden", shape=(2,), init="ones")
            self.constant = self.params.get_constant("constant", mx.nd.array([3.0, 4.0]))

    net = Mine()
    net.initialize()
    assert list(unidev.parameters(net)) == ["hidden"]
    unidev.place(net, "gpu:1")
    assert {x.ctx for x in arrays_of(net)} == {GPU1}
    assert net.constant.data().asnumpy().tolist() == [3, 4]
    assert set(unidev.active_backend().models.stored(net)) == {"hidden", "constant"}


def test_a_single_parameter_and_a_dict_of_them_are_placed_as_models_are():
    net = make_net()
    unidev.place(net[4].weight, "gpu:1")
    assert net[4].weight.list_ctx() == [GPU1]
    assert net[4].bias.list_ctx() == [mx.cpu()]
    unidev.place(net.collect_params(), "gpu:1")
    assert {x.ctx for x in arrays_of(net)} == {GPU1}


def test_a_net_that_was_never_initialized_is_refused_with_the_call_that_helps():
    net = nn.Dense(3, in_units=2)
    with pytest.raises(UnsupportedOperation, match=r"net\.initialize\(ctx=device\.native\)"):
        unidev.place(net, "gpu:1")
    net.initialize(ctx=unidev.gpu(1).native)
    assert str(unidev.device_of(net)) == "gpu:1"


def test_a_sparse_gradient_moves_and_is_trained_on():
    def run(move):
        layer = nn.Embedding(5, 2, sparse_grad=True, weight_initializer=mx.init.One())
        layer.initialize()
        trainer = gluon.Trainer(layer.collect_params(), "sgd", {"momentum": 0.5})
        context = mx.cpu()
        for step in range(4):
            if step == 2 and move:
                unidev.place(layer, "gpu:1", optimizer=trainer)
                context = GPU1
                assert layer.weight.grad().stype == "row_sparse"
            with autograd.record():
                loss = (layer(mx.nd.array([1, 3], ctx=context)) ** 2).sum()
            loss.backward()
            trainer.step(10)
        return layer.weight.data().asnumpy().tolist()

    assert run(move=True) == run(move=False)


def test_a_graph_with_static_memory_computes_where_it_was_placed_and_gives_the_old_up():
    def run(move):
        net = make_net()
        net.hybridize(static_alloc=True, static_shape=True)
        trainer = make_trainer(net)
        losses = train(net, trainer, mx.cpu())
        if move:
            unidev.place(net, "gpu:1", optimizer=trainer)
            assert net._cached_op is None
        return losses + train(net, trainer, GPU1 if move else mx.cpu())

    assert run(move=True) == run(move=False)


@pytest.mark.filterwarnings("ignore:Cannot decide type:UserWarning")  # Gluon's, of any import
def test_an_imported_graph_moves(tmp_path):
    net = make_net(legacy=True)
    net.hybridize()
    x = mx.nd.ones((2, 4))
    expected = net(x).asnumpy().tobytes()
    net.export(str(tmp_path / "net"))
    files = str(tmp_path / "net-symbol.json"), ["data"], str(tmp_path / "net-0000.params")
    imported = gluon.SymbolBlock.imports(*files, ctx=mx.cpu())
    assert imported(x).asnumpy().tobytes() == expected
    unidev.place(imported, "gpu:1")
    assert imported(x.copyto(GPU1)).ctx == GPU1
    assert imported(x.copyto(GPU1)).asnumpy().tobytes() == expected


def test_what_cannot_be_moved_is_refused_in_words():
    spread = nn.Dense(2, in_units=2)
    spread.initialize(ctx=[mx.cpu(1), mx.cpu(2)])
    sparse = nn.Block(prefix="b_")
    sparse.weight = sparse.params.get("weight", shape=(4, 2), stype="row_sparse", init="zeros")
    sparse.initialize()
    symbol = mx.sym.var("x") * 2
    for model, words in (
        (spread, "several devices"), (sparse, "kvstore"), (symbol, "SymbolBlock"),
    ):  # fmt: skip
        with pytest.raises(UnsupportedOperation, match=words):
            unidev.place(model, "gpu:0")
    assert spread.weight.list_ctx() == [mx.cpu(1), mx.cpu(2)]


def test_a_graph_that_a_backend_of_mxnets_has_rewritten_moves():
    net = make_net(legacy=True)
    x = mx.nd.ones((2, 4))
    net.optimize_for(x, backend="MKLDNN")
    expected = net(x).asnumpy().tobytes()
    unidev.place(net, "gpu:1")
    assert net(x.copyto(GPU1)).ctx == GPU1
    assert net(x.copyto(GPU1)).asnumpy().tobytes() == expected


# -- copies and files ---------------------------------------------------------------------------


def test_a_deep_copy_which_mxnet_leaves_in_two_minds_is_placed_whole():
    net = make_net()
    unidev.place(net, "gpu:1")
    copied = copy.deepcopy(net)
    weight = copied[4].weight
    assert weight.data().ctx == mx.cpu()  # mx.np arrays are copied to the current context
    assert weight.list_ctx() == [GPU1]  # and the note of where they are as it stands
    for device in (unidev.cpu(), unidev.gpu(0)):
        unidev.place(copied, device)
        assert {x.ctx for x in arrays_of(copied)} == {device.native}
        assert output(copied, device.native) == output(net, GPU1)
    assert str(unidev.device_of(net)) == "gpu:1"


def test_gluons_own_files_are_written_and_read_after_a_move(tmp_path):
    net, other = make_net(), make_net()
    unidev.place(net, "gpu:1")
    train(net, make_trainer(net), GPU1)
    shapes, arrays = numpy_semantics()
    with shapes, arrays:
        net.save_parameters(str(tmp_path / "net.params"))
        unidev.place(other, "gpu:0")
        other.load_parameters(str(tmp_path / "net.params"), ctx=unidev.gpu(0).native)
    assert output(other, mx.cpu(1)) == output(net, GPU1)


def test_reading_takes_no_copy_and_writing_reaches_a_gpu():
    models = unidev.active_backend().models
    net = make_net()
    weight = net[4].weight.data()
    assert np.shares_memory(models.read(weight), models.read(weight))
    unidev.place(net, "gpu:1")
    values = np.arange(12, dtype="float32").reshape(4, 3).T
    with autograd.record():
        models.write(weight, values)
    assert weight.asnumpy().tolist() == values.tolist()
    half = mx.nd.ones((2,)).astype(np.dtype([("bfloat16", np.uint16)]))
    assert models.read(half).tolist() == [0x3F80, 0x3F80]
    models.write(half, np.array([0x4000, 0x3F80], "uint16"))
    assert half.astype("float32").asnumpy().tolist() == [2, 1]
