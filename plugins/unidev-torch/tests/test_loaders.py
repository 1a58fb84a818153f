"""PyTorch's own loader, read ahead."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

import unidev


class Numbered(Dataset[Any]):
    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> Any:
        return {"x": torch.full((3,), float(index)), "label": index, "name": f"picture {index}"}


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_of_a_data_loader(workers: int) -> None:
    loader = DataLoader(Numbered(), batch_size=4, num_workers=workers, multiprocessing_context=(
        "fork" if workers else None
    ))  # fmt: skip
    batches = unidev.prefetch(loader, "gpu:1")
    assert len(batches) == 3
    for _ in range(2):
        found = list(batches)
        assert {unidev.device_of(each) for each in found} == {unidev.gpu(1)}
        assert torch.cat([each["x"][:, 0].cpu() for each in found]).tolist() == list(range(10))
        assert torch.cat([each["label"].cpu() for each in found]).tolist() == list(range(10))
        assert found[-1]["name"] == ["picture 8", "picture 9"]
    for _ in batches:
        break
    assert "unidev-prefetch" not in {each.name for each in threading.enumerate()}


@pytest.mark.parametrize("device", [None, "cpu", "sim:2"])
def test_a_shuffling_loader_is_read_outside_of_the_scope(device: str | None) -> None:
    generator = None if device is None else torch.Generator(device)
    loader = DataLoader(Numbered(), batch_size=4, shuffle=True, generator=generator)
    with unidev.gpu(1):
        found = list(unidev.prefetch(loader, "gpu:1"))
        rows = unidev.active_backend().loader.rows(loader)
        read = [each["label"].tolist() for each in rows.read([[3, 1]], 2)]
        assert torch.zeros(1).device == unidev.gpu(1).native
    assert unidev.device_of(found) is unidev.gpu(1)
    assert sorted(torch.cat([each["label"] for each in found]).tolist()) == list(range(10))
    assert read == [[3, 1]]


@pytest.mark.parametrize("is_enabled", [True, False])
def test_the_thread_records_gradients_where_the_caller_does(is_enabled: bool) -> None:
    def asked() -> Any:
        yield torch.is_grad_enabled(), torch.ones(1)

    with torch.set_grad_enabled(is_enabled):
        ((found, _),) = unidev.prefetch(asked(), "cpu")
    assert found is is_enabled


def test_tensors_beside_arrays_choose_the_framework() -> None:
    import numpy as np

    put = unidev.device_put({"x": np.ones(2, np.float32), "y": torch.zeros(2)}, "gpu:0")
    assert put["x"].device == put["y"].device == unidev.gpu(0).native
    with pytest.raises(unidev.DeviceNotFoundError, match=r"device_put\(x, 'gpu:0'\) makes tensors"):
        unidev.copy_to({"x": np.ones(2), "y": torch.zeros(2)}, "gpu:0")


def test_the_sizes_of_a_packed_sequence_stay_on_the_host() -> None:
    packed = torch.nn.utils.rnn.pack_sequence([torch.ones(3, 1), torch.ones(2, 1)])
    moved = unidev.copy_to({"sequence": packed}, "gpu:1")["sequence"]
    assert moved.data.device == unidev.gpu(1).native
    assert moved.batch_sizes is packed.batch_sizes
    assert unidev.device_of(moved) is unidev.gpu(1)
    assert unidev.as_in_device(moved, "gpu:1") is moved
    ordered = torch.nn.utils.rnn.pack_sequence([torch.ones(1), torch.ones(2)], enforce_sorted=False)
    moved = unidev.copy_to(ordered, "gpu:1")
    assert moved.sorted_indices.device == moved.unsorted_indices.device == unidev.gpu(1).native


@pytest.mark.parametrize("device", ["cpu", "gpu:1"])
def test_packed_sequences_keep_their_order(device: str) -> None:
    rows = [torch.arange(float(size)) + 10 * size for size in (2, 4, 1, 3)]  # no order in pairs
    packed = torch.nn.utils.rnn.pack_sequence(rows, enforce_sorted=False)
    copied = unidev.copy_to(packed, device)
    assert unidev.device_of(copied) is unidev.as_device(device)
    found = torch.nn.utils.rnn.unpack_sequence(copied)
    assert [each.tolist() for each in found] == [each.tolist() for each in rows]
