from __future__ import annotations

import gc
import pickle
import weakref

import pytest

import unidev
from unidev import Device
from unidev.backends.loading import load_backend
from unidev.backends.scopes import stack
from unidev.contract.backend import Backend


def test_unpickling_does_not_ask_whether_the_device_is_there_and_use_does() -> None:
    device = pickle.loads(pickle.dumps(Device("numpy", "gpu", 7)))
    assert str(device) == "gpu:7"
    with pytest.raises(unidev.DeviceNotFoundError, match=r"gpu:7 is not available.*cpu:0"):
        unidev.zeros(3, device=device)
    with pytest.raises(unidev.DeviceNotFoundError):
        device.__enter__()
    assert not stack.scopes


@pytest.mark.parametrize(
    "parts",
    [
        ("numpy", "gpu", True),
        ("numpy", "gpu", 1.0),
        ("numpy", "gpu", -1),
        ("numpy", "gpu", 10**5000),
        ("numpy", 1, 1),
        ([], "gpu", 1),
        (None, "gpu", 1),
    ],
)
def test_a_device_of_nonsense_is_refused_also_after_its_equal_was_made(parts) -> None:
    Device("numpy", "gpu", 1)
    with pytest.raises(unidev.DeviceSpecError, match="a non-negative integer"):
        Device(*parts)


def test_an_index_of_numpys_makes_the_same_device() -> None:
    import numpy as np

    device = Device("numpy", "gpu", np.int64(123_456))
    assert device is Device("numpy", "gpu", 123_456)
    assert type(device.index) is int


def test_a_device_of_no_backend_says_so_when_it_is_used() -> None:
    device = Device("nobody", "cpu", 0)
    assert repr(device) == "<Device cpu:0 of nobody>"
    with pytest.raises(unidev.BackendNotFoundError, match="'nobody'"):
        _ = device.name


def test_what_it_says_of_itself(two_gpus: None) -> None:
    cpu, gpu = unidev.cpu(), unidev.gpu(1)
    assert (str(cpu), repr(gpu)) == ("cpu:0", "<Device gpu:1 of numpy>")
    assert (gpu.kind, gpu.index, gpu.backend) == ("gpu", 1, "numpy")
    assert (cpu.is_simulated, gpu.is_simulated) == (False, True)
    assert (cpu.name, gpu.name) == ("host memory", "simulated GPU 1")
    assert gpu.native_name == "gpu:1"
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        _ = gpu.colour


def test_the_native_object_is_asked_for_once(two_gpus: None, monkeypatch) -> None:
    asked: list[int] = []
    backend = load_backend("numpy")
    monkeypatch.setattr(
        type(backend), "native_device", lambda self, kind, index: asked.append(index) or object()
    )
    device = Device("numpy", "gpu", 1)
    assert device.native is device.native
    assert asked == [1]


def test_a_device_can_be_referred_to_weakly() -> None:
    device = unidev.cpu()
    reference = weakref.ref(device)
    del device
    gc.collect()
    assert reference() is unidev.cpu()


def test_the_frameworks_own_scope_is_entered_and_left_with_ours(
    two_gpus: None, monkeypatch
) -> None:
    from contextlib import contextmanager

    events: list[object] = []

    @contextmanager
    def native_scope(device):
        events.append(("enter", str(device)))
        try:
            yield
        except ZeroDivisionError:
            events.append("saw the exception")
            raise
        finally:
            events.append("leave")

    monkeypatch.setattr(type(unidev.active_backend()), "native_scope", staticmethod(native_scope))
    with pytest.raises(ZeroDivisionError), unidev.gpu(1):
        raise ZeroDivisionError
    assert events == [("enter", "gpu:1"), "saw the exception", "leave"]


def test_a_framework_that_refuses_its_scope_leaves_none_of_ours(
    two_gpus: None, monkeypatch
) -> None:
    class Refuses:
        def __enter__(self) -> None:
            raise RuntimeError("no")

        def __exit__(self, *exc_info: object) -> None:
            raise AssertionError("was never entered")

    monkeypatch.setattr(
        type(unidev.active_backend()), "native_scope", staticmethod(lambda device: Refuses())
    )
    with pytest.raises(RuntimeError, match="no"), unidev.gpu(1):
        pass
    assert not stack.scopes


def test_is_simulated_follows_the_backend_and_not_the_name(nothing_loaded: None) -> None:
    assert isinstance(load_backend("numpy"), Backend)
    assert Device("numpy", "gpu", 0).is_simulated is False
