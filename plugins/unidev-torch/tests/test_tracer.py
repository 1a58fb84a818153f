"""What torch moves is recorded: each transfer once, with the user's call and bytes, in order."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from recorded import recorded_of
from torch import nn

import unidev

if TYPE_CHECKING:
    from collections.abc import Callable

    from recorded import Recorded

A, B = "sim:0", "sim:1"


def matrix(device: str = A) -> torch.Tensor:
    """Six floats: 24 bytes."""
    return torch.arange(6.0, device=device).reshape(2, 3)


def number(device: str = A) -> torch.Tensor:
    """One float: 4 bytes."""
    return torch.tensor(2.0, device=device)


def reading(operation: str, nbytes: int, shape: tuple[int, ...] | None = ()) -> list[Recorded]:
    return [(operation, "gpu:0", "cpu:0", nbytes, shape)]


def sending(operation: str, nbytes: int, shape: tuple[int, ...] | None) -> list[Recorded]:
    return [(operation, "cpu:0", "gpu:0", nbytes, shape)]


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


@pytest.mark.parametrize(
    ("read", "name"),
    [
        (lambda x: x.item(), "Tensor.item"),
        (bool, "Tensor.__bool__"),
        (int, "Tensor.__int__"),
        (float, "Tensor.__float__"),
        (complex, "Tensor.__complex__"),
        (lambda x: x.is_nonzero(), "Tensor.is_nonzero"),
        (lambda x: x.tolist(), "Tensor.tolist"),
        (lambda x: x.numpy(force=True), "Tensor.numpy"),
        (lambda x: f"{x}", "Tensor.__format__"),
        (lambda x: f"{x:.2f}", "Tensor.__format__"),
        (str, "Tensor.__repr__"),
        (repr, "Tensor.__repr__"),
        (lambda x: torch.full((2,), x), "torch.full"),
        (lambda x: torch.add(torch.ones(2), torch.ones(2), alpha=x), "torch.add"),
    ],
)
def test_reading_a_number_is_told_by_the_call_that_reads_it(
    read: Callable[[torch.Tensor], object], name: str
) -> None:
    assert recorded_of(read, number()) == reading(name, 4)
    assert recorded_of(read, number("cpu")) == []


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (lambda x: 1.0 in x, reading("Tensor.__contains__", 1)),
        (lambda x: 1 if x[0, 0] > 0 else 2, reading("Tensor.__bool__", 1)),
        (lambda x: max(x[0]), 2 * reading("Tensor.__bool__", 1)),
        (lambda x: "abc"[x[0, 1].long()], reading("Tensor.__index__", 8)),
        (lambda x: x[x[0, 1].long()], reading("Tensor.__getitem__", 8)),
        (lambda x: torch.equal(x, x + 1), reading("torch.equal", 1)),
        (lambda x: torch.allclose(x, x), reading("torch.allclose", 1)),
        (lambda x: torch.linalg.inv(x[:, :2]), reading("torch.linalg.inv", 1)),
        (lambda x: torch.tensor([x[0, 0], x[0, 1]]), reading("torch.tensor", 8, None)),
        (lambda x: torch.as_tensor([x[0, 0]]), reading("torch.as_tensor", 4)),
    ],
)  # fmt: skip
def test_reading_what_was_computed_is_told(
    read: Callable[[torch.Tensor], object], expected: list[Recorded]
) -> None:
    assert recorded_of(read, matrix()) == expected


@pytest.mark.parametrize(
    "count",
    [
        lambda x: x.nonzero(), lambda x: torch.where(x > 2), lambda x: x.masked_select(x > 2),
        lambda x: x.unique(), lambda x: x[x > 2], lambda x: x.long().flatten().bincount(),
        lambda x: x.__setitem__(x > 2, x[:1, 1:]),
    ],
)  # fmt: skip
def test_a_result_as_long_as_its_values_decide_reads_the_length(
    count: Callable[[torch.Tensor], object],
) -> None:
    x = torch.tensor([[0.0, 3, 1], [2, 4, 2]], device=A)
    ((_, *rest),) = recorded_of(count, x)
    assert rest == ["gpu:0", "cpu:0", 8, ()]


@pytest.mark.parametrize(
    ("choose", "moved"),
    [
        (lambda x: torch.where(x > 0, x, torch.tensor(2.0)), [4]),
        (lambda x: torch.where(x > 0, torch.tensor(1), torch.tensor(2.0)), [4, 4]),
        (lambda x: torch.where(torch.tensor(True), x, x), [1]),
        (lambda x: torch.where(x > 0, x, 2.0), []),
        (lambda x: x + torch.tensor(2.0), []),  # travels with the call
    ],
)
def test_where_moves_a_number_of_the_hosts(
    choose: Callable[[torch.Tensor], object], moved: list[int]
) -> None:
    found = recorded_of(choose, torch.ones(3, device=A))
    assert [each[1:4] for each in found] == [("cpu:0", "gpu:0", nbytes) for nbytes in moved]


def test_printing_is_told_once_with_the_values_that_are_shown() -> None:
    long = torch.arange(5000.0, device=A)
    assert recorded_of(repr, matrix()) == reading("Tensor.__repr__", 24, (2, 3))
    assert recorded_of(repr, nn.Parameter(matrix())) == reading("Tensor.__repr__", 24, (2, 3))
    assert recorded_of(lambda: f"{matrix()}") == reading("Tensor.__format__", 24, (2, 3))
    assert recorded_of(repr, long) == reading("Tensor.__repr__", 24, (5000,))
    assert recorded_of(repr, [number(), number()]) == 2 * reading("Tensor.__repr__", 4)


@pytest.mark.parametrize(
    ("move", "expected"),
    [
        (lambda x: x.to(A), sending("Tensor.to", 24, (2, 3))),
        (lambda x: x.to(torch.device(A), copy=True), sending("Tensor.to", 24, (2, 3))),
        (lambda x: x.to(torch.empty(0, device=A)), sending("Tensor.to", 24, (2, 3))),
        (lambda x: x.to(A, torch.float16), sending("Tensor.to", 12, (2, 3))),
        (lambda x: x.sim(), sending("Tensor.sim", 24, (2, 3))),
        (lambda x: x.T.to(A), sending("Tensor.to", 24, (3, 2))),
        (lambda x: x[:, 1].to(A), sending("Tensor.to", 8, (2,))),
        (lambda x: x[:, :1].expand(2, 5).to(A), sending("Tensor.to", 40, (2, 5))),
        (lambda x: x[:0].to(A), sending("Tensor.to", 0, (0, 3))),
        (lambda x: torch.empty(2, 3, device=A).copy_(x), sending("Tensor.copy_", 24, (2, 3))),
        (lambda x: torch.empty(2, 3, device=A).copy_(x[0]), sending("Tensor.copy_", 24, (3,))),
        (lambda x: torch.as_tensor(x, device=A), sending("torch.as_tensor", 24, (2, 3))),
        (lambda x: torch.asarray(x, device=A), sending("torch.asarray", 24, (2, 3))),
        (lambda x: x.type("torch.sim.FloatTensor"), sending("Tensor.type", 24, (2, 3))),
        (lambda x: x.untyped_storage().to(device=A), sending("UntypedStorage.to", 24, (24,))),
    ],
)  # fmt: skip
def test_moving_is_told_by_every_spelling(
    move: Callable[[torch.Tensor], object], expected: list[Recorded]
) -> None:
    assert recorded_of(move, matrix("cpu")) == expected


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: torch.tensor([1, 2], device=A), sending("torch.tensor", 16, (2,))),
        (lambda: torch.tensor(np.ones(2), device=A), sending("torch.tensor", 16, (2,))),
        (lambda: torch.as_tensor(np.ones(2), device=A), sending("torch.as_tensor", 16, (2,))),
        (lambda: torch.from_numpy(np.ones(2)).to(A), sending("Tensor.to", 16, (2,))),
        (lambda: torch.ones(2, device=A).new_tensor([1, 2]), sending("Tensor.new_tensor", 8, (2,))),
        (lambda: torch.zeros(2, device=A)[[0, 1]], sending("Tensor.__getitem__", 16, (2,))),
        (lambda: nn.BatchNorm1d(2, device=A), sending("BatchNorm1d.__init__", 8, ())),  # a counter
        (lambda: nn.Linear(2, 1, bias=False).to(A), sending("Module.to", 8, (1, 2))),
        (lambda: torch._foreach_copy_([torch.ones(2, device=A)] * 2, [torch.ones(2)] * 2),
         sending("torch._foreach_copy_", 16, None)),
        (lambda: torch.zeros(3, device=A), []),
        (lambda: torch.full((3,), 2.0, device=A), []),
        (lambda: torch.arange(3, device=A), []),
        (lambda: torch.rand(3, device=A), []),
    ],
)  # fmt: skip
def test_making_a_tensor_of_python_data_is_told(
    make: Callable[[], object], expected: list[Recorded]
) -> None:
    assert recorded_of(make) == expected


def test_indices_on_the_cpu_are_operands_that_move_silently() -> None:
    x = matrix()
    name = "Tensor.__getitem__ of mixed operands"
    rows, mask = torch.tensor([0, 1]), torch.tensor([True, False])
    assert recorded_of(lambda: x[rows]) == sending(name, 16, (2,))
    assert recorded_of(lambda: x[rows, rows]) == sending(name, 32, None)
    assert recorded_of(lambda: x[mask]) == sending(name, 8, (1,))  # the position of what is true
    set_item = "Tensor.__setitem__ of mixed operands"
    assert recorded_of(lambda: x.__setitem__(rows, x)) == sending(set_item, 16, (2,))


def test_a_checkpoint_is_told_tensor_by_tensor() -> None:
    x, file = matrix(), io.BytesIO()
    assert recorded_of(torch.save, x, file) == reading("torch.save", 24, (24,))
    file.seek(0)
    assert recorded_of(torch.load, file) == sending("torch.load", 24, (24,))


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
