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
    assert [str(unidev.device_of(x)) for x in unidev.replicate(tree, ["cpu", "gpu"])] == [
        "cpu:0",
        "gpu:0",
    ]


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


def test_the_bits_of_bfloat16_are_read_and_written_as_the_frameworks_own_arrays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import numpy as np

    backend = load_backend("toy")
    bits = np.array([0x3F80, 0xFFC1, 0x8000, 0x0001], np.uint16)
    held = bits.view(np.float16)  # which stands for one of ml_dtypes'
    monkeypatch.setattr(type(backend), "dtypes", {"bfloat16": "bfloat16"})
    monkeypatch.setattr(type(backend), "empty", lambda *_: None)
    monkeypatch.setattr(type(backend), "to_numpy", lambda *_: held)
    monkeypatch.setattr(type(backend), "from_numpy", lambda _, array, *__: array)
    assert TreeModels(backend).read(SimpleNamespace(dtype="bfloat16")).tolist() == bits.tolist()
    written = bfloat16_of_bits(bits, "bfloat16", backend.cpu, backend)
    assert (written.dtype, written.tobytes()) == (held.dtype, held.tobytes())
