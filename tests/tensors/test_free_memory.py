"""GPUs by their free memory, on made-up cards; what the suite cannot see on simulated ones."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from made_cards import GPUS, Cuda, put_driver

import unidev
from unidev.backends import driver_memory
from unidev.backends.loading import load_backend, simulators
from unidev.contract.backend import Memory
from unidev.contract.installation import Build
from unidev.tensors import free_memory

if TYPE_CHECKING:
    from collections.abc import Callable

    from unidev.system.facts import Gpu

GIB = 2**30
BUSY = replace(GPUS[0], used_bytes=70 * GIB, total_bytes=80 * GIB)
IDLE = replace(GPUS[1], used_bytes=20 * GIB, total_bytes=80 * GIB)


@pytest.fixture
def cards(two_gpus: None, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Two real GPUs, of which the framework is not asked: that could create a context."""

    def put(*gpus: Gpu) -> None:
        put_driver(monkeypatch, *gpus)
        cls = type(load_backend("numpy"))
        monkeypatch.setattr(load_backend("numpy"), "simulated_count", 0)
        monkeypatch.setattr(cls, "device_count", lambda self, kind: 1 if kind == "cpu" else 2)
        monkeypatch.setattr(cls, "memory", lambda *_: pytest.fail("the framework was asked"))

    put(BUSY, IDLE)
    return put


def test_the_first_gpu_that_has_so_much_free(cards: Callable[..., None]) -> None:
    assert unidev.try_gpu(free="10GiB") is unidev.gpu(0)
    assert unidev.try_gpu(free="10.1 GiB") is unidev.gpu(free="10.1 GiB") is unidev.gpu(1)
    assert unidev.try_gpu(free=60 * GIB + 1) is unidev.cpu()
    assert unidev.try_all_gpus(free="11GiB") == [unidev.gpu(1)]
    assert unidev.try_all_gpus(free="61GiB") == [unidev.cpu()]
    assert unidev.try_gpu(most_free=True) is unidev.gpu(1)
    assert unidev.try_gpu(most_free=True, free="5GiB") is unidev.gpu(1)
    assert unidev.try_gpu(most_free=True, free="61GiB") is unidev.cpu()


def test_an_index_beside_free_is_that_gpu_or_the_cpu(cards: Callable[..., None]) -> None:
    assert unidev.try_gpu(0, free="11GiB") is unidev.cpu()
    assert unidev.try_gpu(1, free="11GiB") is unidev.gpu(1, free="11GiB") is unidev.gpu(1)
    assert unidev.try_gpu(2, free="1GiB") is unidev.cpu()
    with pytest.raises(unidev.DeviceNotFoundError, match="gpu:0 does not have 11 GiB"):
        unidev.gpu(0, free="11GiB")
    with pytest.raises(unidev.DeviceNotFoundError, match="gpu:2 is not available"):
        unidev.gpu(2, free="11GiB")


def test_the_error_lists_free_memory_and_names_only_this_users_processes(
    cards: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getpid", lambda: 1)
    with pytest.raises(unidev.DeviceNotFoundError) as caught:
        unidev.gpu(free="64GiB")
    assert str(caught.value) == (
        "no GPU has 64 GiB of free memory: gpu:0 has 10 GiB of 80 GiB free, held by process 3 "
        "(big): 400 bytes, process 1 (this process): 100 bytes, process 2 (name unknown): an "
        "unknown amount; gpu:1 has 60 GiB of 80 GiB free. End a process that is not needed, or ask "
        "for less; try_gpu(free=...) falls back to the CPU."
    )


def test_what_no_gpu_has_in_all_is_not_to_be_had_by_ending_processes(
    cards: Callable[..., None],
) -> None:
    for options in ({"free": "81GiB"}, {"free": "81GiB", "index": 0}):
        with pytest.raises(unidev.DeviceNotFoundError) as caught:
            unidev.gpu(**options)  # type: ignore[arg-type]
        assert "of 80 GiB free" in str(caught.value)
        assert "End a process" not in str(caught.value)
        assert str(caught.value).endswith(
            "That is more than there is in all: ask for less; try_gpu(free=...) falls back to the "
            "CPU."
        )


def test_a_gpu_without_memory_of_its_own_has_the_hosts(
    cards: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(free_memory, "free_and_total", lambda: (9 * GIB, 119 * GIB))
    cards(replace(BUSY, shares_host_memory=True, used_bytes=None, total_bytes=None), IDLE)
    assert unidev.try_gpu(free="9GiB") is unidev.gpu(0)
    with pytest.raises(
        unidev.DeviceNotFoundError, match=r"gpu:0 has 9 GiB of 119 GiB free \(shared with the host"
    ):
        unidev.gpu(0, free="10GiB")
    monkeypatch.setattr(free_memory, "free_and_total", lambda: (None, None))
    with pytest.raises(unidev.UnsupportedOperation, match="this system does not report"):
        unidev.try_gpu(free="9GiB")


def test_where_only_a_context_could_tell_the_error_says_so(
    cards: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    cards(replace(BUSY, used_bytes=None), IDLE)
    for call in (unidev.try_gpu, unidev.gpu, unidev.try_all_gpus):
        with pytest.raises(unidev.UnsupportedOperation, match="CUDA_DEVICE_ORDER"):
            call(free="1GiB")
    assert unidev.try_gpu(1, free="1GiB") is unidev.gpu(1)
    monkeypatch.setattr(Cuda, "build", lambda self: Build(accelerator="mps"))
    monkeypatch.setattr(driver_memory, "ask_nvml", lambda *_: pytest.fail("NVIDIA was asked"))
    for ask in ({"free": 1}, {"most_free": True}):
        with pytest.raises(unidev.UnsupportedOperation, match="without a context"):
            unidev.try_gpu(**ask)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("size", "said"),
    [
        ("8 apples", "not '8 apples'. Example"), ("", "not ''"), ("-1GiB", "not '-1GiB'"),
        ("8,5GiB", "not '8,5GiB'"), ("1,00,000 KiB", "not '1,00,000 KiB'"),
        (",500GiB", "not ',500GiB'"),
        (-1, "not -1"), (True, "not True"), (1.5, "not 1.5"), (b"1GiB", "not b'1GiB'"),
        ("24", "'24' is 24 bytes, since it has no unit. Example: free=\"24GiB\""),
        pytest.param(10**5000, "non-negative integer", id="huge"),
    ],
)  # fmt: skip
def test_what_is_no_size_is_refused_before_anything_is_asked(
    monkeypatch: pytest.MonkeyPatch, size: object, said: str
) -> None:
    monkeypatch.setattr(driver_memory, "ask_nvml", lambda *_: pytest.fail("NVIDIA was asked"))
    for call in (unidev.try_gpu, unidev.gpu, unidev.try_all_gpus):
        with pytest.raises(unidev.DeviceSpecError) as caught:
            call(free=size)  # type: ignore[arg-type]
        assert said in str(caught.value)
        assert caught.value.spec is size


def test_most_free_is_a_flag_and_excludes_an_index() -> None:
    with pytest.raises(unidev.DeviceSpecError, match="most_free must be True or False, not 1"):
        unidev.try_gpu(most_free=1)  # type: ignore[arg-type]
    with pytest.raises(unidev.DeviceSpecError, match="most_free chooses among all GPUs"):
        unidev.try_gpu(0, most_free=True)


def test_without_a_gpu_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_memory, "ask_nvml", lambda *_: pytest.fail("NVIDIA was asked"))
    assert unidev.try_gpu(free="1GiB") is unidev.try_gpu(most_free=True) is unidev.cpu()
    assert unidev.try_all_gpus(free=0) == [unidev.cpu()]
    with pytest.raises(unidev.DeviceNotFoundError, match="gpu:0 is not available"):
        unidev.gpu(free="1GiB")


def test_simulated_gpus_have_their_own_counts_else_the_hosts(
    two_gpus: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(free_memory, "free_and_total", lambda: (5, 10))
    assert unidev.try_gpu(free=5) is unidev.gpu(0)
    assert unidev.try_gpu(free=6) is unidev.cpu()
    counted = lambda self, device: Memory(0, device.index, 9)  # noqa: E731
    monkeypatch.setattr(type(load_backend("numpy")), "memory", counted)
    assert unidev.try_gpu(free=1) is unidev.try_gpu(most_free=True) is unidev.gpu(1)
    assert type(unidev.try_gpu().index) is int


def test_a_simulators_count_is_read_without_the_framework(
    two_gpus: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    cls = type(load_backend("numpy"))
    monkeypatch.setattr(cls, "memory", lambda *_: pytest.fail("the framework was asked"))
    counted = lambda self, index: (index, 9)  # noqa: E731
    monkeypatch.setattr(type(simulators["numpy"]), "free_and_total", counted)
    assert unidev.try_all_gpus(free=1) == [unidev.gpu(1)]
    with pytest.raises(unidev.DeviceNotFoundError, match="gpu:0 has 0 bytes of 9 bytes free"):
        unidev.gpu(0, free=1)
