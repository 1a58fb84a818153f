"""unidev's traps for libraries, with PyTorch's own calls: its default device is another GPU."""

from __future__ import annotations

from typing import Any

import pytest
from broken_traps import is_red, runner

pytest_plugins = ("pytester",)

LIBRARY = """
    import pytest
    import torch

    def centered(x):
        return x - torch.arange(len(x), device=x.device)

    def mixed(x):
        return x - torch.stack([torch.arange(len(x)) * 2])

    def stray(x):
        return {"mask": torch.ones(len(x), dtype=torch.bool), "x": x}

    @pytest.mark.parametrize("f", [centered, mixed, stray])
    def test_f(f, unidev_backend, unidev_device, unidev_result_device):
        x = torch.rand(3, device=unidev_device.native)
        unidev_result_device(f(x), like=x)
"""


POOR = """
    import torch

    def test_x(unidev_device):
        x = torch.rand(3, device=unidev_device.native)
        assert "tensor" in repr(x.mean())
        x.sum(dtype=torch.float64)

    def test_constant(unidev_device):
        torch.ones(3, dtype=torch.complex128, device=unidev_device.native)
"""


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("UNIDEV_BACKEND", "torch")
    return runner(pytester, monkeypatch)


def test_gpus_without_float64_refuse_it_in_the_words_for_mps(pytester: Any, run: Any) -> None:
    pytester.makepyfile(test_library=POOR)
    result = run("--unidev-poor", "no_float64")
    result.assert_outcomes(passed=2, failed=4)
    for name, narrow in (("float64", "float32"), ("complex128", "complex64")):
        line = f"*Cannot convert a SIM Tensor to {name} dtype as*Please use {narrow} instead*"
        result.stdout.fnmatch_lines_random([line])


def test_torchs_own_calls_without_a_device_are_found_on_each_device(
    pytester: Any, run: Any
) -> None:
    pytester.makepyfile(test_library=LIBRARY)
    result = run("--unidev-backend", "torch")
    result.assert_outcomes(passed=3, failed=6)
    text = result.stdout.str()
    assert "result['mask'] is on gpu:0, and the input on gpu:1: it was made without" in text
    assert "made so, at test_library.py:8 in mixed: return x - torch.stack([torch" in text
    assert "found at least two devices, sim:0 and sim:1!" in text


@pytest.mark.parametrize(
    "broken",
    [
        "unidev_torch.backend:TorchBackend.watch_made = lambda *_: nullcontext()",
        "unidev_torch.scopes:Made.__torch_function__ = lambda _, f, t, a=(), k={}: f(*a, **k)",
        "unidev_pytest.strays:Strays.origin = lambda *_: was(*_[:2], depth=0)",
        "unidev_pytest.strays:Strays._note = lambda x, result, _: was(x, result, None)",
    ],
)
def test_a_trap_that_does_not_hear_of_torchs_calls_is_red(
    pytester: Any, run: Any, broken: str
) -> None:
    check = test_torchs_own_calls_without_a_device_are_found_on_each_device
    is_red(pytester, run, check, broken)
