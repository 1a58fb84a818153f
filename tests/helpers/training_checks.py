"""What plugins' tests of training share: replicas, synchronized norms, and optimizers' states."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import unidev

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

THREE = ["gpu:0", "gpu:1", "gpu:2"]


def batch(rows: int = 31) -> tuple[Any, Any]:
    """Four inputs and two targets a row, on the first device."""
    numbers = np.random.default_rng(rows).standard_normal((rows, 6)).astype("float32")
    x, y = (unidev.array(part, device="gpu:0") for part in (numbers[:, :4], numbers[:, 4:]))
    return x, y


def squares(model: Callable[..., Any], x: Any, y: Any) -> Any:
    """The loss, where tensors have a method ``mean``."""
    return ((model(x) - y) ** 2).mean()


def arrays(model: Any) -> list[np.ndarray[Any, Any]]:
    """The values of its parameters."""
    return [unidev.to_numpy(x) for x in unidev.parameters(model).values()]


def check_replicas(net: unidev.DataParallel) -> None:
    """Each replica has the bits of the model, on its own device."""
    expected = [x.tobytes() for x in arrays(net)]
    for index, device in enumerate(net.devices):
        with net.replica(index) as model:
            assert [x.tobytes() for x in arrays(model)] == expected
            assert unidev.device_of(model) is device
    assert unidev.device_of(net) is net.devices[0]


def check_like(net: unidev.DataParallel, alone: Any) -> None:
    """The model and its replicas have the parameters of ``alone``, but for rounding."""
    for one, other in zip(arrays(net), arrays(alone), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
    check_replicas(net)


def check_training(
    net: unidev.DataParallel, alone: Any, data: tuple[Any, Any],
    loss_of: Callable[..., Any] = squares, plain: Callable[..., Any] = squares,
) -> None:  # fmt: skip
    """Three steps with ``loss_of`` have the results of ``alone`` with the ``plain`` loss."""
    for _ in range(3):
        loss, gradients = unidev.value_and_grad(loss_of)(net, *data)
        expected, wanted = unidev.value_and_grad(plain)(alone, *data)
        pairs = zip([loss, *gradients.values()], [expected, *wanted.values()], strict=True)
        for found, want in pairs:
            assert unidev.to_numpy(want).any()
            np.testing.assert_allclose(unidev.to_numpy(found), unidev.to_numpy(want), atol=1e-5)
        unidev.sgd(net, gradients, lr=0.1)
        unidev.sgd(alone, wanted, lr=0.1)
    check_like(net, alone)


# -- two workers with synchronized norms ---------------------------------------------------------

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


# -- an optimizer that goes on from its saved state ----------------------------------------------


def check_continued(
    made: Callable[[], tuple[Any, Any]], step: Callable[[Any, Any, int], None], folder: Path
) -> None:
    """``made()`` gives a model and a new optimizer; ``step`` makes one step with the number."""
    models = unidev.active_backend().models
    net, optimizer = made()
    for number in range(3):
        step(net, optimizer, number)
    state = models.optimizer_state(optimizer)
    assert all(type(values) is np.ndarray for values in state.values())
    kept = {name: values.copy() for name, values in state.items()}
    unidev.save_parameters(net, folder / "model")
    for number in range(3, 6):
        step(net, optimizer, number)
    assert all(np.array_equal(kept[name], values) for name, values in state.items())  # no view
    for steps_before in (0, 1):
        other, again = made()
        for _ in range(steps_before):
            step(other, again, 7)
        unidev.load_parameters(other, folder / "model")
        models.load_optimizer_state(other, again, state)
        for number in range(3, 6):
            step(other, again, number)
        assert [x.tobytes() for x in arrays(net)] == [x.tobytes() for x in arrays(other)]
