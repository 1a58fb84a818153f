from __future__ import annotations

import json
import subprocess
import sys

import torch

from unidev.backends.loading import load_backend
from unidev_torch.installation import PAGE, TorchInstallation


def installation() -> TorchInstallation:
    return TorchInstallation(load_backend("torch"))


def test_a_build_for_the_cpu_is_told_as_such_with_the_published_commands(monkeypatch) -> None:
    for name in ("cuda", "hip", "xpu"):
        monkeypatch.setattr(torch.version, name, None)
    monkeypatch.setattr(torch.backends.mps, "is_built", lambda: False)
    monkeypatch.setattr("platform.system", lambda: "Linux")
    build = installation().build()
    assert (build.accelerator, build.version, build.page) == (None, None, PAGE)
    assert [each.accelerator for each in build.wheels] == ["cuda", "cuda", "rocm", "xpu"]
    assert all("https://download.pytorch.org/whl/" in each.command for each in build.wheels)


def test_a_build_for_cuda_tells_its_version_and_code_without_asking_cuda(monkeypatch) -> None:
    def asked(*_: object) -> None:
        raise AssertionError("CUDA was asked")

    for name in ("is_available", "device_count", "get_arch_list", "init"):
        monkeypatch.setattr(torch.cuda, name, asked)
    monkeypatch.setattr(torch.version, "cuda", "12.6")
    flags = "sm_80 sm_90 compute_90"
    monkeypatch.setattr(torch._C, "_cuda_getArchFlags", lambda: flags, raising=False)
    build = installation().build()
    assert (build.accelerator, build.version) == ("cuda", "12.6")
    assert build.architectures == ("sm_80", "sm_90", "compute_90")


def test_the_version_of_hip_is_told_without_its_hash(monkeypatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setattr(torch.version, "hip", "7.2.53210-7c5e4d3")
    monkeypatch.setattr(torch._C, "_cuda_getArchFlags", lambda: "gfx90a gfx942", raising=False)
    build = installation().build()
    assert (build.accelerator, build.version) == ("rocm", "7.2.53210")
    assert build.architectures == ("gfx90a", "gfx942")


def test_gpus_that_the_driver_counts_and_the_runtime_cannot_use_are_not_usable(monkeypatch) -> None:
    subject = installation()
    monkeypatch.setattr(type(subject.backend), "device_count", lambda self, kind: 2)
    monkeypatch.setattr(subject.backend, "simulated_count", 0)
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    assert subject.usable_gpus() == 0
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    assert subject.usable_gpus() == 2


def test_the_backend_has_it() -> None:
    assert isinstance(load_backend("torch").installation, TorchInstallation)


def test_settings_say_whether_tf32_is_used_without_a_warning() -> None:
    program = (
        "import unidev, torch, json; unidev.set_backend('torch')\n"
        "installation = unidev.active_backend().installation\n"
        "first = dict(installation.settings())\n"
        "torch.backends.cuda.matmul.fp32_precision = 'tf32'\n"
        "torch.backends.cudnn.benchmark = True\n"
        "print(json.dumps([first, dict(installation.settings())]))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    first, then = json.loads(done.stdout)
    assert (first["TF32 in products"], first["cuDNN benchmark"]) == ("off", "off")
    assert (then["TF32 in products"], then["cuDNN benchmark"]) == ("on", "on")
    assert first["TF32 in convolutions"] == "on"  # torch's default
