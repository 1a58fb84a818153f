"""What torch moves is recorded: each transfer once, with the user's call and bytes, in order."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
import torch
from recorded import recorded_of
from torch import nn

import unidev

if TYPE_CHECKING:
    from collections.abc import Callable


A, B = "sim:0", "sim:1"


def matrix(device: str = A) -> torch.Tensor:
    """Six floats: 24 bytes."""
    return torch.arange(6.0, device=device).reshape(2, 3)


def test_a_script_gives_exactly_its_transfers_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    def script() -> None:
        batch = torch.ones(4, 2)
        x = batch.to(A)  # 32 bytes
        layer = nn.Linear(2, 1).to(A)  # 8 and 4
        loss = layer(x).pow(2).mean()
        other = loss.to(B)  # 4
        if other > 0:  # a bool
            other.cpu().backward()  # 4; and back: 4, 4
        print(loss)  # noqa: T201  4
        values = x.tolist()  # 32
        x[0] = torch.tensor(values[0])  # 8

    assert recorded_of(script) == [
        ("Tensor.to", "cpu:0", "gpu:0", 32, (4, 2)),
        ("Module.to", "cpu:0", "gpu:0", 8, (1, 2)),
        ("Module.to", "cpu:0", "gpu:0", 4, (1,)),
        ("Tensor.to", "gpu:0", "gpu:1", 4, ()),
        ("Tensor.__bool__", "gpu:1", "cpu:0", 1, ()),
        ("Tensor.cpu", "gpu:1", "cpu:0", 4, ()),
        ("Tensor.backward", "cpu:0", "gpu:1", 4, ()),
        ("Tensor.backward", "gpu:1", "gpu:0", 4, ()),
        ("Tensor.__repr__", "gpu:0", "cpu:0", 4, ()),
        ("Tensor.tolist", "gpu:0", "cpu:0", 32, (4, 2)),
        ("Tensor.__setitem__", "cpu:0", "gpu:0", 8, (2,)),
    ]
    assert "device='sim:0'" in capsys.readouterr().out


def test_checking_a_matrix_reads_an_answer() -> None:
    read = recorded_of(lambda x: torch.linalg.inv(x[:, :2]), matrix())
    assert read == [("torch.linalg.inv", "gpu:0", "cpu:0", 1, ())]


@pytest.mark.parametrize(
    ("move", "name"),
    [(lambda x: x.sim(), "Tensor.sim"), (lambda x: x.type("torch.sim.FloatTensor"), "Tensor.type")],
)
def test_moving_is_told_by_the_simulators_spellings(
    move: Callable[[torch.Tensor], object], name: str
) -> None:
    assert recorded_of(move, matrix("cpu")) == [(name, "cpu:0", "gpu:0", 24, (2, 3))]


def test_a_checkpoint_is_told_tensor_by_tensor() -> None:
    file = io.BytesIO()
    torch.save(matrix(), file)
    file.seek(0)
    assert recorded_of(torch.load, file) == [("torch.load", "cpu:0", "gpu:0", 24, (24,))]


def test_what_stays_on_its_device_is_not_told() -> None:
    def stay(device: str) -> None:
        x = torch.ones(2, 3, device=device, requires_grad=True)
        model = nn.Sequential(nn.Linear(3, 4, device=device), nn.LayerNorm(4, device=device))
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(2):
            optimizer.zero_grad()
            (model(x) + 1 * torch.tensor(2.0)).pow(2).mean().backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        y = x.detach()
        y.to(device), y.clone(), y.double(), y.copy_(x), y.new_zeros(2), y[y.shape[0] - 1], len(y)
        y[0] = 5.0
        y[y > 2] = 0
        list(y), hash(y), y.T.contiguous(), y.split(1), torch.stack([y, y]), y.untyped_storage()

    for device in (A, "cpu"):
        assert recorded_of(stay, device) == []


def test_what_has_no_memory_does_not_move() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    def fake() -> None:
        with FakeTensorMode():
            torch.ones(3, device=A).cpu().sum()

    assert recorded_of(fake) == []
    assert recorded_of(lambda: torch.empty_like(torch.empty(2, device="meta"), device=A)) == []
    assert recorded_of(repr, torch.empty(0, device=A)) == []


def test_advice_about_a_mask_is_to_keep_the_shape() -> None:
    x = matrix()
    mask = x > 1
    with unidev.trace_transfers() as trace:
        for _ in range(12):
            torch.masked_select(x, mask)
    (total,) = trace.by_line()
    assert total.advice.startswith("`torch.masked_select()`, 12 times at ")
    assert "keep the shape (`where`)" in total.advice


def test_a_net_that_moves_at_once_is_one_call_and_gets_no_advice() -> None:
    net = nn.Sequential(*[nn.Linear(2, 2) for _ in range(12)])
    with unidev.trace_transfers() as trace:
        net.to(A)
    assert len(trace.transfers) == 24
    assert len({each.call for each in trace.transfers}) == 1
    assert [each.advice for each in trace.by_line()] == [""]
    x = matrix()
    with unidev.trace_transfers() as trace:
        for _ in range(12):
            x.cpu()
    assert len({each.call for each in trace.transfers}) == 12
    assert ", 12 times at " in trace.by_line()[0].advice


def test_a_lazy_module_moves_nothing_until_it_is_initialised() -> None:
    net = torch.nn.LazyLinear(2)
    assert recorded_of(net.to, A) == []
    assert net.weight.device == torch.device(A)
