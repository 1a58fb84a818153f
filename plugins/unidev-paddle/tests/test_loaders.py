"""Paddle's own loader, read ahead."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import pytest

import unidev


class Numbered(paddle.io.Dataset):
    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> Any:
        return np.full(3, float(index), np.float32), index


@pytest.mark.parametrize("places", [None, "cpu"])
def test_batches_of_a_data_loader(places: str | None) -> None:
    loader = paddle.io.DataLoader(
        Numbered(), batch_size=4, places=places and paddle.CPUPlace(), return_list=True
    )
    batches = unidev.prefetch(loader, "gpu:1")
    assert len(batches) == 3
    for _ in range(2):
        found = list(batches)
        assert {unidev.device_of(each) for each in found} == {unidev.gpu(1)}
        firsts = [unidev.to_numpy(x)[:, 0] for x, _ in found]
        assert np.concatenate(firsts).tolist() == list(range(10))
        labels = [unidev.to_numpy(label) for _, label in found]
        assert np.concatenate(labels).tolist() == list(range(10))
