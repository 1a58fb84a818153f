"""What is decided about an accelerator without asking it; on CUDA itself: ``nox -s stand_in``."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

import unidev
from unidev_torch import accelerator, backend


@pytest.mark.parametrize(
    ("built_for", "driver", "is_too_old"),
    [
        ("13.0", (12, 9), True),
        ("13.0", (13, 0), False),
        ("13.1", (13, 0), False),  # CUDA takes every driver of its own major version
        ("12.6", (13, 0), False),
        ("12.6", None, False),  # no answer, no verdict
        (None, (11, 8), False),  # ROCm, or the CPU
    ],
)
def test_a_driver_is_too_old_by_its_major_version(
    monkeypatch: Any, built_for: str | None, driver: tuple[int, int] | None, is_too_old: bool
) -> None:
    monkeypatch.setattr(torch.version, "cuda", built_for)
    monkeypatch.setattr(accelerator, "driver_cuda_version", lambda: driver)
    assert accelerator.is_driver_too_old.__wrapped__() is is_too_old


def test_gpus_whose_driver_is_too_old_do_not_count(monkeypatch: Any) -> None:
    active = unidev.active_backend()
    module = SimpleNamespace(device_count=lambda: 2, is_initialized=lambda: False)
    monkeypatch.setattr(active, "_fixed_count", None)
    monkeypatch.setattr(active, "simulated_count", 0)
    monkeypatch.setattr(backend, "_current_accelerator", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch, "get_device_module", lambda native: module)
    monkeypatch.setattr(accelerator, "is_driver_too_old", lambda: True)
    assert (active.device_count("gpu"), unidev.try_gpu(), unidev.try_all_gpus()) == (
        0, unidev.cpu(), [unidev.cpu()],
    )  # fmt: skip
    monkeypatch.setattr(accelerator, "is_driver_too_old", lambda: False)
    assert unidev.try_gpu(1) is active.device("gpu", 1)
    monkeypatch.setattr(accelerator, "is_one_instance", lambda: True)
    assert (active.device_count("gpu"), unidev.try_gpu(1)) == (1, unidev.cpu())


def test_a_gpu_without_a_context_is_not_waited_for(monkeypatch: Any) -> None:
    waited: list[object] = []
    device: Any = SimpleNamespace(kind="gpu", native=torch.device("cuda", 1))
    monkeypatch.setattr(torch.accelerator, "synchronize", waited.append)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    for has_context in (False, True):
        monkeypatch.setattr(
            torch._C,
            "_cuda_hasPrimaryContext",
            lambda index, answer=has_context: answer,
            raising=False,
        )
        unidev.active_backend().synchronize(device)
    assert waited == [torch.device("cuda", 1)]


class Streamed(torch.Tensor):
    """A tensor that says that it is on CUDA."""

    is_cuda = True
    device = torch.device("cuda", 0)

    def record_stream(self, stream: object) -> None:
        streams.append(stream)


streams: list[object] = []


def test_a_tensor_is_kept_for_the_stream_that_reads_it(monkeypatch: Any) -> None:
    monkeypatch.setattr(torch.accelerator, "current_stream", lambda index: f"stream of {index}")
    accelerator.keep_until_read(torch.ones(3).as_subclass(Streamed))
    accelerator.keep_until_read(torch.ones(3))  # the CPU has no streams
    assert streams == ["stream of 0"]
