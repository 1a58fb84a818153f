"""A step of two workers with synchronized norms, beside one of the whole batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import unidev

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROWS = 7


def check_norms(
    backend: str,
    cases: Sequence[tuple[Callable[[], Any], tuple[int, ...]]],
    run: Callable[..., Any],
) -> None:
    """Two workers have the gradients and statistics of the whole batch, and equal bits.

    Each case is a function that gives the same net each time, and the shape of a row of its input;
    ``run(net, x)`` calls the net in training mode.
    """
    both = unidev.run(_all, cases, run, workers=2, backend=backend, timeout=120)
    for (make, _), first, second in zip(cases, *both, strict=True):
        largest = max(float(abs(x).max()) for x in first["whole"].values())
        for name, whole in first["whole"].items():
            found, where = first["found"][name], f"{name} of {make.__name__}"
            assert abs(found - whole).max() < 1e-5 * largest, f"{where}: {found}, not {whole}"
            assert found.tobytes() == second["found"][name].tobytes(), f"{where}: other bits"


def _all(
    cases: Sequence[tuple[Callable[[], Any], tuple[int, ...]]], run: Callable[..., Any]
) -> Any:
    return [_steps(make, shape, run) for make, shape in cases]


def _steps(make: Callable[[], Any], shape: tuple[int, ...], run: Callable[..., Any]) -> Any:
    rng = np.random.default_rng(7)
    slopes = np.arange(ROWS).reshape(ROWS, *[1] * len(shape))
    values = (rng.standard_normal((ROWS, *shape)) + slopes).astype("float32")
    x = unidev.array(values, device=unidev.group().device)
    alone, net = make(), make()
    backend = unidev.DataParallel(alone).backend
    parallel = unidev.DataParallel(net, batch_norm="synchronized")

    def loss_of(model: Any, x: Any) -> Any:
        y = run(model, x)
        return (y * y * y).mean()  # of its square, a norm's gradient would be zero

    of = unidev.value_and_grad(loss_of)

    def numbers(own: Any, found: Any) -> dict[str, Any]:
        loss, gradients = found
        tensors = {"loss": loss, **gradients, **backend.models.statistics(own)}
        return {name: unidev.to_numpy(each) for name, each in tensors.items()}

    whole = numbers(alone, of(alone, x))
    return {"whole": whole, "found": numbers(net, of(parallel, unidev.group().split_batch(x)))}
