"""Memory that ran out: what the error says of it, and has in its attributes."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import psutil
import pytest

import unidev
from unidev.backends import out_of_memory as exhaustion
from unidev.backends.framework_errors import framework_error
from unidev.backends.loading import load_backend
from unidev.backends.out_of_memory import Numbers, host_memory, numbers_in
from unidev.values import MemoryHolder

if TYPE_CHECKING:
    from pathlib import Path

GiB = 2**30


PARTS = (
    "wanted {requested}", "of which {free} is free", "all in all {total}",
    "no room for a tensor[{shape}] of {dtype}",
)  # fmt: skip


@pytest.mark.parametrize(
    ("message", "numbers"),
    [
        (
            "Theirs ran dry. Wanted 2.50 GiB. GPU 1 has all in all 79.00 GiB of which 1.50 GiB is "
            "free. Process 12 has 77.5 GiB.",
            Numbers(2 * GiB + GiB // 2, GiB + GiB // 2, 79 * GiB, 1),
        ),
        ("E: wanted 140737488355328 bytes. Error code 12", Numbers(140737488355328)),
        ("E: wanted 4096", Numbers(4096)),
        ("E: wanted 3.500000GB.", Numbers(3 * GiB + GiB // 2)),
        ("E: wanted much", Numbers()),
        ("no room for a tensor[1000,20] of double on GPU:0", Numbers(160_000, gpu=0)),
        ("no room for a tensor[2, 3] of float16", Numbers(12)),
        ("no room for a tensor[] of int64", Numbers(8)),
        ("no room for a tensor[2] of quaternion", Numbers()),
        (
            "MemoryError: Unable to allocate 128. TiB for an array with shape (35184372088832,)",
            Numbers(128 * 2**40),
        ),
        ("MemoryError: Unable to allocate 2.50 EiB for an array", Numbers(5 * 2**59)),
        ("MemoryError: ", Numbers()),
    ],
)
def test_the_numbers_in_a_frameworks_words_are_read(message: str, numbers: Numbers) -> None:
    assert numbers_in(message, PARTS) == numbers


def test_an_error_has_the_numbers_in_the_words_of_its_backend(monkeypatch) -> None:
    backend = load_backend("numpy")
    said = MemoryError("Wanted 2 KiB, of which 1 KiB is free")
    assert framework_error(said, "numpy", "a copy").requested_bytes is None
    monkeypatch.setattr(backend, "out_of_memory_numbers", PARTS)
    error = framework_error(said, "numpy", "a copy")
    assert (error.requested_bytes, error.free_bytes) == (2048, 1024)


def test_a_system_that_reports_no_memory_leaves_it_out(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path))
    assert host_memory()[:3] == (None, None, ())
    with pytest.raises(unidev.OutOfDeviceMemoryError) as caught:
        unidev.zeros(2**50)
    assert "Requested: 4,194,304 GiB. Free tensors that are not needed" in str(caught.value)


def test_too_large_a_tensor_says_what_was_asked_for_and_what_was_free() -> None:
    with pytest.raises(unidev.OutOfDeviceMemoryError) as caught:
        unidev.zeros(2**50)
    error = caught.value
    assert error.device is unidev.cpu()
    assert error.requested_bytes == 2**52
    assert error.free_bytes is not None
    assert error.total_bytes is not None
    assert 0 < error.free_bytes < error.total_bytes < 2**52
    assert 1 <= len(error.holders) <= 3
    assert "Requested: 4,194,304 GiB. Free on cpu:0: " in str(error)
    assert isinstance(error.__cause__, MemoryError)


def test_where_the_framework_says_no_number_it_is_counted_from_shape_and_dtype(monkeypatch) -> None:
    def fails(self, *_):
        raise RuntimeError("cudaMalloc retry failed: out of memory")

    for name in ("zeros", "from_numpy", "copy_to"):
        monkeypatch.setattr(type(load_backend("numpy")), name, fails)
    import numpy as np

    x = np.zeros((5, 7), "float64")
    for make, nbytes in (
        (lambda: unidev.zeros((10, 20), dtype="float16"), 400),
        (lambda: unidev.array([[1, 2]]), 16),
        (lambda: unidev.copy_to(x, "cpu"), 280),
        (lambda: unidev.zeros_like(x), 280),
    ):
        with pytest.raises(unidev.OutOfDeviceMemoryError) as caught:
            make()
        assert caught.value.requested_bytes == nbytes
        assert caught.value.device is unidev.cpu()


def test_on_a_simulated_device_the_memory_is_the_hosts_and_said_to_be(two_gpus: None) -> None:
    with pytest.raises(unidev.OutOfDeviceMemoryError) as caught:
        unidev.zeros(2**50, device="gpu:1")
    assert caught.value.device is unidev.gpu(1)
    assert "gpu:1 is simulated: it uses the host's memory. Free on gpu:1: " in str(caught.value)


def test_the_error_survives_the_way_back_from_a_worker_process() -> None:
    error = unidev.OutOfDeviceMemoryError(
        "no", device=unidev.cpu(), requested_bytes=3, free_bytes=2, total_bytes=9,
        holders=[MemoryHolder(1, "a", 7)],
    )  # fmt: skip
    back = pickle.loads(pickle.dumps(error))
    assert (str(back), vars(back)) == (str(error), vars(error))
    assert back.holders == (MemoryHolder(1, "a", 7),)


def test_the_error_comes_whatever_fails_while_it_is_made(monkeypatch) -> None:
    def fails(*_):
        raise MemoryError

    monkeypatch.setattr(exhaustion, "host_memory", fails)
    error = framework_error(MemoryError("no"), "numpy", "copying")
    assert type(error) is unidev.OutOfDeviceMemoryError
    assert str(error) == "numpy ran out of memory while copying. MemoryError: no"
