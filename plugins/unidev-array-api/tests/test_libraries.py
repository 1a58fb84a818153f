"""The other libraries: none is imported before it is asked for, and what is missing is named."""

from __future__ import annotations

import json

import pytest

LIBRARIES = ("array_api_strict", "cupy", "dpnp", "mlx", "ndonnx")
FAKE = """
import sys, types, unidev
fake = types.ModuleType({name!r})
fake.__version__ = "1.0"
sys.modules[{name!r}] = fake
try:
    unidev.set_backend({name!r})
except unidev.UnidevError as error:
    print(error)
"""


def test_none_is_imported_or_chosen_before_it_is_asked_for(python) -> None:
    done = python(
        "import sys, unidev\n"
        "print(*unidev.list_backends())\n"
        f"assert not set({LIBRARIES!r}) & set(sys.modules)\n"
        "import array_api_strict\n"
        "assert unidev.active_backend().name == 'numpy'\n"
        "x = array_api_strict.ones(2)\n"
        "print(unidev.device_of(x).backend)\n",
        UNIDEV_BACKEND=None,
    )
    assert done.stdout.split() == ["array_api_strict", "cupy", "dpnp", "numpy", "array_api_strict"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("mlx", "an array of MLX has no device"),
        ("ndonnx", "it has no values before the graph runs"),
    ],
)
def test_a_library_without_devices_or_values_is_refused(python, name, said) -> None:
    assert said in python(FAKE.format(name=name)).stdout


@pytest.mark.parametrize("name", ["cupy", "dpnp"])
def test_a_library_that_is_missing_or_broken_is_named(python, name) -> None:
    program = f"import unidev\ntry:\n    unidev.set_backend({name!r})\n"
    program += "except unidev.FrameworkNotInstalledError as error:\n    print(error)"
    assert f"needs {name}, which is not installed" in python(program).stdout
    assert f"backend {name!r} does not load" in python(FAKE.format(name=name)).stdout


def test_the_doctor_does_not_expect_a_gpu_of_them(python) -> None:
    program = "import sys, unidev.__main__\nsys.argv = ['unidev', 'doctor', '--json']\n"
    done = python(program + "unidev.__main__.main()", UNIDEV_BACKEND=None)
    assert json.loads(done.stdout)["frameworks"] == [], done.stderr
