"""The probe, which judges the backend, is itself right."""

from __future__ import annotations

from typing import Any

import torch

import unidev
from unidev_torch.probe.hardware import copies_in


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
