"""``place``, ``parameters``, and the questions about devices that are asked of models."""

from __future__ import annotations

import collections
import dataclasses
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import unidev
from unidev import nn


@pytest.fixture(autouse=True)
def on_numpy(two_gpus: None) -> None:
    unidev.seed(0)


def container() -> dict[str, Any]:
    return {
        "layers": [{"weight": unidev.rand((3, 2)), "bias": unidev.zeros(3)}, unidev.ones(2)],
        "name": "first",
        "steps": 3,
        "nothing": None,
    }


def layers() -> Any:
    return nn.sequential(nn.dense(4, 3), nn.sequential(nn.batch_norm(3), nn.relu()))


# -- place ---------------------------------------------------------------------------------------


def test_what_is_there_already_stays_while_the_rest_comes() -> None:
    model = [unidev.zeros(2, device="gpu:0"), unidev.ones(2)]
    there = model[0]
    unidev.place(model, "gpu:0")
    assert model[0] is there
    assert unidev.device_of(model) is unidev.gpu(0)


def test_the_containers_stay_the_same_objects_and_the_rest_stays() -> None:
    model = container()
    first = model["layers"][0]
    unidev.place(model, "gpu:0")
    assert model["layers"][0] is first
    assert (model["name"], model["steps"], model["nothing"]) == ("first", 3, None)


def test_numpy_has_no_optimizer_to_take_along() -> None:
    with pytest.raises(unidev.UnsupportedOperation, match="NumPy has none"):
        unidev.place(layers(), "gpu:0", optimizer=object())


def test_arrays_in_a_tuple_cannot_be_replaced_and_the_message_says_which() -> None:
    model = {"pair": (unidev.zeros(2), unidev.ones(2))}
    with pytest.raises(unidev.UnsupportedOperation, match=r"'pair.0' of a tuple.*as_in_device"):
        unidev.place(model, "gpu:0")
    assert unidev.device_of(model) is unidev.cpu()


# -- what is no model ----------------------------------------------------------------------------


@dataclasses.dataclass
class Unknown:
    weight: Any


@pytest.mark.parametrize("ask", [lambda x: unidev.place(x, "cpu"), unidev.parameters])
@pytest.mark.parametrize(
    ("what", "said"),
    [
        (np.zeros(3), "is a tensor, not a model"),
        (np.float32(3), "a model is required, not numpy.float32"),
        (3.5, "a model is required, not float"),
        ("model", "a model is required, not str"),
        (None, "a model is required, not NoneType"),
        (object(), "a model is required, not object"),
        (nn.dense, "a model is required, not function"),
        (np.ndarray, "a model is required, not the class numpy.ndarray: pass an object of it."),
        (unidev.Device("numpy", "cpu", 0), "a model is required, not unidev.device.Device"),
        (
            SimpleNamespace(weight=np.zeros(2)),
            "not types.SimpleNamespace. It holds a tensor of numpy (weight)",
        ),
        ({}, "this dict contains no tensor"),
        ([], "this list contains no tensor"),
        ([nn.dense(2, 2)], "contains a model but is not one itself"),
        ((), "a model is required, not tuple"),
        ({"name": "first", "steps": [3]}, "this dict contains no tensor"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_is_no_model_is_refused_by_name(ask: Any, what: Any, said: str) -> None:
    with pytest.raises(unidev.NotAModelError) as caught:
        ask(what)
    assert said in str(caught.value)
    has_more = isinstance(what, SimpleNamespace)  # where its tensor is, which only the cause has
    assert (caught.value.__cause__ is not None) == has_more
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize("ask", [lambda x: unidev.place(x, "gpu:0"), unidev.parameters])
@pytest.mark.parametrize("what", [{1, 2}, (x for x in [1])], ids=["a set", "a generator"])
def test_a_container_that_cannot_be_opened_is_refused(ask: Any, what: Any) -> None:
    with pytest.raises(unidev.UnsupportedContainerError):
        ask(what)


@pytest.mark.parametrize("ask", [lambda x: unidev.place(x, "gpu:0"), unidev.parameters])
@pytest.mark.parametrize("kind", [Unknown, collections.UserDict, lambda x: [{"a": Unknown(x)}]])
def test_arrays_in_other_containers_are_no_model(ask: Any, kind: Any) -> None:
    with pytest.raises(unidev.UnsupportedOperation, match="NumPy's models are dicts, lists"):
        ask(kind({"a": np.zeros(2)}))


def test_a_model_that_contains_itself_is_refused() -> None:
    model: dict[str, Any] = {"weight": unidev.zeros(2)}
    model["self"] = model
    with pytest.raises(unidev.CircularContainerError):
        unidev.place(model, "gpu:0")


def test_a_container_of_two_frameworks_or_of_one_without_models_is_no_model(run_python) -> None:
    minimal = Path(__file__).parents[2] / "examples" / "minimal_backend"
    said = run_python(
        """
        import unidev
        with unidev.use_backend("minimal"):
            theirs = unidev.zeros(2)
        with unidev.use_backend("numpy"):
            ours = unidev.zeros(2)
        for model in ([ours, theirs], [theirs]):
            for ask in (lambda x: unidev.place(x, "cpu"), unidev.parameters):
                try:
                    ask(model)
                except (unidev.NotAModelError, unidev.UnsupportedOperation) as error:
                    print(type(error).__name__, error)
        """,
        PYTHONPATH=os.pathsep.join([str(minimal), os.environ.get("PYTHONPATH", "")]),
        UNIDEV_PLUGINS="minimal_backend",
    ).splitlines()
    assert [line.split()[0] for line in said] == ["NotAModelError"] * 2 + [
        "UnsupportedOperation"
    ] * 2
    assert all("minimal and numpy" in line for line in said[:2])
    assert all("does not look into models" in line for line in said[2:])


# -- parameters, and where they are --------------------------------------------------------------


def test_parameters_have_names_in_order_and_write_through() -> None:
    net, model = layers(), container()
    assert list(unidev.parameters(net)) == ["0.weight", "0.bias", "1.0.weight", "1.0.bias"]
    assert list(unidev.parameters(model)) == ["layers.0.weight", "layers.0.bias", "layers.1"]
    unidev.parameters(model)["layers.1"][...] = 5
    assert model["layers"][1].tolist() == [5, 5]


def test_a_tied_parameter_stands_once_under_its_first_name() -> None:
    tied = unidev.ones(2)
    model = {"a": tied, "b": [unidev.zeros(1), tied]}
    assert list(unidev.parameters(model)) == ["a", "b.0"]


def test_the_device_of_a_model_is_that_of_its_tensors_or_an_error_that_names_them() -> None:
    net = layers()
    assert unidev.device_of(net) is unidev.cpu()
    unidev.place(net.layers[0], "gpu:1")
    with pytest.raises(unidev.DeviceMismatchError) as caught:
        unidev.device_of(net)
    assert "0.weight: gpu:1" in str(caught.value)
    assert "1.0.running_mean: cpu:0" in str(caught.value)


def test_a_layer_without_tensors_has_no_device() -> None:
    with pytest.raises(unidev.NotATensorError, match="this Layer contains no tensor"):
        unidev.device_of(nn.relu())
    assert unidev.place(nn.relu(), "gpu:1") is not None
