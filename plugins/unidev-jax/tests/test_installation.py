"""What ``unidev doctor`` reads of the installed JAX."""

from __future__ import annotations

from types import SimpleNamespace

import jax
import pytest

import unidev
from unidev_jax import devices, installation


@pytest.fixture
def build(monkeypatch):
    """The build, of a machine on which these distributions are installed."""

    def made(*names: str, system: str = "Linux", **versions: str):
        monkeypatch.setattr(
            installation,
            "version",
            lambda name: versions.get(name.removeprefix("jax-").removesuffix("-plugin"), "0.10.2"),
        )
        found = [SimpleNamespace(metadata={"Name": name}) for name in names]
        monkeypatch.setattr(devices, "distributions", lambda: found)
        monkeypatch.setattr(installation.platform, "system", lambda: system)
        return unidev.active_backend().installation.build()

    return made


def test_without_a_plugin_jax_has_the_cpu_alone(build):
    found = build("jax", "jaxlib")
    assert found.accelerator is None
    assert [wheel.command for wheel in found.wheels] == [
        "pip install -U 'jax[cuda13]'", "pip install -U 'jax[cuda12]'"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("jax-cuda12-plugin", ("cuda", "12")),
        ("jax_cuda13_plugin", ("cuda", "13")),
        ("jax-rocm60-plugin", ("rocm", "6.0")),
        ("jax-rocm7-plugin", ("rocm", "7")),
    ],
)
def test_a_plugin_says_what_jax_was_built_for(name, expected, build):
    found = build("jax", "jaxlib", name)
    assert (found.accelerator, found.version) == expected


def test_of_two_plugins_for_cuda_the_newer_is_reported(build):
    assert build("jax-cuda12-plugin", "jax-cuda13-plugin").version == "13"


def test_two_plugins_for_cuda_are_a_conflict_and_the_older_one_goes(build):
    (conflict,) = build("jax-cuda12-plugin", "jax-cuda13-plugin").conflicts
    assert conflict.found.startswith("jax-cuda13-plugin and jax-cuda12-plugin are installed")
    assert conflict.command == "pip uninstall -y jax-cuda12-plugin jax-cuda12-pjrt"


def test_a_plugin_of_another_version_than_jaxlibs_is_a_conflict(build):
    (conflict,) = build("jaxlib", "jax-cuda12-plugin", cuda12="0.9.1").conflicts
    assert conflict.found == "jax-cuda12-plugin 0.9.1 is beside jaxlib 0.10.2: JAX does not use it."
    assert conflict.command == f"pip install -U 'jax[cuda12]=={jax.__version__}'"


def test_versions_are_compared_as_jax_does(build):
    assert build("jaxlib", "jax-cuda12-plugin", cuda12="0.10.2.1").conflicts != ()
    assert build("jaxlib", "jax-cuda12-plugin", cuda12="0.10.2.dev1+local").conflicts == ()
    assert build("jaxlib", "jax-rocm7-plugin", rocm7="0.9.0").conflicts == ()


def test_elsewhere_than_on_linux_there_is_no_build_for_gpus(build):
    assert build("jax", system="Darwin").wheels == ()


def test_the_precision_of_products_is_a_setting():
    assert unidev.active_backend().installation.settings() == {"matmul precision": "default"}
