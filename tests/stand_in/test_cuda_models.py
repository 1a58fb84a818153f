"""Models on CUDA: what is moved, and what a lack of memory leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from on_stand_in import torch

import unidev

if TYPE_CHECKING:
    from pathlib import Path

    from runtime import Runtime


def net() -> torch.nn.Module:
    """Five tensors of 4 bytes an element, one of 8; one weight is tied."""
    model = torch.nn.Sequential(
        torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 8, bias=False)
    )
    model[2].weight = model[0].weight
    return model


def tensors(model: torch.nn.Module) -> list[torch.Tensor]:
    return [*model.parameters(), *model.buffers()]


def state(model: torch.nn.Module) -> dict[str, list[float]]:
    return {name: x.tolist() for name, x in model.state_dict().items()}


def test_placing_a_model_moves_each_tensor_once(cuda: Runtime):
    model = net()
    before, size = state(model), sum(x.nbytes for x in tensors(model))
    number = len(tensors(model))
    with cuda.counting() as cost:
        unidev.place(model, "gpu:1")
    assert (cost["host to device"], cost["host to device bytes"]) == (number, size)
    assert (cost["device to host"], cost["device to device"]) == (0, 0)
    assert cuda.contexts() == [False, True]
    assert state(model) == before
    assert model[2].weight is model[0].weight
    with cuda.counting() as cost:
        unidev.place(model, "gpu:1")
    assert str(cost) == "{}"


def test_placing_a_model_and_its_optimizer_moves_the_state_once(cuda: Runtime):
    model = net()
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()
    held = [*tensors(model), *(p.grad for p in model.parameters())]
    held += [x for each in optimizer.state.values() for name, x in each.items() if name != "step"]
    with cuda.counting() as cost:
        unidev.place(model, "gpu", optimizer=optimizer)
    assert cost["host to device bytes"] == sum(x.nbytes for x in held)
    assert cost["host to device"] == len(held)
    assert cost["device to host"] == 0


@pytest.mark.parametrize("nth", [1, 2])
def test_a_model_that_does_not_fit_stays_whole(cuda: Runtime, nth: int):
    model = torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.Linear(1024, 4096))
    before = state(model)
    cuda.fail("allocation", nth, times=2)
    with pytest.raises(unidev.OutOfDeviceMemoryError):
        unidev.place(model, "gpu")
    assert {x.device.type for x in model.parameters()} == {"cpu"}
    assert state(model) == before
    cuda.reset()
    unidev.place(model, "gpu")
    assert {x.device for x in model.parameters()} == {torch.device("cuda:0")}
    assert state(model) == before


def test_a_failed_copy_in_the_middle_leaves_the_model_whole(cuda: Runtime):
    model = net()
    before = state(model)
    cuda.fail("copy", 3, error=999)
    with pytest.raises(unidev.FrameworkError, match="unknown error"):
        unidev.place(model, "gpu")
    assert {x.device.type for x in tensors(model)} == {"cpu"}
    assert state(model) == before


def test_loading_parameters_onto_a_gpu_moves_each_once(cuda: Runtime, tmp_path: Path):
    saved, model = net(), net()
    unidev.save_parameters(saved, tmp_path / "net.safetensors")
    unidev.place(model, "gpu")
    with cuda.counting() as cost:
        unidev.load_parameters(model, tmp_path / "net.safetensors")
    size = sum(x.nbytes for x in tensors(saved))
    assert (cost["host to device"], cost["host to device bytes"]) == (len(tensors(saved)), size)
    # the old values, kept until all are written
    assert (cost["device to host"], cost["device to host bytes"]) == (len(tensors(saved)), size)
    assert state(model) == state(saved)


def test_a_checkpoint_is_saved_by_one_transfer_for_each_tensor(cuda: Runtime, tmp_path: Path):
    model = unidev.place(net(), "gpu")
    with cuda.counting() as cost:
        unidev.save_parameters(model, tmp_path / "net.safetensors")
    held = tensors(model)
    assert cost["device to host bytes"] == sum(x.nbytes for x in held)
    assert (cost["device to host"], cost["host to device"]) == (len(held), 0)
