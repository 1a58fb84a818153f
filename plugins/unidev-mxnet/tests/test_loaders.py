"""Gluon's own loader, read ahead."""

from __future__ import annotations

import mxnet as mx
import numpy as np
import pytest
from mxnet.gluon.data import ArrayDataset, DataLoader

import unidev


@pytest.mark.parametrize("semantics", [False, True])
def test_batches_of_a_data_loader(semantics: bool) -> None:
    numbers = np.arange(10, dtype=np.float32)
    with mx.util.np_shape(semantics), mx.util.np_array(semantics):
        loader = DataLoader(ArrayDataset(numbers.reshape(10, 1), numbers), batch_size=4)
        batches = unidev.prefetch(loader, "gpu:1")
        assert len(batches) == 3
        for _ in range(2):
            found = list(batches)
            assert {unidev.device_of(each) for each in found} == {unidev.gpu(1)}
            assert {type(x) for x, _ in found} == {mx.np.ndarray if semantics else mx.nd.NDArray}
            assert np.concatenate([x.asnumpy()[:, 0] for x, _ in found]).tolist() == list(range(10))
