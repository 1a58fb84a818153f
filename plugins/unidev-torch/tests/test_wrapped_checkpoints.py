"""Checkpoints of wrapped modules for bare ones, and the other way round."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

import unidev

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def made() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))


def compiled_inside(net: nn.Module) -> nn.Module:
    return nn.Sequential(torch.compile(net[0]), net[1])  # type: ignore[index]


WRAPPERS: dict[str, Callable[[nn.Module], nn.Module]] = {
    "DataParallel": nn.DataParallel,
    "compiled": torch.compile,  # type: ignore[dict-item]
    "both": lambda net: nn.DataParallel(torch.compile(net)),  # type: ignore[arg-type]
    "a part is compiled": compiled_inside,
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch's own, in torch.compile
@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)
def test_a_file_of_one_fits_the_other(
    wrap: Callable[[nn.Module], nn.Module], tmp_path: Path
) -> None:
    file = tmp_path / "net.safetensors"
    nets = made(), wrap(made())
    for source, target in (nets, nets[::-1]):
        for x in source.parameters():
            nn.init.normal_(x)
        unidev.save_parameters(source, file)
        assert unidev.load_parameters(target, file) is target
        for x, y in zip(source.parameters(), target.parameters(), strict=True):
            assert torch.equal(x, y)


def test_a_module_that_is_called_module_is_not_a_wrapper(tmp_path: Path) -> None:
    file = tmp_path / "net.safetensors"
    named = nn.ModuleDict({"module": nn.Linear(3, 2), "other": nn.Linear(3, 2)})
    unidev.save_parameters(named, file)
    unidev.load_parameters(copy.deepcopy(named), file)
    bare = nn.Linear(3, 2)
    with pytest.raises(unidev.CheckpointError, match="weight"):
        unidev.load_parameters(bare, file)
