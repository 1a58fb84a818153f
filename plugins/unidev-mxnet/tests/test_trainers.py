"""Gluon's Trainers: they follow the parameters of a model that is placed."""

import mxnet as mx
import pytest
from gluon_models import arrays_of, make_net, make_trainer, train
from mxnet import gluon
from mxnet.gluon import nn

import unidev
from unidev import OutOfDeviceMemoryError, UnsupportedOperation

GPU1 = mx.cpu(2)  # as it is simulated


OPTIMIZERS = ["sgd", "adam", "nag", "rmsprop", "ftml", "lamb", "dcasgd", "adagrad"]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("given", [True, False])
def test_a_trainer_made_before_trains_on_as_if_nothing_had_moved(optimizer, given):
    def run(moves):
        net = make_net()
        trainer = make_trainer(net, optimizer)
        losses = train(net, trainer, mx.cpu())
        for device in moves:
            if given:
                assert unidev.place(net, device, optimizer=trainer) == (net, trainer)
            else:
                unidev.place(net, device)
            losses += train(net, trainer, device.native)
        return losses

    here = unidev.cpu()
    assert run([unidev.gpu(1), unidev.gpu(0), here]) == run([here, here, here])


def test_a_trainer_of_two_nets_moves_with_the_second():
    encoder, decoder = make_net(), nn.Dense(2, in_units=3, prefix="decoder_")
    decoder.initialize()
    both = [*encoder.collect_params().values(), *decoder.collect_params().values()]
    trainer = gluon.Trainer(both, "sgd", {"momentum": 0.9})
    with pytest.raises(UnsupportedOperation, match=r"decoder_weight.*place the model"):
        unidev.place(encoder, "gpu:1", optimizer=trainer)
    assert {x.ctx for x in arrays_of(encoder)} == {mx.cpu()}
    unidev.place(encoder, "gpu:1")
    assert trainer._contexts == [mx.cpu()]
    unidev.place(decoder, "gpu:1", optimizer=trainer)
    assert trainer._contexts == [GPU1]


def test_other_optimizers_and_kvstores_are_refused():
    net = make_net()
    with pytest.raises(UnsupportedOperation, match="Trainer"):
        unidev.place(net, "gpu:1", optimizer=mx.optimizer.SGD())
    trainer = gluon.Trainer(net.collect_params(), "sgd", kvstore=mx.kv.create("local"))
    with mx.util.np_shape(True), mx.util.np_array(True):
        trainer._init_kvstore()
    with pytest.raises(UnsupportedOperation, match="kvstore=None"):
        unidev.place(net, "gpu:1", optimizer=trainer)
    assert {x.ctx for x in arrays_of(net)} == {mx.cpu()}


@pytest.mark.parametrize("failing", ["twin", "swap", "finish"])
def test_after_a_failure_half_way_net_and_trainer_go_on_where_they_were(failing, monkeypatch):
    def run(fail):
        net = make_net()
        trainer = make_trainer(net, "adam")
        losses = train(net, trainer, mx.cpu())
        if fail:
            models, calls = type(unidev.active_backend().models), []
            own = getattr(models, failing)

            def broken(*arguments):
                calls.append(arguments)
                if len(calls) == (1 if failing == "finish" else 20):
                    if failing == "finish":
                        own(*arguments)
                    raise MemoryError("out of memory")
                return own(*arguments)

            monkeypatch.setattr(models, failing, broken)
            with pytest.raises(OutOfDeviceMemoryError):
                unidev.place(net, "gpu:1", optimizer=trainer)
            monkeypatch.undo()
            assert calls
            assert trainer._contexts == [mx.cpu()]
            assert {x.ctx for x in arrays_of(net)} == {mx.cpu()}
        return losses + train(net, trainer, mx.cpu())

    assert run(fail=True) == run(fail=False)
