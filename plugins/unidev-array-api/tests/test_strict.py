"""array-api-strict's devices and arrays, where the conformance suite cannot know them."""

from __future__ import annotations

import subprocess
import sys

import array_api_strict as xp
import numpy as np
import pytest

import unidev
from unidev_array_api.libraries.strict import StrictBackend

STRICT = "array_api_strict"
POOR = """
import array_api_strict as xp, numpy as np, unidev
from unittest import mock
x = unidev.ones(2, dtype="{lacking}")
calls = [
    lambda: unidev.array(np.ones(2, "{lacking}"), device="gpu"),
    lambda: unidev.zeros(2, dtype="{lacking}", device="gpu"),
    lambda: unidev.empty(2, dtype="{lacking}", device="gpu"),
    lambda: unidev.full(2, 1, dtype="{lacking}", device="gpu"),
    lambda: unidev.copy_to(x, "gpu"),
    lambda: unidev.as_in_device(x, "gpu"),
]
names = "asarray zeros empty full".split()
with mock.patch.multiple(xp, **{{name: mock.Mock(side_effect=AssertionError) for name in names}}):
    for call in calls:
        try:
            call()
        except unidev.UnsupportedDtypeError as error:
            assert f"{{unidev.gpu().native_name}}) has no {lacking}; it has" in str(error), error
        else:
            raise SystemExit("not refused")
assert str(unidev.device_of(unidev.copy_to(unidev.ones(2), "gpu"))) == "gpu:0"
"""


@pytest.mark.parametrize(
    ("like", "lacking"),
    [("no_float64", "float64"), ("no_float64", "complex128"), ("no_int64", "int64")],
)
def test_a_dtype_that_a_device_lacks_is_refused_before_anything_is_made(
    python, like, lacking
) -> None:
    poor = {"UNIDEV_SIMULATE": "1", "UNIDEV_SIMULATE_LIKE": like}
    done = python(POOR.format(lacking=lacking), **poor)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"UNIDEV_SIMULATE": "3"}, "has 2 that can be a simulated GPU, and 3 are requested"),
        ({"UNIDEV_SIMULATE_LIKE": "H100"}, "LIKE=H100 is none of no_float64, no_int64, no_x64"),
        ({"UNIDEV_SIMULATE": "2", "UNIDEV_SIMULATE_LIKE": "no_x64"}, "set UNIDEV_SIMULATE=1"),
        ({"UNIDEV_SIMULATE_MEMORY": "1GiB"}, "unset UNIDEV_SIMULATE_MEMORY"),
        ({"UNIDEV_SIMULATE_LIKE": "no_x64", "UNIDEV_SIMULATE_AS": "cuda"}, "unset UNIDEV_SIM"),
        (
            {"ARRAY_API_STRICT_API_VERSION": "2022.12"},
            f"array_api_strict {xp.__version__} follows that of 2022.12 here",
        ),
    ],
)  # fmt: skip
def test_what_the_library_cannot_do_is_refused_with_a_way_out(python, given, said) -> None:
    program = "import unidev\ntry:\n    unidev.cpu()\nexcept unidev.UnidevError as error:\n"
    done = python(program + "    print(error)", **{"UNIDEV_SIMULATE": "1", **given})
    assert said in done.stdout, done.stdout + done.stderr


def test_an_older_release_is_named(monkeypatch) -> None:
    def device(name: str) -> object:
        raise ValueError(f"The device '{name}' is not a valid choice.")

    spec = unidev.active_backend().spec
    monkeypatch.setattr(xp, "Device", device)
    with pytest.raises(unidev.PluginError, match=r"needs array_api_strict 2\.6\.1 or later"):
        StrictBackend(spec, 2)


def test_devices_are_also_named_as_the_library_names_them() -> None:
    for spec in ("device2", xp.Device("device2"), "gpu:1"):
        assert unidev.as_device(spec) is unidev.gpu(1)
    assert unidev.as_device("CPU_DEVICE") is unidev.cpu()
    with pytest.raises(unidev.DeviceNotFoundError, match="gpu:2"):
        unidev.as_device("device3")
    with pytest.raises(unidev.DeviceSpecError):
        unidev.as_device("device")


def test_an_array_on_a_device_that_is_not_simulated_says_how_to_have_it() -> None:
    x = xp.asarray(np.ones(2, "f4"), device=xp.Device("no_x64"))
    with pytest.raises(unidev.UnsupportedOperation, match="UNIDEV_SIMULATE_LIKE=no_float64 or"):
        unidev.device_of(x)
    assert unidev.to_numpy(x).tolist() == [1, 1]


def test_memory_of_device_1_is_not_handed_over_as_the_cpus() -> None:
    x = unidev.ones(2, device="gpu:0")
    with pytest.raises(unidev.UnsupportedOperation):
        unidev.convert(x, "numpy", copy=False)
    assert unidev.convert(x, "numpy").tolist() == [1, 1]


def test_what_a_test_cannot_have_of_it_is_said(tmp_path) -> None:
    text = "import pytest, sys\nassert 'array_api_strict' not in sys.modules\n"
    for mark in ("transfer_guard", "unidev_transfers(count=0)"):
        text += f"@pytest.mark.{mark}\ndef test_{mark[:3]}(unidev_backend): pass\n"
    text += "def test_c(unidev_backend, unidev_gpus): unidev_gpus(3)\n"
    (tmp_path / "test_z.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-p", "unidev_pytest", "-p", "no:cacheprovider"]
    command += ["-n0", "-rs", "--continue-on-collection-errors", "--rootdir", str(tmp_path)]
    for named, ended in ([], "3 skipped"), (["--unidev-backend", STRICT], "1 skipped, 2 errors"):
        run = [*command, "-k", STRICT, *named, str(tmp_path)]
        done = subprocess.run(run, check=False, timeout=300, capture_output=True, text=True)
        for name in ("transfer_guard", "unidev_transfers"):
            assert f"{name} sees no transfers of {STRICT}: the" in done.stdout, done.stdout
        assert ended in done.stdout, done.stdout
    assert "needs 3 GPUs, and array_api_strict has 2 simulated; no more can be" in done.stdout
