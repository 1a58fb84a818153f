"""What errors advise, done as they say: the code in the message is run, and what failed works."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

import unidev

if TYPE_CHECKING:
    from collections.abc import Callable

GPUS = ["gpu:0", "gpu:1"]
_CODE = re.compile(r"unidev\.\w+\([\w, ']+\)|x\.astype\(\S+\)\)")


def _mixed() -> dict[str, Any]:
    return {"a": torch.ones(4), "b": np.ones(4, np.float32)}


def _loss(tree: Any) -> Any:
    return (tree["a"] * tree["b"]).sum()


CASES: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "a batch of NumPy's over GPUs": (
        lambda x: unidev.split_batch(x, [unidev.gpu(0), unidev.gpu(1)]), np.ones((4, 2)),
    ),
    "a batch that is partly NumPy's": (lambda x: unidev.split_batch(x, GPUS), _mixed()),
    "a copy of what is partly NumPy's": (lambda x: unidev.copy_to(x, "gpu:0"), _mixed()),
    "gradients of what is partly NumPy's": (
        unidev.value_and_grad(_loss), _mixed(),
    ),
    "a big-endian array, not copied": (
        lambda x: unidev.convert(x, "torch", copy=False), np.ones(2, ">f4"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_advice_that_is_followed_helps(name: str) -> None:
    call, x = CASES[name]
    with pytest.raises(unidev.UnidevError) as caught:
        call(x)
    advised = _CODE.findall(str(caught.value))
    assert advised
    for code in advised:
        given = {"unidev": unidev, "device": "cpu", **dict.fromkeys(("x", "tree", "batch"), x)}
        call(eval(code, given))


def test_a_batch_of_numpys_is_spread_over_the_gpus_once_it_is_converted() -> None:
    batch = unidev.convert(np.arange(4.0), "torch")
    shards = unidev.split_batch(batch, GPUS)
    assert [(str(x.device), x.tolist()) for x in shards] == [("sim:0", [0, 1]), ("sim:1", [2, 3])]


def test_accuracy_takes_arrays() -> None:
    net, x = torch.nn.Linear(2, 2), np.eye(2, dtype=np.float32)
    expected = net(torch.eye(2)).argmax(1).numpy()
    for model in (unidev.place(net, "gpu:1"), unidev.DataParallel(net, GPUS)):
        assert unidev.evaluate_accuracy(model, [(x, expected)]) == 1


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("layout", [torch.jagged, torch.strided])
def test_what_is_made_like_a_nested_tensor_is_nested(layout: torch.layout) -> None:
    x = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=layout)
    for make, value in ((unidev.zeros_like, 0.0), (unidev.ones_like, 1.0)):
        rows = make(x).unbind()
        assert [row.tolist() for row in rows] == [[value] * 2, [value] * 3]
    if layout is torch.jagged:
        assert str(unidev.zeros_like(x, device="gpu:1").device) == "sim:1"
