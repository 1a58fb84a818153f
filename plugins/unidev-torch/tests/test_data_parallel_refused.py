"""What ``DataParallel`` refuses, and that a step which fails leaves all as it was."""

from __future__ import annotations

import signal
from typing import Any

import pytest
from parallel_modules import bits, check_replicas, made
from torch import nn
from training_checks import THREE, batch, squares

import unidev
from unidev_torch.models import swap


def test_interrupted_or_failing_at_any_swap_it_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(swap, "_TOGETHER", 1)  # else there would be one part
    x, y = batch(3)
    net = unidev.DataParallel(made(), THREE)
    models = unidev.active_backend().models
    before = bits(net.model)
    sound = models.swap
    total = 0
    for stop in range(1, 18):  # there are 4 parts, swapped 4 times
        calls = 0

        def interrupted(part: Any, twin: Any, stop: int = stop) -> None:
            nonlocal calls
            calls += 1
            if calls == stop:
                signal.raise_signal(signal.SIGINT)
            sound(part, twin)

        models.swap = interrupted  # type: ignore[method-assign]
        try:
            unidev.value_and_grad(squares)(net, x, y)
        except KeyboardInterrupt:
            total += 1
        finally:
            del models.swap
        assert unidev.device_of(net) is net.devices[0]
        assert bits(net.model) == before
    assert total == 16
    check_replicas(net)


@pytest.fixture
def net() -> unidev.DataParallel:
    return unidev.DataParallel(made(), THREE)


def test_bad_input(net: unidev.DataParallel) -> None:
    x, y = batch()
    parallel: Any = unidev.DataParallel
    with pytest.raises(unidev.DeviceSpecError, match="at least one device"):
        parallel(made(), [])
    with pytest.raises(unidev.DeviceSpecError, match="must be a list"):
        parallel(made(), "gpu:0")
    with pytest.raises(unidev.InvalidDataError, match="devices lists gpu:1 twice"):
        parallel(made(), ["gpu:1", "gpu:0", "gpu:1"])
    with pytest.raises(unidev.BackendMismatchError, match="numpy"):
        parallel(made(), [unidev.contract.Device("numpy", "cpu", 0)])
    with pytest.raises(unidev.NotAModelError, match="is a tensor"):
        parallel(x, THREE)
    with pytest.raises(unidev.NotAModelError, match="model"):
        parallel([made(), made()], THREE)
    with pytest.raises(unidev.UnsupportedOperation, match="no shape yet"):
        parallel(nn.LazyLinear(3), THREE)
    with pytest.raises(unidev.NotAModelError, match="DataParallel is not a model"):
        parallel(net, THREE)
    with net.replica(1), pytest.raises(unidev.NotAModelError, match="that is at work"):
        parallel(net.model, THREE)
    with pytest.raises(unidev.InvalidDataError, match="mean, sum, not 'max'"):
        parallel(made(), THREE, reduction="max")
    with pytest.raises(unidev.NotAModelError, match="Pass its `model`"):
        unidev.place(net, "cpu")
    with pytest.raises(unidev.NotATensorError, match="model"):
        unidev.copy_to(net, "cpu")  # type: ignore[type-var]
    with pytest.raises(unidev.InvalidDataError, match="no tensor whose rows"):
        unidev.value_and_grad(squares)(net, 1.5)
    with pytest.raises(unidev.InvalidDataError, match="has no dimension"):
        unidev.value_and_grad(squares)(net, x.sum(), y)
    with pytest.raises(unidev.InvalidDataError, match="the replicas of"), net.replica(3):
        pass


def test_it_is_not_called_inside_itself(net: unidev.DataParallel) -> None:
    x, y = batch()
    with pytest.raises(unidev.UnsupportedOperation, match="the loss receives the model itself"):
        unidev.value_and_grad(lambda _, x, y: squares(net, x, y))(net, x, y)
    with net.replica(1), pytest.raises(unidev.UnsupportedOperation, match="at work"):
        net(x)
    assert net(x).shape == (31, 2)


def test_a_new_one_takes_the_place_of_one_that_a_kept_error_holds(net: unidev.DataParallel) -> None:
    x, y = batch()
    with pytest.raises(ZeroDivisionError) as kept:  # as a notebook keeps the last one
        unidev.value_and_grad(lambda *_: 1 / 0)(net, x, y)
    newer = unidev.DataParallel(net.model, THREE[::-1])
    assert unidev.value_and_grad(squares)(newer, x, y)
    with pytest.raises(unidev.UnsupportedOperation, match="newer one"):
        unidev.value_and_grad(squares)(net, x, y)
    del kept


def test_a_model_that_does_not_fit_stays_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    model = made()
    models = unidev.active_backend().models
    twin = models.twin

    def failing(part: Any, device: unidev.Device) -> Any:
        if device.index == 2:
            raise RuntimeError("no memory")
        return twin(part, device)

    with monkeypatch.context() as patched:
        patched.setattr(models, "twin", failing)
        with pytest.raises(unidev.FrameworkError, match="no memory"):
            unidev.DataParallel(model, THREE)
    assert str(unidev.device_of(model)) == "cpu:0"
    assert unidev.DataParallel(model, THREE[:2])
