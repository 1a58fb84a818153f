from __future__ import annotations

import pytest
import tensorflow as tf

from unidev.backends.loading import load_backend
from unidev_tensorflow import installation
from unidev_tensorflow.installation import PAGE, TensorFlowInstallation

CUDA = {
    "is_cuda_build": True,
    "cuda_version": "12.5.1",
    "cudnn_version": "9",
    "cuda_compute_capabilities": ["sm_60", "sm_70", "sm_80", "compute_90"],
}


@pytest.fixture
def build_info(monkeypatch):
    """What TensorFlow says of itself; the test fills it."""
    reported: dict[str, object] = {}
    monkeypatch.setattr(tf.sysconfig, "get_build_info", lambda: reported)
    monkeypatch.setattr("platform.system", lambda: "Linux")
    return reported


@pytest.fixture
def no_cudnn(monkeypatch, tmp_path):
    """A machine on which there is no cuDNN."""
    monkeypatch.setattr(installation, "_FOLDERS", ())
    monkeypatch.setattr(installation, "_LOADER_CACHE", tmp_path / "ld.so.cache")
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    return tmp_path


def build():
    return load_backend("tensorflow").installation.build()


def test_a_build_for_the_cpu_is_told_as_such_with_the_published_command(build_info) -> None:
    build_info.update(is_cuda_build=False, is_rocm_build=False)
    reported = build()
    assert (reported.accelerator, reported.page) == (None, PAGE)
    assert "tensorflow[and-cuda]" in reported.wheels[0].command


def test_a_build_for_cuda_tells_its_versions_and_code(build_info) -> None:
    build_info.update(CUDA)
    reported = build()
    assert (reported.accelerator, reported.version, reported.cudnn) == ("cuda", "12.5.1", "9")
    assert reported.architectures == ("sm_60", "sm_70", "sm_80", "compute_90")


def test_a_cudnn_that_is_not_there_is_missing(build_info, no_cudnn) -> None:
    build_info.update(CUDA)
    assert build().missing == ("libcudnn.so.9",)


def test_cudnn_is_found_as_a_package(build_info, no_cudnn) -> None:
    build_info.update(CUDA)
    folder = no_cudnn / "nvidia/cudnn/lib"
    folder.mkdir(parents=True)
    (folder / "libcudnn.so.9").touch()
    assert build().missing == ()


def test_cudnn_is_found_in_a_folder_that_the_user_names(build_info, no_cudnn, monkeypatch) -> None:
    build_info.update(CUDA)
    (no_cudnn / "mine").mkdir()
    (no_cudnn / "mine/libcudnn.so.9").touch()
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/nowhere:{no_cudnn / 'mine'}")
    assert build().missing == ()


def test_cudnn_is_found_in_the_loaders_cache(build_info, no_cudnn) -> None:
    build_info.update(CUDA)
    (no_cudnn / "ld.so.cache").write_bytes(b"libcuda.so.1\0libcudnn.so.9\0/opt/libcudnn.so.9\0")
    assert build().missing == ()


def test_there_are_no_builds_for_gpus_but_on_linux(build_info, monkeypatch) -> None:
    monkeypatch.setattr("platform.system", lambda: "Windows")
    assert build().wheels == ()


def test_settings_say_whether_tf32_is_used() -> None:
    settings = TensorFlowInstallation(load_backend("tensorflow")).settings
    was_on = tf.config.experimental.tensor_float_32_execution_enabled()
    try:
        for is_on, word in ((True, "on"), (False, "off")):
            tf.config.experimental.enable_tensor_float_32_execution(is_on)
            assert settings() == {"TF32": word}
    finally:
        tf.config.experimental.enable_tensor_float_32_execution(was_on)
