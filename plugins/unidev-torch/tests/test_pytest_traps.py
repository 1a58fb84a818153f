"""unidev's traps for libraries, with PyTorch's own calls: its default device is another GPU."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

pytest_plugins = ("pytester",)

HOME = os.path.expanduser("~")
"""With the cache of builds, which pytester's own home lacks."""

LIBRARY = """
    import pytest
    import torch

    def centered(x):
        return x - torch.arange(len(x), device=x.device)

    def mixed(x):
        y = torch.arange(len(x)) * 2
        return x - torch.stack([y, y])

    def stray(x):
        return {"mask": torch.ones(len(x), dtype=torch.bool), "x": x}

    @pytest.mark.parametrize("f", [centered, mixed, stray])
    def test_f(f, unidev_backend, unidev_device, unidev_result_device):
        x = torch.rand(3, device=unidev_device.native)
        unidev_result_device(f(x), like=x)
"""


def test_torchs_own_calls_without_a_device_are_found_on_each_device(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.setenv("HOME", HOME)
    pytester.makepyfile(test_library=LIBRARY)
    options = ("--unidev-simulate", "2", "--unidev-backend", "torch", "-p", "no:cacheprovider")
    result = pytester.runpytest_subprocess("-p", "unidev_pytest", *options)
    result.assert_outcomes(passed=3, failed=6)
    text = result.stdout.str()
    assert "result['mask'] is on gpu:0, and the input on gpu:1: it was made without" in text
    assert "made so, at test_library.py:8 in mixed: y = torch.arange(len(x)) * 2" in text
    assert "found at least two devices, sim:0 and sim:1!" in text
