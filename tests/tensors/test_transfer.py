from __future__ import annotations

import pytest

import unidev
from unidev.backends.loading import load_backend


@pytest.mark.parametrize("verb", [unidev.copy_to, unidev.as_in_device])
@pytest.mark.parametrize("x", [[], {}, (), [1, "a", None], {"a": []}])
def test_a_device_is_checked_also_where_no_tensor_is_moved(verb, x: object) -> None:
    assert verb(x, unidev.cpu()) is x
    with pytest.raises(unidev.DeviceSpecError, match="nonsense"):
        verb(x, "nonsense")
    with pytest.raises(unidev.DeviceNotFoundError, match="gpu:5"):
        verb(x, unidev.Device("numpy", "gpu", 5))


def test_a_framework_that_fails_is_translated_with_its_cause(monkeypatch) -> None:
    def fails(self, x, *rest):
        raise RuntimeError("the driver is gone")

    monkeypatch.setattr(type(load_backend("numpy")), "copy_to", fails)
    x = unidev.zeros((2, 3))
    with pytest.raises(
        unidev.FrameworkError, match=r"\(2, 3\) to cpu.*the driver is gone"
    ) as caught:
        unidev.copy_to(x, "cpu")
    assert isinstance(caught.value.__cause__, RuntimeError)
    with pytest.raises(unidev.FrameworkError):
        unidev.copy_to(x, unidev.cpu())


@pytest.mark.parametrize("error", [MemoryError("no"), RuntimeError("CUDA out of memory")])
def test_too_little_memory_is_an_error_of_its_own(monkeypatch, error: Exception) -> None:
    def fails(self, x, *rest):
        raise error

    monkeypatch.setattr(type(load_backend("numpy")), "copy_to", fails)
    with pytest.raises(unidev.OutOfDeviceMemoryError, match="ran out of memory") as caught:
        unidev.copy_to(unidev.zeros(3), "cpu")
    assert isinstance(caught.value, MemoryError)


def test_non_blocking_is_passed_on(two_gpus: None, monkeypatch) -> None:
    seen: list[bool] = []
    cls = type(load_backend("numpy"))
    copy_to = cls.copy_to
    monkeypatch.setattr(
        cls, "copy_to", lambda self, *rest: seen.append(rest[2]) or copy_to(self, *rest)
    )
    x = unidev.zeros(3)
    unidev.copy_to(x, "gpu:1", non_blocking=True)
    unidev.as_in_device([x], "gpu:1", non_blocking=True)
    unidev.copy_to(x, "gpu:1")
    assert seen == [True, True, False]
    for neither in (x, 1, "yes"):  # an array has no truth, which JAX's asked it for
        with pytest.raises(unidev.InvalidDataError, match="non_blocking must be True or False"):
            unidev.copy_to([x], "gpu:1", non_blocking=neither)


def test_a_batch_of_two_backends_is_refused(add_plugin, run_python) -> None:
    add_plugin("wrapped", WRAPPED)
    said = run_python(
        """
        import numpy, unidev, wrapped
        for verb in (unidev.copy_to, unidev.as_in_device):
            try:
                verb([numpy.zeros(2), wrapped.Tensor()], "cpu")
            except unidev.BackendMismatchError as error:
                print(str(error).partition(": unidev")[0])
        """,
        UNIDEV_PLUGINS="wrapped",
        UNIDEV_BACKEND="numpy",
    )
    assert (
        said.splitlines()
        == ["at [1]: one container holds tensors of two backends, numpy and wrapped"] * 2
    )


WRAPPED = """
    import unidev
    from unidev.backends.numpy_backend.backend import NumpyBackend

    class Tensor:
        shape = (2,)

    class Net:
        pass

    class Wrapped(NumpyBackend):
        tensor_types = (Tensor,)
        model_types = (Net,)
        def copy_to(self, x, device, non_blocking):
            return Tensor()

    @unidev.hookimpl
    def unidev_register_backend():
        return unidev.BackendSpec(
            name="wrapped", contract_version=3, framework="wrapped", install="-",
            load=lambda: Wrapped,
        )
"""


def test_models_are_refused_and_told_apart(add_plugin, run_python) -> None:
    add_plugin("wrapped", WRAPPED)
    said = run_python(
        """
        import unidev, wrapped
        for x in (wrapped.Net(), [wrapped.Net()], {"net": wrapped.Net()}):
            try:
                unidev.copy_to(x, "cpu")
            except unidev.NotATensorError as error:
                print("wrapped.Net. It is a model" in str(error))
        """,
        UNIDEV_PLUGINS="wrapped",
    )
    assert said.splitlines() == ["True"] * 3
