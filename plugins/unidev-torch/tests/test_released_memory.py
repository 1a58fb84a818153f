"""Tensors whose storage no longer reaches their last element, as FSDP and careless code leave."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import unidev
from unidev.nn import functional as F

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def cut(x: torch.Tensor, nbytes: int) -> torch.Tensor:
    x.untyped_storage().resize_(nbytes)
    return x


def released(device: str, nbytes: int = 0, shape: tuple[int, ...] = (4, 1000)) -> torch.Tensor:
    return cut(torch.ones(shape, device=unidev.as_device(device).native), nbytes)


READS: dict[str, Callable[[torch.Tensor], Any]] = {
    "copy_to": lambda x: unidev.copy_to(x, unidev.device_of(x)),
    "copy_to another": lambda x: unidev.copy_to(x, "gpu:0"),
    "copy_to in a list": lambda x: unidev.copy_to([x], "gpu:0"),
    "as_in_device": lambda x: unidev.as_in_device(x, "gpu:0"),
    "array": unidev.array,
    "array of another dtype": lambda x: unidev.array(x, dtype="float64"),
    "array of a checked dtype": lambda x: unidev.array(x, dtype="float16"),
    "to_numpy": unidev.to_numpy,
    "value_and_grad": unidev.value_and_grad(lambda w: (w * 0).sum()),
    "sgd": lambda x: unidev.sgd(x, torch.ones_like(x), lr=1),
    "sgd's gradient": lambda x: unidev.sgd(torch.ones_like(x), x, lr=1),
    "relu": F.relu,
    "linear": lambda x: F.linear(x, torch.ones(3, 1000, device=x.device)),
    "linear's weight": lambda x: F.linear(torch.ones(3, 1000, device=x.device), x),
}


@pytest.mark.parametrize("device", ["cpu", "gpu:1"])
@pytest.mark.parametrize("nbytes", [0, 16, 15999])
@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_no_verb_reads_beyond_the_end(
    read: Callable[[torch.Tensor], Any], nbytes: int, device: str
) -> None:
    with pytest.raises(unidev.DeletedTensorError, match=f"resized to {nbytes} bytes"):
        read(released(device, nbytes))


def test_what_the_storage_still_covers_is_copied() -> None:
    x = torch.arange(10.0)
    first, empty = x[:4], x[10:]
    cut(x, 16)
    for device in ("cpu", "gpu:0"):
        assert unidev.copy_to(first, device).tolist() == [0, 1, 2, 3]
        assert unidev.copy_to(empty, device).shape == (0,)
    assert unidev.as_in_device(x, "cpu") is x  # it is not read


@pytest.mark.parametrize("nbytes", [0, 8])
def test_a_model_with_a_released_parameter_is_neither_saved_nor_changed(
    nbytes: int, tmp_path: Path
) -> None:
    unidev.save_parameters(nn.Linear(3, 2), tmp_path / "whole.safetensors")
    model = nn.Linear(3, 2)
    bias = model.bias.detach().clone()
    cut(model.weight, nbytes)
    gradients = {"bias": torch.ones(2), "weight": torch.ones(2, 3)}
    for use in (
        lambda: unidev.save_parameters(model, tmp_path / "cut.safetensors"),
        lambda: unidev.load_parameters(model, tmp_path / "whole.safetensors"),
        lambda: unidev.place(model, "gpu:1"),
        lambda: unidev.sgd(model, gradients, lr=1),
        lambda: unidev.value_and_grad(lambda net: net.bias.sum())(model),
    ):
        with pytest.raises(unidev.DeletedTensorError):
            use()
    assert not (tmp_path / "cut.safetensors").exists()
    assert torch.equal(model.bias, bias)
    assert model.bias.device.type == "cpu"


@pytest.mark.parametrize("bad", [unidev.as_device, unidev.zeros, unidev.gpu, unidev.seed])
def test_no_message_reads_a_released_tensor(bad: Callable[[torch.Tensor], Any]) -> None:
    with pytest.raises(unidev.UnidevError, match=r"<torch\.Tensor>"):
        bad(released("cpu"))
