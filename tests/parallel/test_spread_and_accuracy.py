"""``spread``, ``evaluate_accuracy`` and a ``DataParallel`` that only infers, on NumPy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import unidev
from unidev import nn
from unidev.parallel.devices.spreading import _balanced


@pytest.fixture(autouse=True)
def on_numpy(two_gpus: None) -> None:
    unidev.seed(3)


def net() -> Any:
    return nn.sequential(nn.dense(4, 8), nn.batch_norm(8), nn.dropout(0.5), nn.dense(8, 3))


def batch(rows: int = 7) -> Any:
    return unidev.array(np.random.default_rng(0).standard_normal((rows, 4), dtype="f4"))


@pytest.mark.parametrize(
    ("sizes", "count", "expected"),
    [
        ([1, 1, 1, 9], 2, [3]),
        ([9, 1, 1, 1], 2, [1]),
        ([1, 2, 3, 4, 5], 3, [3, 4]),
        ([0, 0, 5], 3, [1, 2]),
        ([4, 0], 1, []),
    ],
)
def test_the_fullest_device_has_as_little_as_possible(
    sizes: list[int], count: int, expected: list[int]
) -> None:
    assert _balanced(sizes, count) == expected


def test_a_failure_leaves_each_layer_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    model = net()
    models = unidev.active_backend().models
    twin = models.twin

    def failing(part: Any, device: Any) -> Any:
        if str(device) == "gpu:1":
            raise ValueError("no memory")
        return twin(part, device)

    with monkeypatch.context() as patched:
        patched.setattr(models, "twin", failing)
        with pytest.raises(unidev.FrameworkError, match="no memory"):
            unidev.spread(model, ["gpu:0", "gpu:1"])
    assert unidev.device_of(model) is unidev.cpu()
    assert unidev.spread(model, ["gpu:0", "gpu:1"]) is model
    assert str(unidev.device_of(nn.eval_mode(model)(batch()))) == "gpu:1"


def test_a_plugin_of_version_2_gets_a_function_of_the_input(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    backend = unidev.active_backend()
    before = backend.layers.before
    monkeypatch.setattr(backend, "spec", replace(backend.spec, contract_version=2))
    old = lambda layer, function: before(layer, lambda _, x: function(x))  # noqa: E731
    monkeypatch.setattr(backend.layers, "before", old)
    model = unidev.spread(net(), ["gpu:0", "gpu:1"])
    assert str(unidev.device_of(nn.eval_mode(model)(batch()))) == "gpu:1"


def test_accuracy_is_that_of_the_classes_and_each_mode_comes_back() -> None:
    model = net()
    frozen = model.layers[1]
    nn.eval_mode(frozen)
    modes = [layer.is_training for layer in model.layers]
    kept = unidev.to_numpy(frozen.running_mean).tolist()
    x = batch()
    nn.eval_mode(model)
    classes = unidev.to_numpy(model(x)).argmax(1)
    nn.train_mode(model)
    nn.eval_mode(frozen)
    wrong = np.where(np.arange(7) < 2, (classes + 1) % 3, classes)
    for labels in (wrong, wrong.tolist(), unidev.array(wrong), unidev.array(wrong, device="gpu:1")):
        assert unidev.evaluate_accuracy(model, [(x, labels)]) == 5 / 7
    several = ((x[i : i + 3], wrong[i : i + 3]) for i in (0, 3, 6))  # a generator
    assert unidev.evaluate_accuracy(model, several) == 5 / 7
    assert [layer.is_training for layer in model.layers] == modes
    assert model.is_training
    assert unidev.to_numpy(frozen.running_mean).tolist() == kept
    parallel = unidev.DataParallel(model, ["gpu:0", "gpu:1"])
    assert unidev.evaluate_accuracy(parallel, [(x, wrong)]) == 5 / 7


def test_a_model_of_arrays_is_a_model() -> None:
    weights = {"w": unidev.ones((4, 2))}
    parallel = unidev.DataParallel(weights, ["gpu:1", "gpu:0"])
    with parallel.replica(1) as replica:
        assert replica is weights
        assert str(unidev.device_of(replica)) == "gpu:0"
    weights["w"] = unidev.zeros((4, 2), device="gpu:1")
    with parallel.replica(1) as replica:
        assert not unidev.to_numpy(replica["w"]).any()
    assert str(unidev.device_of(parallel)) == "gpu:1"


@pytest.mark.parametrize("labels", [[1, 2], np.ones((7, 1))])
def test_labels_that_do_not_fit_are_an_error(labels: Any) -> None:
    model = net()
    with pytest.raises(unidev.InvalidDataError, match=r"\(7, 3\) and"):
        unidev.evaluate_accuracy(model, [(batch(), labels)])
    assert model.is_training


def test_what_is_no_model_has_no_accuracy() -> None:
    with pytest.raises(unidev.NotAModelError, match="is a tensor"):
        unidev.evaluate_accuracy(batch(), [])
    with pytest.raises(unidev.InvalidDataError, match="have no rows"):
        unidev.evaluate_accuracy(net(), [])


def test_without_autograd_there_are_no_gradients() -> None:
    parallel = unidev.DataParallel(net(), ["gpu:0", "gpu:1"])
    with pytest.raises(unidev.UnsupportedOperation, match="autograd"):
        unidev.value_and_grad(lambda model, x: model(x).sum())(parallel, batch())
    assert parallel(batch()).shape == (7, 3)


@pytest.mark.parametrize("wrong", ["residual", "sequential"])
def test_a_handle_is_not_a_layer(wrong: str) -> None:
    parallel = unidev.DataParallel(net(), ["gpu:0"])
    with pytest.raises(unidev.NotAModelError, match="Pass its `model`"):
        getattr(nn, wrong)(parallel)
    with pytest.raises(unidev.InvalidDataError, match=r"pairs \(X, y\), not"):
        unidev.evaluate_accuracy(net(), batch())
