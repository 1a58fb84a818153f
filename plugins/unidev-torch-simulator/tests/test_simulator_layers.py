"""Layers on a simulated device give what they give on the CPU, forward and backward."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Callable

SIM = torch.device("sim:1")

LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "conv2d": (lambda: nn.Conv2d(3, 4, 3, stride=2, padding=1), (2, 3, 8, 8)),
    "rnn": (lambda: nn.RNN(3, 5), (4, 2, 3)),
    "lstm": (lambda: nn.LSTM(3, 5, num_layers=2, bidirectional=True), (4, 2, 3)),
    "lstm, no bias": (lambda: nn.LSTM(3, 5, bias=False), (4, 2, 3)),
    "gru": (lambda: nn.GRU(3, 5, num_layers=2), (4, 2, 3)),
    "gru, no bias": (lambda: nn.GRU(3, 5, bias=False), (4, 2, 3)),
    "lstm cell": (lambda: nn.LSTMCell(3, 5), (4, 3)),
    "gru cell": (lambda: nn.GRUCell(3, 5), (4, 3)),
    "transformer": (lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0), (3, 2, 8)),
    "batch norm, pooling": (
        lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2)),
        (2, 3, 8, 8),
    ),
    "group norm of pictures": (lambda: nn.GroupNorm(2, 4), (2, 4, 3, 5)),
}


def first(output: object) -> torch.Tensor:
    while isinstance(output, tuple):
        output = output[0]
    assert isinstance(output, torch.Tensor)
    return output


PICTURES = [name for name, (_, shape) in LAYERS.items() if len(shape) == 4]


@pytest.mark.parametrize(
    ("name", "order"),
    [(name, torch.contiguous_format) for name in LAYERS]
    + [(name, torch.channels_last) for name in PICTURES],
)
def test_a_layer_agrees_with_the_cpu(name: str, order: torch.memory_format) -> None:
    make, shape = LAYERS[name]
    torch.manual_seed(0)
    on_cpu = make()
    on_sim = copy.deepcopy(on_cpu).to(SIM)
    x = torch.randn(shape).contiguous(memory_format=order)
    y = x.to(SIM).requires_grad_()
    x.requires_grad_()
    expected, found = first(on_cpu(x)), first(on_sim(y))
    expected.square().sum().backward()
    found.square().sum().backward()
    for path, buffer in on_cpu.named_buffers():  # running statistics
        torch.testing.assert_close(on_sim.get_buffer(path).cpu(), buffer)

    assert found.device == SIM
    torch.testing.assert_close(found.cpu(), expected)
    torch.testing.assert_close(y.grad.cpu(), x.grad)
    for p, q in zip(on_cpu.parameters(), on_sim.parameters(), strict=True):
        assert q.grad.device == SIM
        torch.testing.assert_close(q.grad.cpu(), p.grad)


@pytest.mark.parametrize("cell", [nn.LSTM, nn.GRU])
def test_a_recurrent_layer_has_right_gradients_of_first_and_second_order(cell: type) -> None:
    torch.manual_seed(0)
    layer = cell(3, 2).double().to(SIM)
    x = torch.randn(2, 2, 3, dtype=torch.double, device=SIM, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: layer(x)[0], x)
    assert torch.autograd.gradgradcheck(lambda x: layer(x)[0], x)


class Fused:
    """Operations that are one kernel on CUDA, which takes memory for its results alone."""

    def __init__(self) -> None:
        self.gates, self.hidden = torch.rand(2, 64, 128, device=SIM)
        self.state, self.gradient = torch.rand(2, 64, 32, device=SIM)
        self.kept = torch.rand(64, 5 * 32, device=SIM)
        self.half = torch.rand(64, 128, device=SIM, dtype=torch.float16)

    def dropout(self) -> object:
        return torch.native_dropout(self.gates, 0.5, True)

    def lstm(self) -> object:
        return torch.ops.aten._thnn_fused_lstm_cell(self.gates, self.hidden, self.state)

    def lstm_backward(self) -> object:
        return torch.ops.aten._thnn_fused_lstm_cell_backward_impl(
            self.gradient, self.gradient, self.state, self.state, self.gates, True
        )

    def gru(self) -> object:
        return torch.ops.aten._thnn_fused_gru_cell(
            self.gates[:, :96], self.hidden[:, :96], self.state
        )

    def gru_backward(self) -> object:
        return torch.ops.aten._thnn_fused_gru_cell_backward(self.gradient, self.kept, True)

    def softmax(self) -> object:
        return torch.ops.aten._softmax(self.half, 1, True)

    def softmax_backward(self) -> object:
        return torch.ops.aten._softmax_backward_data(self.gates, self.gates, 1, torch.float16)


@pytest.mark.parametrize("name", [name for name in vars(Fused) if not name.startswith("_")])
def test_an_operation_that_is_one_kernel_on_cuda_takes_memory_for_its_results_alone(
    name: str,
) -> None:
    call = getattr(Fused(), name)
    torch.sim.reset_peak_memory_stats(SIM)
    results = call()
    assert torch.sim.max_memory_allocated(SIM) == torch.sim.memory_allocated(SIM)
    del results


@pytest.mark.parametrize("make", [nn.LSTMCell, nn.GRUCell])
def test_a_cell_refuses_a_state_of_another_device(make: type) -> None:
    cell, x = make(3, 5).to(SIM), torch.ones(2, 3, device=SIM)
    state = torch.zeros(2, 5, device="sim:0")
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        cell(x, (state, state) if make is nn.LSTMCell else state)


def test_a_packed_sequence_goes_through_an_lstm() -> None:
    torch.manual_seed(0)
    on_cpu = nn.LSTM(3, 5)
    on_sim = copy.deepcopy(on_cpu).to(SIM)
    x, lengths = torch.randn(4, 2, 3), torch.tensor([4, 2])

    def run(layer: nn.LSTM, x: torch.Tensor) -> torch.Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths)
        return nn.utils.rnn.pad_packed_sequence(layer(packed)[0])[0]

    found = run(on_sim, x.to(SIM))
    assert found.device == SIM
    torch.testing.assert_close(found.cpu(), run(on_cpu, x))


def test_autocast_takes_the_lower_precision() -> None:
    layer = nn.Linear(3, 2).to(SIM)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("sim")
    before = layer.weight.detach().clone()
    with torch.autocast("sim", dtype=torch.bfloat16):
        y = layer(torch.ones(1, 3, device=SIM))
        loss = torch.nn.functional.mse_loss(y, torch.zeros_like(y))
    assert y.dtype == torch.bfloat16
    assert loss.dtype == torch.float32
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    assert not torch.equal(layer.weight, before)


def test_functional_transforms_work() -> None:
    x = torch.randn(3, 4, device=SIM)
    torch.testing.assert_close(torch.func.vmap(torch.sum)(x), x.sum(1))
    torch.testing.assert_close(torch.func.grad(lambda v: (v**2).sum())(x), 2 * x)
    torch.testing.assert_close(torch.func.jacrev(lambda v: v**2)(x[0]), torch.diag(2 * x[0]))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_a_loss_warns_of_nothing(reduction: str) -> None:
    y = torch.full((1, 2), 3.0, device=SIM)
    for loss in (nn.MSELoss, nn.L1Loss, nn.SmoothL1Loss, nn.HuberLoss, nn.BCEWithLogitsLoss):
        found = loss(reduction=reduction)(y, torch.ones_like(y))
        expected = loss(reduction=reduction)(y.cpu(), torch.ones(1, 2))
        torch.testing.assert_close(found.cpu(), expected)


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_checkpoint_draws_again_what_it_drew(reentrant: bool) -> None:
    from torch.utils.checkpoint import checkpoint

    x = torch.ones(1000, device=SIM, requires_grad=True)
    y = checkpoint(lambda x: nn.functional.dropout(x, 0.5), x, use_reentrant=reentrant)
    y.sum().backward()
    torch.testing.assert_close(x.grad, y.detach())


def test_a_gradient_that_is_zero_everywhere_has_values() -> None:
    x = torch.randn(3, device=SIM, requires_grad=True)
    torch.sgn(x).sum().backward()
    assert x.grad.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
def test_strided_nested_tensors_compute_as_on_the_cpu() -> None:
    parts = [torch.randn(2, 3), torch.randn(1, 3)]
    layer = torch.nn.Sequential(torch.nn.LayerNorm(3), torch.nn.Linear(3, 2))
    expected = layer(torch.nested.nested_tensor(parts)).to_padded_tensor(0.0)
    nested = torch.nested.nested_tensor(parts, device=SIM)
    found = layer.to(SIM)(nested).to_padded_tensor(0.0)
    torch.testing.assert_close(found.cpu(), expected)
    found.sum().backward()
    weight = layer[1].weight
    assert weight.grad is not None
    assert weight.grad.device == nested.device == SIM
    with pytest.raises(RuntimeError, match="same device"):
        nested + nested.cpu()
