from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

import unidev
from unidev.backends.loading import load_backend
from unidev.contract.backend import Memory

if TYPE_CHECKING:
    from collections.abc import Callable


def test_a_gpu_that_is_not_there_is_an_error_that_lists_what_is(two_gpus: None) -> None:
    with pytest.raises(unidev.DeviceNotFoundError) as caught:
        unidev.gpu(2)
    assert str(caught.value) == (
        "gpu:2 is not available: the numpy backend has cpu:0, gpu:0, gpu:1. try_gpu(2) falls back "
        "to the CPU; UNIDEV_SIMULATE=3, set before Python starts, simulates GPUs."
    )
    assert caught.value.spec == "gpu:2"


def test_no_more_gpus_are_recommended_than_can_be_simulated() -> None:
    with pytest.raises(unidev.DeviceNotFoundError) as caught:
        unidev.gpu(64)
    assert "UNIDEV_SIMULATE" not in str(caught.value)


@pytest.mark.parametrize(
    "index", [True, False, -1, 1.0, "1", None, [0], pytest.param(10**5000, id="huge")]
)
def test_what_is_no_index_is_refused_and_named(index: object) -> None:
    with pytest.raises(unidev.DeviceSpecError, match="device index must be a non-negative"):
        unidev.gpu(index)  # type: ignore[arg-type]
    if index != 10**5000:
        with pytest.raises(unidev.DeviceSpecError) as caught:
            unidev.try_gpu(index)  # type: ignore[arg-type]
        assert repr(index) in str(caught.value)
        assert caught.value.spec is index


def test_numpys_ints_are_indexes(two_gpus: None) -> None:
    import numpy as np

    assert unidev.gpu(np.int8(1)) is unidev.gpu(1)  # type: ignore[arg-type]
    assert unidev.try_gpu(np.uint64(1)) is unidev.gpu(1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "spec",
    [
        "", "GPU:0", "gpu:", ":0", "gpu:one", "gpu 1", "gpu:1\n", " gpu:1", "gpu:1:1", "gpu:+1",
        "cuda:0", "tpu", "gpu:--1", "gpu:\u0661",
        pytest.param("cpu:" + "9" * 5000, id="long"), "\udc80", b"cpu", 1.5,
        None, [], {}, object(), type, unidev,
    ],
)  # fmt: skip
def test_what_names_no_device_is_refused_with_what_there_is(two_gpus: None, spec: object) -> None:
    with pytest.raises(unidev.DeviceSpecError) as caught:
        unidev.as_device(spec)
    assert "write cpu or gpu, with an index as in gpu:1. Its devices: cpu:0, gpu:0, gpu:1" in str(
        caught.value
    )
    assert len(str(caught.value)) < 400
    assert caught.value.spec is spec
    if not isinstance(spec, str):
        assert f"(of type {type(spec).__name__})" in str(caught.value)


def test_the_frameworks_spelling_and_objects_are_asked_for_only_after_ours(
    two_gpus: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def parse_native(self: object, spec: object) -> tuple[str, int] | None:
        asked.append(spec)
        known = {"sim:1": 1, "sim:9": 9, "sim:-2": -2, "CPU:2": 1, "CPU:10": 9}
        return ("gpu", known[str(spec)]) if spec in known else None

    monkeypatch.setattr(type(unidev.active_backend()), "parse_native", parse_native)
    assert unidev.as_device("sim:1") is unidev.as_device("gpu:1")
    assert asked == ["sim:1"]
    means = "'sim:9' means gpu:9: unidev's kinds of device are cpu and gpu. gpu:9 is not available"
    with pytest.raises(unidev.DeviceNotFoundError, match=means) as caught:
        unidev.as_device("sim:9")
    assert caught.value.spec == "sim:9"
    with pytest.raises(unidev.DeviceSpecError, match="-2"):
        unidev.as_device("sim:-2")
    for spec, hint in (("cpu:2", " The framework's CPU:2 is gpu:1: write that."), ("cpu:10", "")):
        with pytest.raises(unidev.DeviceNotFoundError, match=f"gpu:1\\.{hint}$"):
            unidev.as_device(spec)


def test_a_device_means_its_own_backend_whatever_is_selected(two_gpus: None) -> None:
    gpu = unidev.gpu(1)
    assert unidev.as_device(gpu) is gpu
    with pytest.raises(unidev.BackendNotFoundError, match="nobody"):
        unidev.as_device(unidev.Device("nobody", "cpu", 0))


def test_synchronize_waits_for_one_device_or_for_all(two_gpus: None, monkeypatch) -> None:
    waited: list[str] = []
    monkeypatch.setattr(
        type(unidev.active_backend()),
        "synchronize",
        lambda self, device: waited.append(str(device)),
    )
    unidev.synchronize("gpu:1")
    assert waited == ["gpu:1"]
    unidev.synchronize()
    assert waited == ["gpu:1", "cpu:0", "gpu:0", "gpu:1"]


def test_memory_that_nobody_counts_says_why() -> None:
    with pytest.raises(
        unidev.UnsupportedOperation, match="memory is not supported: NumPy does not count"
    ):
        unidev.memory("cpu")


def test_memory_is_the_backends(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Memory(used_bytes=1, free_bytes=2, total_bytes=3)
    monkeypatch.setattr(type(load_backend("numpy")), "memory", lambda self, device: told)
    assert unidev.memory("cpu") is told


def test_a_device_object_of_another_framework_is_named_as_that(add_plugin, run_python) -> None:
    add_plugin(
        "otherframe",
        """
        import unidev
        from unidev.backends.numpy_backend.backend import NumpyBackend

        class Place:
            pass

        class Other(NumpyBackend):
            tensor_types = ()
            def parse_native(self, spec):
                return ("cpu", 0) if isinstance(spec, Place) else None

        @unidev.hookimpl
        def unidev_register_backend():
            return unidev.BackendSpec(
                name="other", contract_version=3, framework="otherframe", install="-",
                load=lambda: Other,
            )
        """,
    )
    said = run_python(
        """
        import numpy, otherframe, unidev
        print(repr(unidev.as_device(otherframe.Place())))
        x = numpy.zeros(3)
        for device in (otherframe.Place(), unidev.as_device(otherframe.Place())):
            try:
                unidev.copy_to(x, device)
            except unidev.BackendMismatchError as error:
                print(error.backend, "a device of the other backend" in str(error))
        """,
        UNIDEV_PLUGINS="otherframe",
        UNIDEV_BACKEND="numpy",
    )
    assert said.splitlines() == ["<Device cpu:0 of other>", "other True", "other True"]


def test_a_gpu_of_a_backend_without_any_kind_of_gpu_is_not_there(monkeypatch) -> None:
    backend = unidev.active_backend()
    monkeypatch.setattr(type(backend), "kinds", ("cpu",))
    for ask in (lambda: unidev.as_device("gpu"), lambda: unidev.gpu(0)):
        with pytest.raises(unidev.DeviceNotFoundError, match="gpu:0 is not available"):
            ask()
    assert [str(device) for device in unidev.list_devices()] == ["cpu:0"]


def test_simulated_gpus_are_advised_only_where_they_can_be_had(monkeypatch) -> None:
    with pytest.raises(unidev.DeviceNotFoundError, match="UNIDEV_SIMULATE=64"):
        unidev.gpu(63)
    backend = unidev.active_backend()
    spec = dataclasses.replace(backend.spec, simulator=unidev.unsupported("none"))
    monkeypatch.setattr(backend, "spec", spec)
    with pytest.raises(unidev.DeviceNotFoundError) as refused:
        unidev.gpu(63)
    assert "UNIDEV_SIMULATE" not in str(refused.value)


@pytest.mark.parametrize(
    ("method", "ask"),
    [
        ("synchronize", lambda: unidev.synchronize("gpu:1")),
        ("synchronize", unidev.synchronize),
        ("memory", lambda: unidev.memory("gpu:1")),
        ("hardware_name", lambda: unidev.gpu(1).name),
    ],
)
def test_an_asynchronous_error_of_the_framework_arrives_as_one(
    method: str, ask: Callable[[], object], two_gpus: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("CUDA error: device-side assert triggered")

    monkeypatch.setattr(type(unidev.active_backend()), method, fail)
    with pytest.raises(unidev.FrameworkError, match="device-side assert") as caught:
        ask()
    assert isinstance(caught.value.__cause__, RuntimeError)
