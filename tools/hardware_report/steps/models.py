"""Models that train on a GPU: placed with their optimizers, against a twin on the CPU."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, NamedTuple

import unidev
from hardware_report.outcome import Findings, NotRunError, Outcome
from unidev import nn
from unidev.contract.backend import Unsupported
from unidev.support.wording import number_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from hardware_report.setting import Setting
    from unidev.contract.device import Device

    Losses = list[float]

STEPS = 4
CLOSE = 1e-2
"""Relative: a GPU sums in another order, and may use TF32. Weights that differ by 1e-3
change these losses by 0.06 to 0.12 %, and an optimizer that starts anew by 12 % and more."""
CLOSE_IN_BF16 = 0.05


def own_net(setting: Setting) -> Outcome:
    """Unidev's net with unidev's gradients, on every framework that has them."""
    gpus, found = setting.gpus(), Findings()
    autograd = setting.backend.autograd
    if isinstance(autograd, Unsupported):
        raise NotRunError(f"{setting.name}: {autograd.reason}")
    expected = _own_losses(unidev.cpu())
    rows = [("cpu:0", *map(number_text, expected))]
    for gpu in gpus:
        losses = _own_losses(gpu)
        rows.append((str(gpu), *map(number_text, losses)))
        _close(found, f"unidev's net on {gpu}", losses, expected, CLOSE)
    found.table("Losses", ("device", *map(str, range(STEPS))), rows)
    return found.outcome()


def _own_losses(device: Device) -> Losses:
    unidev.seed(5)
    net = nn.sequential(nn.dense(8, 32), nn.relu(), nn.dense(32, 1))
    x, y = unidev.randn((64, 8)), unidev.randn((64, 1))
    unidev.place(net, device)
    x, y = unidev.as_in_device((x, y), device)
    step = unidev.value_and_grad(lambda net, x, y: nn.functional.mean_squared_error(net(x), y))
    losses = []
    for _ in range(STEPS):
        loss, gradients = step(net, x, y)
        unidev.sgd(net, gradients, lr=0.05)
        losses.append(float(unidev.to_numpy(loss)))
    return losses


class Kind(NamedTuple):
    """A model of PyTorch's, its optimizer, and where it trains."""

    make: Callable[[], Any]
    optimizer: str = "AdamW"
    options: dict[str, Any] = {}  # noqa: RUF012  a NamedTuple's default is never changed
    dtype: str = "float32"
    stays: tuple[str, ...] = ("cpu", "gpu", "cpu")
    """The devices that it trains on, one after the other."""


def torch_model(setting: Setting, kind: str) -> Outcome:
    """A model of PyTorch's that moves with its optimizer, against a twin that stays."""
    setting.only("torch")
    gpus, found, rows = setting.gpus(), Findings(), []
    for gpu in gpus:
        got, expected = _moved_and_twin(found, kind, gpu)
        close = CLOSE_IN_BF16 if KINDS[kind].dtype == "bfloat16" else CLOSE
        _close(found, f"{kind} on {gpu}", got, expected, close)
        rows += [(gpu, "moved", *map(number_text, got)), (gpu, "twin", *map(number_text, expected))]
    stays = KINDS[kind].stays
    found.table(
        f"Losses: {STEPS} steps on each of {', '.join(stays)}; the twin stays on the CPU",
        ("device", "model", *map(str, range(len(stays) * STEPS))),
        rows,
    )
    return found.outcome()


def _moved_and_twin(found: Findings, kind: str, gpu: Device) -> tuple[Losses, Losses]:
    """The losses of the model that moves, and of the one that stays on the CPU."""
    import torch

    given = KINDS[kind]
    torch.manual_seed(3)
    dtype = getattr(torch, given.dtype)
    model = given.make().to(dtype)
    data = torch.randn(32, 6, 16).to(dtype)
    twin = copy.deepcopy(model)
    make = getattr(torch.optim, given.optimizer)
    optimizer = make(model.parameters(), lr=1e-2, **given.options)
    of_twin = make(twin.parameters(), lr=1e-2)
    got: Losses = []
    for stay in given.stays:
        device = gpu if stay == "gpu" else unidev.cpu()
        before = list(model.parameters())
        unidev.place(model, device, optimizer=optimizer)
        is_kept = all(a is b for a, b in zip(before, model.parameters(), strict=True))
        found.expect(is_kept, f"{gpu}: placing {kind} on {device} replaced parameters")
        got += _train(model, optimizer, unidev.as_in_device(data, device))
        states = [
            value for state in optimizer.state.values() for value in state.values()
            if isinstance(value, torch.Tensor) and value.dim()  # steps may be on the CPU
        ]  # fmt: skip
        away = [x for x in [*before, *states] if unidev.device_of(x) is not device]
        found.expect(not away, f"{len(away)} parameters or states of {kind} are not on {device}")
        found.expect(bool(states), f"the optimizer of {kind} keeps no state on {device}")
    if kind == "tied":
        found.expect(model.first.weight is model.last.weight, f"{gpu}: the tie is lost")
    return got, [loss for _ in given.stays for loss in _train(twin, of_twin, data)]


def _train(model: Any, optimizer: Any, data: Any) -> Losses:
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = model(data).float().square().mean()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach().cpu()))
    return losses


def _close(found: Findings, what: str, got: Losses, wanted: Losses, close: float) -> None:
    far = [
        number for number, (a, b) in enumerate(zip(got, wanted, strict=True))
        if not abs(a - b) <= close * max(abs(b), 1e-6)
    ]  # fmt: skip
    found.expect(not far, f"{what}: losses {got} instead of {wanted}, first in step {far[:1]}")


def _dense() -> Any:
    import torch

    return torch.nn.Sequential(
        torch.nn.Linear(16, 64), torch.nn.LayerNorm(64), torch.nn.ReLU(), torch.nn.Linear(64, 4)
    )


def _lstm() -> Any:
    import torch

    class Net(torch.nn.Module):  # type: ignore[misc, unused-ignore]  # no torch
        def __init__(self) -> None:
            super().__init__()
            self.lstm = torch.nn.LSTM(16, 24, num_layers=2, batch_first=True)

        def forward(self, x: Any) -> Any:
            return self.lstm(x)[0]

    return Net()


def _tied() -> Any:
    import torch

    class Net(torch.nn.Module):  # type: ignore[misc, unused-ignore]  # no torch
        def __init__(self) -> None:
            super().__init__()
            self.first = torch.nn.Linear(16, 16)
            self.last = torch.nn.Linear(16, 16)
            self.last.weight = self.first.weight

        def forward(self, x: Any) -> Any:
            return self.last(self.first(x).tanh())

    return Net()


KINDS = {
    "adam": Kind(_dense),
    "adam_fused": Kind(_dense, options={"fused": True}),
    # Capturable optimizers refuse the CPU.
    "adam_capturable": Kind(_dense, options={"capturable": True}, stays=("gpu",)),
    "lstm": Kind(_lstm),
    "tied": Kind(_tied),
    "bf16": Kind(_dense, dtype="bfloat16"),
}
