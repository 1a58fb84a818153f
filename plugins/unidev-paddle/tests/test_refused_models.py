"""Layers that cannot be placed, or not yet: refused, with what to do, and left where they were."""

from __future__ import annotations

import paddle
import pytest

import unidev

GPU = unidev.gpu(1)


def linear():
    return paddle.nn.Linear(4, 3).to("cpu")


def devices(layer):
    return {unidev.device_of(x) for x in [*layer.parameters(), *layer.buffers()]}


def test_a_lazy_layer_is_refused_and_placed_once_it_has_memory():
    with paddle.LazyGuard():
        layer = paddle.nn.Linear(2, 3)
    for use in (unidev.parameters, lambda it: unidev.place(it, GPU)):
        with pytest.raises(unidev.UnsupportedOperation, match=r"initialize\(\)"):
            use(layer)
    for x in layer.parameters():
        x.initialize()
    assert devices(unidev.place(layer, GPU)) == {GPU}


def test_a_freed_parameter_is_named_as_what_it_is():
    layer = linear()
    layer.weight._clear_data()
    with pytest.raises(unidev.DeletedTensorError):
        unidev.place(layer, GPU)
    assert unidev.device_of(layer.bias) is unidev.cpu()


@pytest.mark.filterwarnings("ignore:The program will return to single-card:UserWarning")
def test_a_data_parallel_layer_with_a_reducer_is_refused():
    layer = paddle.DataParallel(linear())
    unidev.place(layer, GPU)  # alone in its process, it has none
    layer._reducer = object()
    with pytest.raises(unidev.UnsupportedOperation, match="DataParallel"):
        unidev.place(layer, "cpu")
    assert devices(layer) == {GPU}
