"""Models that are trees of immutable tensors, of which new ones are made: those of the toy."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import unidev
from unidev.backends.loading import load_backend
from unidev.contract import TreeModels
from unidev.models.checkpoints.matching import bfloat16_of_bits

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("toy")


@dataclass(frozen=True)
class Dense:
    weight: Any
    bias: Any
    name: str = "dense"


class State(NamedTuple):
    count: Any
    moments: Any


def net() -> dict[str, Any]:
    w, b = unidev.ones((2, 3)), unidev.zeros((1, 3))
    return {"first": Dense(w, b), "rest": (w, [b])}


def where(tree: Any) -> str:
    return str(unidev.device_of(tree))


def values(x: Any) -> Any:
    return unidev.to_numpy(x).tolist()


def test_place_returns_a_new_tree_and_changes_none() -> None:
    old = net()
    weight = old["first"].weight
    new = unidev.place(old, "gpu")
    assert (where(new), where(old), old["first"].weight is weight) == ("gpu:0", "cpu:0", True)
    assert (type(new["first"]), new["first"].name, type(new["rest"])) == (Dense, "dense", tuple)
    assert new["rest"][0] is new["first"].weight
    assert new["rest"][1][0] is new["first"].bias
    assert unidev.place(new, "gpu") is new


def test_the_state_of_an_optimizer_moves_along() -> None:
    old = net()
    state = State(unidev.zeros(()), {"m": [unidev.zeros((2, 3))], "same": old["first"].weight})
    new, moved = unidev.place(old, "gpu", optimizer=state)
    assert (where(new), where(moved), where(state)) == ("gpu:0", "gpu:0", "cpu:0")
    assert type(moved) is State
    assert moved.moments["same"] is new["first"].weight


class Pair:
    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b


unidev.register_container(
    Pair,
    lambda pair: ([pair.a, pair.b], None, [".inner['a b']", "['b c']"]),
    lambda _, both: Pair(*both),
)


def test_names_are_keys_fields_and_positions() -> None:
    tree = {**net(), "state": State(1, [unidev.ones(1)])}
    assert [*unidev.parameters(tree)] == ["first.weight", "first.bias", "state.moments.0"]
    x = unidev.ones(1)
    assert [*unidev.parameters(Pair(x, unidev.ones(1)))] == ["inner.a b", "b c"]
    assert [*unidev.parameters(Dense(x, x))] == ["weight"]
    with pytest.raises(unidev.InvalidDataError, match=r"this dict have the name 'a\.b'"):
        unidev.parameters({"a": {"b": x}, "a.b": unidev.ones(1)})


def test_it_is_trained_into_a_new_one() -> None:
    old = unidev.place(net(), "gpu")
    x = unidev.full((4, 2), 2.0, device="gpu")

    def loss_of(net: Any, x: Any) -> Any:
        y = x @ net["first"].weight + net["first"].bias
        return (y * y).sum()

    loss, gradients = unidev.value_and_grad(loss_of)(old, x)
    assert (values(loss), where(gradients), gradients["first"].name) == (192, "gpu:0", "dense")
    assert values(gradients["first"].bias) == [[32, 32, 32]]
    new = unidev.sgd(old, gradients, lr=0.125)
    assert (type(new["first"]), where(new)) == (Dense, "gpu:0")
    assert new["rest"][0] is new["first"].weight
    assert values(new["first"].bias) == [[-4, -4, -4]]
    assert values(old["first"].bias) == [[0, 0, 0]]


def test_a_checkpoint_is_loaded_into_a_new_one(tmp_path: Path) -> None:
    file = tmp_path / "net.safetensors"
    unidev.save_parameters(net(), file)
    zeros = unidev.zeros((2, 3))
    bias = unidev.ones((1, 3))
    other = {"first": Dense(zeros, bias, "other"), "rest": (zeros, [bias])}
    loaded = unidev.load_parameters(other, file, device="gpu")
    assert (where(loaded), where(other), loaded["first"].name) == ("gpu:0", "cpu:0", "other")
    assert values(loaded["first"].weight) == [[1, 1, 1], [1, 1, 1]]
    assert values(zeros) == [[0, 0, 0], [0, 0, 0]]
    assert loaded["rest"][0] is loaded["first"].weight
    assert where(unidev.load_parameters(other, file)) == "cpu:0"
    with pytest.raises(unidev.CheckpointError) as caught:
        unidev.load_parameters({**other, "first": Dense(zeros, unidev.zeros((1, 4)))}, file)
    assert "first.bias: float32 (1, 3) in the file, float32 (1, 4) in the model" in (
        caught.value.problems
    )


@pytest.mark.parametrize(
    "refuses",
    [
        lambda net: unidev.DataParallel(net, ["cpu", "gpu"]),
        unidev.nn.train_mode,
        unidev.nn.sequential,
        lambda net: unidev.spread(net, ["cpu", "gpu"]),
    ],
)
def test_what_keeps_a_model_refuses_a_tree(refuses: Callable[[Any], Any]) -> None:
    tree = net()
    with pytest.raises(unidev.NotAModelError, match="is a tree of immutable tensors"):
        refuses(tree)
    assert [*map(where, unidev.replicate(tree, ["cpu", "gpu"]))] == ["cpu:0", "gpu:0"]


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({}, "this dict contains no tensor, so it is not a model"),
        (SimpleNamespace(a=3), "a model is required, not types.SimpleNamespace"),
        (3, "a model is required, not int"),
    ],
)
def test_what_has_no_tensor_is_no_tree(tree: Any, message: str) -> None:
    for verb in (lambda tree: unidev.place(tree, "gpu"), unidev.parameters):
        with pytest.raises(unidev.NotAModelError, match=message):
            verb(tree)


def test_an_optimizer_that_is_no_state_is_refused() -> None:
    with pytest.raises(unidev.NotATensorError, match="of a tree is its state, a container of"):
        unidev.place(net(), "gpu", optimizer=3)


def test_a_state_of_another_framework_is_refused() -> None:
    import numpy as np

    with pytest.raises(unidev.BackendMismatchError, match="hold tensors of two backends"):
        unidev.place(net(), "gpu", optimizer=[np.ones(1)])


def test_the_bits_of_bfloat16_are_read_and_written_by_what_the_host_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import numpy as np

    backend = load_backend("toy")
    bits = np.array([0x3F80, 0xFFC1, 0x8000, 0x0001], np.uint16)
    as_float32 = (bits.astype(np.uint32) << 16).view(np.float32)
    monkeypatch.setattr(type(backend), "dtypes", {"bfloat16": "bfloat16"})
    monkeypatch.setattr(type(backend), "empty", lambda *_: None)
    for held in (as_float32, bits.view(np.float16)):  # float16 stands for one of ml_dtypes'
        monkeypatch.setattr(type(backend), "to_numpy", lambda *_, held=held: held)
        assert TreeModels(backend).read(SimpleNamespace(dtype="bfloat16")).tolist() == bits.tolist()
        written = bfloat16_of_bits(bits, "bfloat16", backend)
        assert (written.dtype, written.tobytes()) == (held.dtype, held.tobytes())
