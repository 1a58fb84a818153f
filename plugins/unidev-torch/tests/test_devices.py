"""torch's devices in unidev's words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

import unidev
from unidev_torch import tensors

if TYPE_CHECKING:
    from fresh_programs import Python


def test_every_spelling_of_torch_means_one_device() -> None:
    cpu, gpu = unidev.cpu(), unidev.gpu(2)
    for spec in ("cpu", "cpu:0", torch.device("cpu"), torch.device("cpu", 0)):
        assert unidev.as_device(spec) is cpu
    for spec in ("gpu:2", "sim:2", torch.device("sim", 2)):
        assert unidev.as_device(spec) is gpu
    assert (gpu.native, gpu.native_name, gpu.is_simulated) == (torch.device("sim:2"), "sim:2", True)
    assert "simulated GPU 2" in gpu.name


@pytest.mark.parametrize(
    "spec", ["cuda:0", "meta", "nonsense", "sim:-1", torch.device("cuda"), 1.5]
)
def test_what_means_no_device_here_is_an_error(spec: object) -> None:
    with pytest.raises(unidev.DeviceSpecError):
        unidev.as_device(spec)


def test_cuda_on_a_machine_without_it_is_a_device_that_is_not_there(python: Python) -> None:
    done = python(
        "import torch, unidev\n"
        "unidev.set_backend('torch')\n"
        "import unidev_torch.backend\n"
        "unidev_torch.backend._current_accelerator = lambda: None\n"
        "for spec in ('cuda:1', torch.device('mps'), 'gpu'):\n"
        "    try:\n"
        "        unidev.as_device(spec)\n"
        "    except unidev.DeviceNotFoundError as error:\n"
        "        print(str(error).partition(' is not available')[0])\n"
    )
    means = "'cuda:1' means gpu:1: unidev's kinds of device are cpu and gpu. gpu:1"
    assert (done.stdout, done.stderr) == (f"{means}\ngpu:0\ngpu:0\n", "")


def test_a_native_device_without_an_index_is_torchs_current_one() -> None:
    with torch.sim.device(3):
        assert unidev.as_device("sim") is unidev.gpu(3)
        assert unidev.as_device("gpu") is unidev.gpu(0)


def test_a_tensor_on_the_cpu_is_on_cpu_0_however_it_came_there() -> None:
    for x in (torch.ones(1), torch.ones(1, device="cpu:0"), torch.ones(1).to("cpu:0")):
        assert unidev.device_of(x) is unidev.cpu()
        assert unidev.as_in_device(x, "cpu:0") is x


def test_the_count_follows_torch_until_torch_has_fixed_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from unidev_torch import backend, unidev_register_backend
    from unidev_torch.backend import TorchBackend

    class Module:
        count, initialized = 2, False

        def device_count(self) -> int:
            return self.count

        def is_initialized(self) -> bool:
            return self.initialized

    module = Module()
    real = TorchBackend(unidev_register_backend(), 0)
    monkeypatch.setattr(torch, "get_device_module", lambda device: module)
    assert real.device_count("gpu") == 2
    module.count = 1
    assert real.device_count("gpu") == 1
    module.initialized = True
    assert real.device_count("gpu") == 1
    module.count = 5  # what torch counted when it began stays for the process
    assert real.device_count("gpu") == 1
    monkeypatch.setattr(backend, "_current_accelerator", lambda: None)
    assert TorchBackend(unidev_register_backend(), 0).device_count("gpu") == 0


class Reporting:
    """torch.accelerator, which reports the dtypes of an accelerator; older ones do not."""

    def __init__(self, *dtypes: torch.dtype) -> None:
        self.dtypes = dtypes

    def get_device_capability(self, native: torch.device) -> dict[str, set[torch.dtype]]:
        assert native == torch.device("mps", 0)
        return {"supported_dtypes": {*self.dtypes, torch.float8_e5m2}}


class Silent:
    """torch.accelerator of a build for CUDA."""

    def get_device_capability(self, native: torch.device) -> None:
        raise RuntimeError("Backend doesn't support getting device capabilities.")


def test_an_accelerator_carries_the_dtypes_that_torch_reports(monkeypatch):
    native = torch.device("mps", 0)
    monkeypatch.setattr(torch, "accelerator", Reporting(torch.float32, torch.bool))
    assert tensors.names_on(native) == ["bool", "float32"]
    for silent in (object(), Silent()):
        monkeypatch.setattr(torch, "accelerator", silent)
        lacking = set(tensors.NAMES) - set(tensors.names_on(native))
        assert lacking == {"float64", "complex128"}
        assert list(tensors.NAMES) == tensors.names_on(torch.device("cuda", 0))


def test_a_dtype_that_the_device_lacks_is_refused_with_those_it_has(monkeypatch):
    backend = unidev.active_backend()
    x = unidev.ones(3, dtype="float64")
    monkeypatch.setattr(tensors, "names_on", lambda native: ["bool", "float32"])

    def refuse(self, x, device, non_blocking):
        raise TypeError("Cannot convert a MPS Tensor to float64 dtype")

    monkeypatch.setattr(type(backend), "copy_to", refuse)
    with pytest.raises(unidev.UnsupportedDtypeError, match=r"gpu:1 has no float64; it has bool, "):
        unidev.copy_to(x, "gpu:1")
    with pytest.raises(unidev.FrameworkError, match="Cannot convert"):
        unidev.copy_to(unidev.ones(3), "gpu:1")
