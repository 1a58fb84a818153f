"""The GPU report's models on simulated devices: a move that goes wrong is seen."""

from __future__ import annotations

import pytest
import torch
from hardware_report.outcome import FAIL, PASS
from hardware_report.setting import Setting
from hardware_report.steps import models

import unidev

PLACE = unidev.place


@pytest.fixture
def judge(monkeypatch, tmp_path):
    """The outcome of a model on the first GPU alone, with ``place`` replaced."""
    first = unidev.gpu(0)
    monkeypatch.setattr(Setting, "gpus", lambda self, least=1: [first])

    def run(kind: str, place=PLACE):
        monkeypatch.setattr(models.unidev, "place", place)
        return models.torch_model(Setting("torch", True, tmp_path), kind)

    return run


def forgets_the_state(model, device, *, optimizer):
    PLACE(model, device, optimizer=optimizer)
    for state in optimizer.state.values():
        for name, value in state.items():
            state[name] = torch.zeros_like(value)


def unties(model, device, *, optimizer):
    PLACE(model, device, optimizer=optimizer)
    model.last.weight = torch.nn.Parameter(model.last.weight.detach().clone())


@pytest.mark.parametrize("kind", ["adam", "tied"])
def test_a_model_that_moves_with_its_optimizer_passes(judge, kind) -> None:
    outcome = judge(kind)
    assert outcome.verdict == PASS, outcome.reason


@pytest.mark.parametrize(
    ("kind", "place", "said"),
    [
        ("adam", forgets_the_state, "losses"),
        ("tied", unties, "the tie is lost"),
    ],
)
def test_a_move_that_goes_wrong_fails(judge, kind, place, said) -> None:
    outcome = judge(kind, place)
    assert outcome.verdict == FAIL
    assert said in "\n".join([outcome.reason, *outcome.remarks])
