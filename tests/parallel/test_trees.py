"""What takes part in a collective: a user's tree, or what unidev has made itself."""

from __future__ import annotations

import numpy as np
import pytest

import unidev
from unidev.backends.loading import load_backend
from unidev.parallel.exchange.trees import Tree
from unidev.tensors import containers


def two() -> list[np.ndarray]:
    return [np.zeros((2, 3), np.float32), np.ones(4, np.float32)]


def test_own_tensors_are_described_by_their_names() -> None:
    tree = Tree.of_own(["a.weight", "a.bias"], two(), load_backend("numpy"))
    assert tree.lines() == [
        "a float32 tensor of shape (2, 3) at ['a.weight']",
        "a float32 tensor of shape (4,) at ['a.bias']",
    ]
    assert tree.path(1) == "tree['a.bias']"


def test_own_tensors_are_alike_if_names_shapes_and_dtypes_are() -> None:
    numpy = load_backend("numpy")
    key = Tree.of_own(["a", "b"], two(), numpy).key()
    assert Tree.of_own(["a", "b"], two(), numpy).key() == key
    assert Tree.of_own(["a", "c"], two(), numpy).key() != key
    assert Tree.of_own(["a", "b"], two()[::-1], numpy).key() != key
    assert Tree.of_own(["a", "b"], [x.astype(int) for x in two()], numpy).key() != key


def test_one_tensor_under_two_names_is_exchanged_once() -> None:
    x = unidev.ones(3)
    tree = Tree.of_own(["a", "b"], [x, x], load_backend("numpy"))
    assert len(tree.tensors) == 1
    new = unidev.zeros(3)
    assert all(found is new for found in tree.with_tensors([new]))


def test_own_tensors_on_two_devices_are_named(two_gpus: None) -> None:
    tensors = [unidev.ones(1, device="gpu:0"), unidev.ones(1, device="gpu:1")]
    with pytest.raises(unidev.DeviceMismatchError) as caught:
        Tree.of_own(["a.weight", "a.bias"], tensors, unidev.active_backend())
    assert {"tree['a.weight']", "tree['a.bias']"} <= caught.value.devices.keys()


def test_the_paths_of_a_tree_are_computed_once_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    x = unidev.ones(3)
    tree = Tree({"a": [x, unidev.ones(2)], "b": x})
    computed = []
    whole = containers.Opened._paths_of_leaves
    monkeypatch.setattr(
        containers.Opened, "_paths_of_leaves", lambda self: computed.append(1) or whole(self)
    )
    assert tree.lines() == [
        "a float32 tensor of shape (3,) at ['a'][0] of a list of a dict",
        "a float32 tensor of shape (2,) at ['a'][1] of a list of a dict",
        "a float32 tensor of shape (3,) at ['b'] of a dict, tied to the tensor 0",
    ]
    assert len(computed) == 1
