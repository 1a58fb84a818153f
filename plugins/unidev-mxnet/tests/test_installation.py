from __future__ import annotations

from importlib import metadata

import pytest

from unidev.backends.loading import load_backend


@pytest.fixture
def mxnet(monkeypatch):
    """The backend, on Linux."""
    monkeypatch.setattr("platform.system", lambda: "Linux")
    return load_backend("mxnet")


def built(monkeypatch, backend, *, cuda, distribution=None):
    import mxnet as mx

    def version(name):
        if name != distribution:
            raise metadata.PackageNotFoundError(name)
        return "1.9.1"

    monkeypatch.setattr(mx.runtime.Features, "is_enabled", lambda self, name: cuda)
    monkeypatch.setattr(metadata, "version", version)
    return backend.installation.build()


def test_a_build_for_the_cpu_is_told_as_such_with_the_published_command(monkeypatch, mxnet) -> None:
    build = built(monkeypatch, mxnet, cuda=False)
    assert (build.accelerator, build.version) == (None, None)
    assert "pip install mxnet-cu112" in build.wheels[0].command


def test_the_version_of_cuda_is_in_the_distributions_name(monkeypatch, mxnet) -> None:
    build = built(monkeypatch, mxnet, cuda=True, distribution="mxnet-cu110")
    assert (build.accelerator, build.version) == ("cuda", "11.0")


def test_a_build_of_ones_own_does_not_tell_its_cuda(monkeypatch, mxnet) -> None:
    build = built(monkeypatch, mxnet, cuda=True)
    assert (build.accelerator, build.version) == ("cuda", None)
