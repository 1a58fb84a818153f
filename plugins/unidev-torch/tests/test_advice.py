"""What errors advise, done as they say: the code in the message is run, and what failed works."""

from __future__ import annotations

import re
import tempfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch import nn

import unidev

if TYPE_CHECKING:
    from collections.abc import Callable

GPUS = [unidev.gpu(0), unidev.gpu(1)]
_CODE = re.compile(r"unidev\.\w+\([\w, ']+\)|x\.\w+\(.*?'?\)?\)")


def mixed() -> dict[str, Any]:
    return {"a": torch.ones(4), "b": np.ones(4, np.float32)}


def nested(layout: torch.layout) -> torch.Tensor:
    rows = [torch.ones(2), torch.ones(3)]
    return torch.nested.nested_tensor(rows, layout=layout)


def save(x: torch.Tensor) -> None:
    model = nn.Linear(2, 2)
    model.register_buffer("odd", x)
    with tempfile.TemporaryDirectory() as folder:
        unidev.save_parameters(model, f"{folder}/model.safetensors")


CASES: dict[str, tuple[Callable[[Any], Any], Callable[[], Any]]] = {
    "NumPy's batch over GPUs": (lambda x: unidev.split_batch(x, GPUS), lambda: np.ones((4, 2))),
    "a batch partly NumPy's": (lambda x: unidev.split_batch(x, GPUS), mixed),
    "a tree partly NumPy's": (lambda x: unidev.copy_to(x, "gpu:0"), mixed),
    "parameters partly NumPy's": (
        unidev.value_and_grad(lambda tree: (tree["a"] * tree["b"]).sum()), mixed,
    ),
    "big-endian": (lambda x: unidev.convert(x, "torch", copy=False), lambda: np.ones(2, ">f4")),
    "sparse": (save, lambda: torch.eye(2).to_sparse()),
    "sparse by rows": (save, lambda: torch.eye(2).to_sparse_csr()),
    "quantized": (save, lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8)),
    "jagged": (save, lambda: nested(torch.jagged)),
    "nested": (save, lambda: nested(torch.strided)),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_advice_that_is_followed_helps(name: str) -> None:
    call, make = CASES[name]
    x = make()
    with pytest.raises(unidev.UnidevError, match="'odd'" if call is save else "") as caught:
        call(x)
    advised = _CODE.findall(str(caught.value))
    assert advised
    for code in advised:
        given = {"unidev": unidev, "device": "cpu", "x": x, "tree": x, "batch": x}
        call(eval(code, given))


def test_accuracy_takes_arrays() -> None:
    net, x = nn.Linear(2, 2), np.eye(2, dtype=np.float32)
    expected = net(torch.eye(2)).argmax(1).numpy()
    for model in (unidev.place(net, "gpu:1"), unidev.DataParallel(net, GPUS)):
        assert unidev.evaluate_accuracy(model, [(x, expected)]) == 1


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("layout", [torch.jagged, torch.strided])
def test_what_is_made_like_a_nested_tensor_is_nested(layout: torch.layout) -> None:
    for make, value in ((unidev.zeros_like, 0.0), (unidev.ones_like, 1.0)):
        found = [row.tolist() for row in make(nested(layout)).unbind()]
        assert found == [[value] * 2, [value] * 3]
