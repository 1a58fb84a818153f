"""``DataParallel(…, batch_norm="synchronized")`` on layers of torch's own, and of others."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from training_checks import check_norms

import unidev


class NormAndRelu(nn.BatchNorm2d):
    """As timm's: a norm with a ``forward`` of its own."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Both."""
        y = nn.functional.batch_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias, self.training
        )
        return nn.functional.relu(y)


def net(*layers: nn.Module) -> nn.Module:
    torch.manual_seed(1)
    made = nn.Sequential(*layers)
    for x in made.parameters():
        nn.init.uniform_(x, 0.5, 1.5)
    return made


def counting() -> nn.Module:
    """One that counts batches, in three axes; none of the others' statistics are kept."""
    return net(
        nn.Conv1d(3, 4, 2),
        nn.BatchNorm1d(4, momentum=None),
        nn.BatchNorm1d(4, track_running_stats=False),
    )


def plain() -> nn.Module:
    return net(nn.Conv3d(2, 3, 1), nn.BatchNorm3d(3, affine=False), nn.Conv3d(3, 2, 1))


def of_others() -> nn.Module:
    return net(nn.Conv2d(2, 3, 1), NormAndRelu(3), nn.Conv2d(3, 2, 1))


def partly_frozen() -> nn.Module:
    made = net(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    made[1].eval()
    return made


def computed(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return model(x)  # type: ignore[no-any-return]


def test_the_whole_batch() -> None:
    cases = [
        (counting, (3, 5)),
        (plain, (2, 2, 3, 2)),
        (of_others, (2, 4, 4)),
        (partly_frozen, (3,)),
    ]
    check_norms("torch", cases, computed)


DTYPES = (torch.float16, torch.bfloat16)


def halves() -> list[tuple[Any, ...]]:
    found = []
    for dtype in DTYPES:
        model = nn.BatchNorm1d(3)
        parallel = unidev.DataParallel(model, batch_norm="synchronized")

        def loss_of(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
            y = model(x)
            assert y.dtype == x.dtype
            return y.float().square().mean()

        x = torch.arange(12, dtype=dtype, device=unidev.group().device.native).view(4, 3)
        unidev.value_and_grad(loss_of)(parallel, x + 100 * unidev.group().rank)
        found.append((model.running_var.dtype, model.running_mean.tolist()))
    return found


def test_narrow_inputs_have_wide_statistics() -> None:
    first, second = unidev.run(halves, backend="torch", timeout=120)
    assert first == second
    for dtype, (statistics, means) in zip(DTYPES, first, strict=True):
        assert statistics == torch.float32, dtype
        assert means == pytest.approx([0.1 * (column + 54.5) for column in range(3)], rel=1e-2)


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_what_cannot_be_synchronized_is_named() -> None:
    normed = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    for model, said in (
        (nn.Linear(2, 2), "no layers such as torch.nn.BatchNorm2d"),
        (torch.compile(normed, backend="eager"), "compiled"),
        (torch.jit.trace(normed.eval(), torch.ones(2, 2)), "compiled"),
    ):
        with pytest.raises(unidev.UnsupportedOperation, match=said):
            unidev.DataParallel(model, batch_norm="synchronized")
    with pytest.raises(unidev.UnsupportedOperation, match="one device for each worker"):
        unidev.DataParallel(normed, ["cpu", "gpu"], batch_norm="synchronized")
    assert unidev.device_of(normed) is unidev.cpu()
    for wrong in ("sync", True, None, 3, ["local"]):
        with pytest.raises(unidev.InvalidDataError, match="local, synchronized"):
            unidev.DataParallel(normed, batch_norm=wrong)  # type: ignore[arg-type]
    unidev.DataParallel(normed, batch_norm="synchronized")
