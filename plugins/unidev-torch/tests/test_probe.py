"""The probe, which judges the backend, is itself right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import unidev
from unidev_torch.probe.hardware import copies_in

DEVICES = ("cpu", "gpu:1")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "uint8", "complex64", "float16"])
def test_what_is_made_is_read_to_the_bit(device: str, dtype: str) -> None:
    array = np.arange(6).reshape(2, 3).astype(dtype)
    probe = unidev.active_backend().probe
    x = probe.make(array, unidev.as_device(device))
    assert x.device == unidev.as_device(device).native
    assert tuple(x.shape) == array.shape
    assert probe.read(x) == array.tobytes()
    assert probe.read(probe.make(array[:0], unidev.as_device(device))) == b""


@pytest.mark.parametrize("device", DEVICES)
def test_it_tells_the_same_memory_from_other_memory(device: str) -> None:
    probe = unidev.active_backend().probe
    x, y = (probe.make(np.ones((2, 3)), unidev.as_device(device)) for _ in range(2))
    assert probe.extents(probe.same_memory(x)) == probe.extents(x)
    assert probe.extents(x) != probe.extents(y)
    for view in probe.views(x).values():
        assert probe.extents(view) == probe.extents(x)
    probe.write(probe.same_memory(x), 7)
    assert probe.read(x) == np.full((2, 3), 7.0).tobytes()


@pytest.mark.parametrize("device", DEVICES)
def test_a_gradient_that_does_not_arrive_is_noticed(device: str) -> None:
    probe = unidev.active_backend().probe
    array, target = np.ones(3, dtype=np.float32), unidev.as_device(device)
    assert probe.gradient(lambda x: x * 3, array, target).tolist() == [3.0, 3.0, 3.0]
    with pytest.raises((AssertionError, RuntimeError)):
        probe.gradient(lambda x: x.detach() * 3, array, target)


def test_global_state_notices_what_changed() -> None:
    probe = unidev.active_backend().probe
    before = probe.global_state()
    assert probe.global_state() == before
    torch.rand(1, device="sim:2")
    assert probe.global_state() != before
    before = probe.global_state()
    with torch.device("sim:1"):
        assert probe.global_state() != before
    assert probe.global_state() == before


def test_specials_are_each_something_else() -> None:
    probe = unidev.active_backend().probe
    specials = probe.specials(unidev.gpu(1))
    assert type(specials["parameter"]) is torch.nn.Parameter
    assert specials["conjugate"].is_conj()
    assert specials["negative"].is_neg()
    assert not specials["channels last"].is_contiguous()
    assert {x.device for x in specials.values()} == {torch.device("sim:1")}


def test_allocated_bytes_are_torchs_own_count() -> None:
    probe = unidev.active_backend().probe
    before = probe.allocated_bytes(unidev.gpu(2))
    x = torch.empty(1000, device="sim:2")
    assert probe.allocated_bytes(unidev.gpu(2)) - before == x.nbytes


def memcpy(name: str, size: int) -> dict[str, Any]:
    return {"cat": "gpu_memcpy", "name": f"Memcpy {name}", "args": {"bytes": size, "stream": 7}}


def test_records_of_the_profiler_are_copies_in_their_directions() -> None:
    events = [
        memcpy("HtoD (Pageable -> Device)", 4), memcpy("DtoH (Device -> Pageable)", 16),
        memcpy("HtoD (Pinned -> Device)", 8), memcpy("DtoD (Device -> Device)", 32),
        {"cat": "kernel", "name": "HtoD"}, {"name": "no category"},
    ]  # fmt: skip
    assert copies_in(events) == [
        ("cpu", "gpu", 4), ("gpu", "cpu", 16), ("cpu", "gpu", 8), ("gpu", "gpu", 32),
    ]  # fmt: skip
