"""``unidev.nn`` on MXNet: what the layers are to Gluon, modes, compiled nets, threads."""

import mxnet as mx
import numpy as np
import pytest
from mxnet import gluon
from turns import in_threads

import unidev
from unidev import UnsupportedOperation, nn
from unidev.nn import functional

IMAGES = np.linspace(-2, 2, 2 * 3 * 6 * 6, dtype="float32").reshape(2, 3, 6, 6)


def make_net(rate=0.5):
    unidev.seed(5)
    return nn.sequential(
        nn.conv2d(3, 4, 3, padding=1), nn.batch_norm(4), nn.relu(), nn.max_pool2d(2),
        nn.flatten(), nn.dense(36, 8), nn.tanh(), nn.dropout(rate), nn.dense(8, 2),
    )  # fmt: skip


def test_layers_are_gluons_own_and_draw_nothing_of_its_generator():
    mx.random.seed(3)
    expected = mx.nd.random.uniform(shape=(2,)).asnumpy().tolist()
    mx.random.seed(3)
    net = make_net()
    assert mx.nd.random.uniform(shape=(2,)).asnumpy().tolist() == expected
    assert isinstance(net, gluon.nn.HybridSequential)
    kinds = ["Conv2D", "BatchNorm", "Activation", "MaxPool2D", "Flatten", "Dense"]
    for layer, kind in zip(net, kinds, strict=False):
        assert isinstance(layer, getattr(gluon.nn, kind))
    assert all(type(x) is mx.np.ndarray for x in unidev.parameters(net).values())
    assert not mx.util.is_np_array()


def test_a_net_computes_in_any_thread_whatever_its_flags():
    net, found = nn.eval_mode(make_net()), []
    expected = unidev.to_numpy(net(unidev.array(IMAGES)))

    def work(flag):
        with mx.util.np_shape(flag), mx.util.np_array(flag):
            found.append(unidev.to_numpy(net(unidev.array(IMAGES))))
            found.append((mx.util.is_np_shape(), mx.util.is_np_array()))

    for flag in (False, True):
        in_threads(work, [flag])
        assert found.pop() == (flag, flag)
        assert found.pop().tobytes() == expected.tobytes()


@pytest.mark.parametrize("static", [False, True])
def test_a_compiled_net_gives_the_same_trains_the_same_and_changes_its_mode(static):
    def run(compiled):
        net, x = make_net(rate=0.0), unidev.array(IMAGES)
        if compiled:
            net.hybridize(static_alloc=static, static_shape=static)
        for _ in range(3):
            loss, slopes = unidev.value_and_grad(lambda net: (net(x) ** 2).sum())(net)
            unidev.sgd(net, slopes, lr=0.05)
        inferred = nn.eval_mode(net)(x)
        trained = nn.train_mode(net)(x)
        return [unidev.to_numpy(y) for y in (loss, inferred, trained)]

    for a, b in zip(run(compiled=True), run(compiled=False), strict=True):
        assert np.allclose(a, b, rtol=1e-5, atol=1e-6)


def test_a_compiled_residual_has_its_shortcut():
    block = nn.residual(nn.conv2d(3, 4, 3, padding=1), shortcut=nn.conv2d(3, 4, 1))
    expected = unidev.to_numpy(block(unidev.array(IMAGES)))
    block.hybridize()
    assert np.allclose(unidev.to_numpy(block(unidev.array(IMAGES))), expected, atol=1e-6)


def test_a_compiled_net_drops_while_it_trains_and_not_afterwards():
    net = nn.sequential(nn.dropout(0.5))
    net.hybridize()
    x = unidev.ones((40, 50))
    assert 0.4 < float((net(x) == 0).mean()) < 0.6
    assert unidev.to_numpy(nn.eval_mode(net)(x)).tobytes() == unidev.to_numpy(x).tobytes()
    assert 0.4 < float((nn.train_mode(net)(x) == 0).mean()) < 0.6


def test_blocks_of_gluons_own_have_no_mode_and_say_so_before_anything_changes():
    dropout = nn.dropout(0.5)
    mixed = nn.sequential(dropout, gluon.nn.Dropout(0.5))
    with pytest.raises(UnsupportedOperation, match=r"autograd\.predict_mode"):
        nn.eval_mode(mixed)
    assert float((dropout(unidev.ones(1000)) == 0).sum()) > 0


def test_a_block_that_cannot_be_compiled_makes_a_plain_sequential():
    class Double(gluon.Block):
        def forward(self, x):
            return x * 2

    net = nn.sequential(nn.dense(2, 2, bias=False), Double())
    assert type(net).__mro__.index(gluon.nn.Sequential)
    assert not isinstance(net, gluon.nn.HybridBlock)
    assert net(unidev.ones((1, 2))).shape == (1, 2)


def test_slices_of_a_net_are_nets_that_keep_their_mode():
    net = nn.eval_mode(make_net())
    x = unidev.array(IMAGES)
    expected = unidev.to_numpy(net(x)).tobytes()
    assert unidev.to_numpy(net[4:](net[:4](x))).tobytes() == expected


def test_a_checkpoint_has_portable_names_only_for_what_unidev_made():
    stored = unidev.active_backend().models.stored
    statistics = ["running_mean", "running_var"]
    assert list(stored(nn.batch_norm(2))) == ["weight", "bias", *statistics]
    own = gluon.nn.BatchNorm(in_channels=2)
    own.initialize()
    net = nn.sequential(own, nn.batch_norm(2))
    names = ["gamma", "beta", "weight", "bias"]
    expected = [f"{i}.{name}" for i in (0, 1) for name in (*names[2 * i : 2 * i + 2], *statistics)]
    assert list(stored(net)) == expected


@pytest.mark.parametrize("compiled", [False, True])
def test_weights_that_onednn_has_laid_out_for_itself_are_read_as_they_are(compiled):
    unidev.seed(2)
    net = nn.eval_mode(nn.sequential(nn.conv2d(16, 32, 3), nn.conv2d(32, 16, 3)))
    net.hybridize(compiled, static_alloc=True, static_shape=True)
    models = unidev.active_backend().models
    before = [np.array(models.read(x)) for x in unidev.parameters(net).values()]
    for _ in range(3):
        net(unidev.ones((4, 16, 12, 12))).wait_to_read()
    after = [models.read(x) for x in unidev.parameters(net).values()]
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))


def test_functions_take_legacy_arrays_and_give_numpy_ones():
    x = mx.np.ones((2, 3)).as_nd_ndarray()
    y = functional.linear(x, mx.np.ones((4, 3)))
    assert type(y) is mx.np.ndarray
    assert y.asnumpy().tolist() == [[3.0] * 4] * 2
    assert functional.mean_squared_error(x, x).shape == ()
