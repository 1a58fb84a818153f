"""Lack of memory, in PyTorch's words, is an error with its numbers."""

from __future__ import annotations

import pytest
import torch

import unidev

GiB = 2**30


def test_out_of_memory_is_an_error_of_its_kind() -> None:
    with pytest.raises(unidev.errors.OutOfDeviceMemoryError):
        unidev.zeros(2**58, device="gpu:1")


@pytest.mark.parametrize(
    ("said", "numbers"),
    [
        (
            "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 1 has a total capacity of 79.00 "
            "GiB of which 1.50 GiB is free. Process 12 has 77.5 GiB in use.",
            (2.5 * GiB, 1.5 * GiB, 79 * GiB),
        ),
        (
            "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate "
            "memory: you tried to allocate 140737488355328 bytes. Error code 12",
            (140737488355328,),
        ),
        (
            "[enforce fail at alloc_cpu.cpp:80] data. DefaultCPUAllocator: not enough memory: you "
            "tried to allocate 64 bytes.",
            (64,),
        ),
    ],
    ids=["GPU", "Linux", "Windows"],
)
def test_the_numbers_in_torchs_words_are_read(said, numbers, monkeypatch) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError(said)

    monkeypatch.setattr(unidev.active_backend(), "copy_to", fails)
    with pytest.raises(unidev.OutOfDeviceMemoryError) as caught:
        unidev.copy_to(torch.ones(3), "gpu:1")
    error = caught.value
    found = error.requested_bytes, error.free_bytes, error.total_bytes
    assert found[: len(numbers)] == numbers
