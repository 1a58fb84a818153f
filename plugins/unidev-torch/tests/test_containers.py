"""What is registered with PyTorch, and keys that are tensors; of libraries: `nox -s libraries`."""

from __future__ import annotations

import subprocess
import sys
from collections import OrderedDict
from typing import Any

import pytest
import torch
from torch.utils import _pytree

import unidev


class Pair:
    """A program's own class, which it has registered with PyTorch, and not with unidev."""

    def __init__(self, x: Any, y: Any) -> None:
        self.both = {"x": x, "y": y}


def test_what_a_program_registered_with_torch_is_moved_and_trained() -> None:
    nodes = _pytree.SUPPORTED_NODES
    _pytree.register_pytree_node(
        Pair, lambda pair: ([*pair.both.values()], None), lambda children, _: Pair(*children)
    )
    try:
        pair = Pair(torch.ones(2), {"y": torch.zeros(3)})
        moved = unidev.copy_to([pair], "cpu")[0]
        assert type(moved) is Pair
        assert moved.both["x"] is not pair.both["x"]
        assert unidev.shares_memory(moved.both["x"], pair.both["x"]) is False
        assert unidev.device_of(pair) is unidev.cpu()
        _, gradients = unidev.value_and_grad(lambda pair: (2 * pair.both["x"]).sum())(pair)
        assert type(gradients) is Pair
        assert gradients.both["x"].tolist() == [2, 2]
        assert gradients.both["y"]["y"].tolist() == [0, 0, 0]
        unidev.sgd(pair, gradients, lr=0.5)
        assert pair.both["x"].tolist() == [0, 0]
    finally:
        del nodes[Pair]


def test_a_size_is_numbers_and_stays_itself() -> None:
    size = torch.Size([2, 3])
    assert unidev.copy_to([torch.ones(1), size], "cpu")[1] is size
    with pytest.raises(unidev.NotATensorError):
        unidev.copy_to(size, "cpu")


def test_a_dict_keyed_by_tensors_is_refused_with_its_path_and_the_advice_works() -> None:
    layer = torch.nn.Linear(2, 1)
    optimizer = torch.optim.Adam(layer.parameters())
    layer(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    for tree in (optimizer.state, {(layer.bias, 1): layer.bias}, OrderedDict({layer.bias: 1})):
        for verb in (unidev.copy_to, unidev.device_put):
            with pytest.raises(unidev.UnsupportedContainerError, match=r"at \['s'\] has a .* key"):
                verb({"s": tree}, "gpu:0")
        assert unidev.device_of(unidev.copy_to(list(tree.items()), "gpu:0")) is unidev.gpu(0)
    moved = unidev.copy_to(optimizer.state_dict(), "gpu:0")
    assert moved["state"][0]["exp_avg"].device == unidev.gpu(0).native
    assert unidev.copy_to({layer: torch.ones(1)}, "gpu:0")[layer].device == unidev.gpu(0).native


FIRST_CALLS = (
    """
class Held:
    __slots__ = ("x",)

    def __init__(self, x):
        self.x = x


from torch.utils._pytree import register_pytree_node
register_pytree_node(Held, lambda held: ([held.x], None), lambda xs, _: Held(*xs))
print(unidev.copy_to(Held(torch.ones(2)), "cpu").x.tolist())
""",
    """
w = torch.ones(2, requires_grad=True)
with torch.no_grad():
    (x,) = unidev.prefetch((w * each for each in [1]), "cpu")
print([1.0, 1.0] if not x.requires_grad else x)
""",
)


@pytest.mark.parametrize("program", FIRST_CALLS, ids=["registered with torch", "a loader"])
def test_the_first_call_of_unidev_asks_the_framework_that_is_imported(program: str) -> None:
    imports = "import torch, unidev"
    run = [sys.executable, "-c", imports + program]
    assert subprocess.run(run, check=True, capture_output=True, text=True).stdout == "[1.0, 1.0]\n"
