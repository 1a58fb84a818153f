"""``unidev.nn``: the same layers and weights on every framework. PYTEST_DONT_REWRITE."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import unidev
from unidev import nn
from unidev_conformance.kit.models import neural
from unidev_conformance.kit.models.differentiating import times, total
from unidev_conformance.kit.models.layered import (
    IMAGES,
    ROWS,
    called,
    check_close,
    check_layer,
    fill,
    glorot,
    made_on,
)
from unidev_conformance.kit.models.stored_models import values_of
from unidev_conformance.running.catalog import check

if TYPE_CHECKING:
    from unidev.device import Device
    from unidev_conformance.kit.workbench import Workbench

    Array = np.ndarray[Any, Any]

_NEEDS = ("layers", "models")


@check(required=True, needs=_NEEDS, over="devices")
def test_same_seed_same_weights(bench: Workbench, device: Device) -> None:
    """After a seed, the weights are those that unidev's generator draws, on every device."""
    unidev.seed(7)
    dense = made_on(device, lambda: nn.dense(4, 3))
    conv = made_on(device, lambda: nn.conv2d(3, 5, (3, 2)))
    after = unidev.to_numpy(unidev.rand(2))
    unidev.seed(7)
    expected = glorot((3, 4), 4, 3), glorot((5, 3, 3, 2), 3 * 6, 5 * 6)
    drawn = unidev.to_numpy(unidev.rand(2))
    assert np.array_equal(after, drawn), f"{device}: the layers drew more numbers, or fewer"
    for layer, weight in zip((dense, conv), expected, strict=True):
        found = values_of(bench, layer)
        assert set(found) == {"weight", "bias"}, f"{device}: it stores {sorted(found)}"
        where = f"a weight {weight.shape} on {device}"
        assert found["weight"].shape == weight.shape, f"{where} is {found['weight'].shape}"
        assert found["weight"].tobytes() == weight.tobytes(), f"{where}: not as drawn"
        assert not found["bias"].any(), f"{device}: biases are not zeros"
        where = f"a layer made inside {device}"
        assert unidev.device_of(layer) is device, f"{where} is on {unidev.device_of(layer)}"


@check(required=True, needs=_NEEDS)
def test_dense(bench: Workbench) -> None:
    """``dense`` is x @ weight.T + bias."""
    for bias in (True, False):
        check_layer(
            bench, partial(nn.dense, 4, 3, bias=bias), ROWS,
            lambda has: neural.linear(ROWS, has["weight"], has.get("bias")), f"dense, bias={bias}",
        )  # fmt: skip
    rows = ROWS.reshape(5, 1, 4)
    check_layer(
        bench, partial(nn.dense, 4, 3), rows,
        lambda has: neural.linear(rows, has["weight"], has["bias"]), "dense of three axes",
    )  # fmt: skip


@check(required=True, needs=_NEEDS)
def test_conv2d(bench: Workbench) -> None:
    """``conv2d`` is cross-correlation, with strides and zero padding, height before width."""
    cases: tuple[tuple[Any, Any, Any], ...] = (
        ((3, 3), (1, 1), (0, 0)),
        ((3, 2), (2, 1), (1, 0)),
        ((2, 3), (1, 3), (1, 2)),
        ((1, 1), (2, 2), (0, 0)),
        ((2, 3), (2, 2), (1, 1)),
    )  # fmt: skip  in the last, frameworks that pad evenly by themselves pad one side alone
    for kernel, stride, padding in cases:
        for bias in (True, False):
            how: dict[str, Any] = {"stride": stride, "padding": padding}
            check_layer(
                bench, partial(nn.conv2d, 3, 4, kernel, bias=bias, **how), IMAGES,
                lambda has, how=how: neural.conv2d(  # type: ignore[misc]
                    IMAGES, has["weight"], has.get("bias"), **how
                ),
                f"conv2d {kernel}, stride={stride}, padding={padding}, bias={bias}",
            )  # fmt: skip


@check(required=True, needs=_NEEDS)
def test_pools(bench: Workbench) -> None:
    """Pools take means and maxima of complete windows, and drop the remainder at the edge."""
    cases: tuple[tuple[Any, Any], ...] = (((2, 2), None), ((3, 2), (1, 3)), ((2, 3), (2, 2)))
    for kernel, stride in cases:
        for name in ("avg_pool2d", "max_pool2d"):
            make = partial(getattr(nn, name), kernel, stride=stride)
            expected = getattr(neural, name)(IMAGES, kernel, stride or kernel)
            where = f"{name} {kernel}, stride={stride}"
            check_layer(bench, make, IMAGES, lambda _, e=expected: e, where)  # type: ignore[misc]


@check(required=True, needs=_NEEDS)
def test_flatten_and_activations(bench: Workbench) -> None:
    """``flatten`` orders channels, height, width; ``relu`` and ``tanh`` are correct."""
    check_layer(bench, nn.flatten, IMAGES, lambda _: IMAGES.reshape(2, -1), "flatten of images")
    check_layer(bench, nn.flatten, ROWS, lambda _: ROWS, "flatten of rows")
    for values in (ROWS, IMAGES):
        check_layer(bench, nn.relu, values, lambda _, v=values: np.maximum(v, 0), "relu")  # type: ignore[misc]
        check_layer(bench, nn.tanh, values, lambda _, v=values: np.tanh(v), "tanh")  # type: ignore[misc]


@check(required=True, needs=_NEEDS, over="devices")
def test_batch_norm(bench: Workbench, device: Device) -> None:
    """For rows and images: batch statistics in training, running statistics in inference."""
    for values in (ROWS, IMAGES):
        for in_net in (False, True):
            _check_batch_norm(bench, values, in_net, device)


def _check_batch_norm(bench: Workbench, values: Array, in_net: bool, device: Any) -> None:
    features = values.shape[1]
    norm = made_on(device, lambda: nn.batch_norm(features, momentum=0.75, epsilon=1e-3))
    layer = nn.sequential(norm) if in_net else norm
    where = f"batch_norm of {values.shape} on {device}" + (", in sequential" if in_net else "")
    has = values_of(bench, norm)
    names = {"weight", "bias", "running_mean", "running_var"}
    assert set(has) == names, f"{where}: it stores {sorted(has)}"
    for name, value in (("weight", 1), ("bias", 0), ("running_mean", 0), ("running_var", 1)):
        assert (has[name] == value).all(), f"{where}: {name} starts as {has[name]}"
    fill(bench, norm, ("weight", "bias"))
    has = values_of(bench, norm)
    means, variances = neural.statistics(values.astype("float64"))
    nn.train_mode(layer)
    y = called(bench, layer, values, device)
    expected = neural.batch_norm(values, means, variances, has, 1e-3)
    check_close(bench, y, expected, device, f"{where}, training")
    norm = made_on(device, lambda: nn.batch_norm(features, momentum=0.75, epsilon=1e-3))
    layer = nn.sequential(norm) if in_net else norm
    _train_once(bench, layer, values, device)
    after = values_of(bench, norm)
    assert np.allclose(after["running_mean"], 0.25 * means, atol=1e-4), f"{where}: the mean"
    count = values.size // features
    either = [0.75 + 0.25 * v for v in (variances, variances * count / (count - 1))]
    assert any(np.allclose(after["running_var"], v, rtol=1e-3) for v in either), (
        f"{where}: the running variance is {after['running_var']}, not {either[0]}"
    )
    nn.eval_mode(layer)
    y = called(bench, layer, values, device)
    expected = neural.batch_norm(values, after["running_mean"], after["running_var"], after, 1e-3)
    check_close(bench, y, expected, device, f"{where}, inference")
    again = values_of(bench, norm)
    assert all(np.array_equal(again[n], after[n]) for n in names), (
        f"{where}: inference changes the statistics"
    )


def _train_once(bench: Workbench, layer: Any, values: Array, device: Any) -> None:
    """Some frameworks update statistics in the forward pass, some (MXNet) in the backward pass."""
    if not bench.has("autograd"):
        called(bench, layer, values, device)
        return
    net = nn.sequential(layer, nn.flatten())
    unidev.value_and_grad(_sum_of_squares)(net, bench.make(values, device))


def _sum_of_squares(net: Any, x: Any) -> Any:
    y = net(x)
    return total(times(y, y))


@check(required=True, needs=_NEEDS, over="devices")
def test_dropout(bench: Workbench, device: Device) -> None:
    """In training some elements are zero and the others scaled up; in inference all are kept."""
    values = np.ones((40, 50), "float32")
    for layer in (nn.dropout(0.25), nn.sequential(nn.dropout(0.25))):
        nn.eval_mode(layer)
        y = called(bench, layer, values, device)
        check_close(bench, y, values, device, f"dropout on {device}, inference")
        nn.train_mode(layer)
        found = unidev.to_numpy(called(bench, layer, values, device))
        kept = np.isclose(found, 1 / 0.75, atol=1e-5)
        share = 1 - kept.mean()
        assert ((found == 0) | kept).all(), (
            f"dropout on {device}, training: elements are {np.unique(found)[:8]}, not 0 and 4/3"
        )
        # 2,000 elements: five standard deviations are 0.05.
        assert abs(share - 0.25) < 0.05, f"dropout on {device}: {share:.3f} dropped, not 0.25"

    for depth in range(4):
        _check_modes_stay(bench, device, depth)


def _check_modes_stay(bench: Workbench, device: Device, depth: int) -> None:
    """``evaluate_accuracy`` infers, and leaves each layer the mode that it had."""
    still, drops = nn.dropout(0.5), nn.dropout(0.5)
    outputs = made_on(device, lambda: nn.dense(4, 3))
    inner = [still, drops]
    for _ in range(depth):
        inner = [nn.sequential(layer) for layer in inner]
    net = nn.sequential(*inner, outputs)
    nn.eval_mode(still)
    has = values_of(bench, outputs)
    labels = neural.linear(ROWS, has["weight"], has["bias"]).argmax(1)
    labels[0] = (labels[0] + 1) % 3
    where = f"dropout inside {depth + 1} nets on {device}"
    given = labels if depth else bench.make(labels.astype("int32"), device)
    x = bench.make(ROWS, device)
    more = bench.make(ROWS[1:], device)  # all of them right
    found = bench.works(unidev.evaluate_accuracy, net, [(x, given), (more, labels[1:])])
    wanted = 2 * (len(labels) - 1) / (2 * len(labels) - 1)
    assert found == wanted, f"{where}: the accuracy is {found}, not {wanted}"
    ones = np.ones((40, 50), "float32")
    for layer, is_still in ((still, True), (drops, False)):
        kept = unidev.to_numpy(called(bench, layer, ones, device)).all()
        mode = "inference" if is_still else "training"
        assert kept == is_still, f"{where}: evaluate_accuracy has ended its {mode} mode"


@check(required=True, needs=_NEEDS, over="devices")
def test_residual(bench: Workbench, device: Device) -> None:
    """``residual`` adds its input to the result of its layers, whichever the last one is."""
    try:
        nn.residual(nn.relu())
    except unidev.UnsupportedOperation as refusal:
        bench.not_applicable(f"the backend has no residual layers: {refusal.reason}")
    lasts = {"relu": (nn.relu, lambda x: np.maximum(x, 0)), "tanh": (nn.tanh, np.tanh),
        "dropout": (partial(nn.dropout, 0.5), lambda x: x)}  # fmt: skip
    for name, (last, reference) in lasts.items():
        for has_weights in (True, False):
            _check_residual(bench, device, (name, last, reference), has_weights)


def _check_residual(
    bench: Workbench, device: Device, last: tuple[str, Any, Any], has_weights: bool
) -> None:
    name, make, reference = last
    where = f"residual of {'dense and ' if has_weights else ''}{name} on {device}"
    dense = made_on(device, lambda: nn.dense(4, 4))
    layers = [dense, make()] if has_weights else [make()]
    block = nn.eval_mode(nn.residual(*layers))
    has = values_of(bench, dense)

    def expected(weight: Array) -> Array:
        given = ROWS.astype("float64")
        h = neural.linear(given, weight, has["bias"]) if has_weights else given
        total: Array = given + reference(h)
        return total

    x = bench.make(ROWS, device)
    with device:
        y = bench.works(block, x)
    check_close(bench, y, expected(has["weight"]), device, where)
    bench.oracle.check_bytes(x, ROWS.tobytes(), f"{where}: its input")
    if not has_weights or not bench.has("autograd"):
        return
    (gradient,) = neural.grads(lambda weight: expected(weight) ** 2, [has["weight"]])
    _, grads = bench.works(unidev.value_and_grad(_sum_of_squares), block, x)
    stored = bench.backend.models.stored(dense)["weight"]
    (own,) = (n for n, p in unidev.parameters(block).items()
        if unidev.shares_memory(p, stored.tensor))  # fmt: skip
    found = unidev.to_numpy(grads[own])
    found = found if stored.axes is None else found.transpose(stored.axes)
    off = float(abs(found - gradient).max() / max(1.0, abs(gradient).max()))
    assert off < 1e-2, f"{where}: the gradient of the weight is off by {off:g}"


@check(required=True, needs=_NEEDS, over="devices")
def test_residual_shortcut(bench: Workbench, device: Device) -> None:
    """A shortcut gives the input of ``residual`` the new shape, and is the last by its name."""
    try:
        nn.residual(nn.relu(), shortcut=nn.relu())
    except unidev.UnsupportedOperation as refusal:
        bench.not_applicable(f"the backend has no residual layers: {refusal.reason}")
    conv = made_on(device, lambda: nn.conv2d(3, 4, 3, stride=2, padding=1))
    shortcut = made_on(device, lambda: nn.conv2d(3, 4, 1, stride=2))
    block = nn.eval_mode(nn.residual(conv, nn.tanh(), shortcut=shortcut))
    x = bench.make(IMAGES, device)
    with device:
        y = bench.works(block, x)
    has, short = values_of(bench, conv), values_of(bench, shortcut)
    given = IMAGES.astype("float64")
    layers = np.tanh(neural.conv2d(given, has["weight"], has["bias"], (2, 2), (1, 1)))
    expected = layers + neural.conv2d(given, short["weight"], short["bias"], (2, 2), (0, 0))
    where = f"residual with a shortcut on {device}"
    check_close(bench, y, expected, device, where)
    bench.oracle.check_bytes(x, IMAGES.tobytes(), f"{where}: its input")
    names = list(bench.backend.models.stored(block))
    wanted = ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert sorted(names) == sorted(wanted), f"{where}: its names are {names}, not {wanted}"


@check(required=True, needs=_NEEDS, over="devices")
def test_sequential(bench: Workbench, device: Device) -> None:
    """A complete net: portable names, the given layers themselves, and the right numbers."""
    conv = made_on(device, lambda: nn.conv2d(3, 4, 3, padding=1))
    dense = made_on(device, lambda: nn.dense(4 * 3 * 3, 2))
    net = nn.sequential(conv, nn.relu(), nn.max_pool2d(2), nn.flatten(), dense)
    nn.eval_mode(net)
    fill(bench, net, ("0.bias", "4.bias"))
    has = values_of(bench, net)
    names = {"0.weight", "0.bias", "4.weight", "4.bias"}
    assert set(has) == names, f"on {device}: it stores {sorted(has)}, not {sorted(names)}"
    h = neural.conv2d(IMAGES, has["0.weight"], has["0.bias"], (1, 1), (1, 1))
    h = neural.max_pool2d(np.maximum(h, 0), (2, 2), (2, 2)).reshape(2, -1)
    expected = neural.linear(h, has["4.weight"], has["4.bias"])
    check_close(bench, called(bench, net, IMAGES, device), expected, device, f"on {device}")
    inner = nn.sequential(net, nn.tanh())
    check_close(
        bench, called(bench, inner, IMAGES, device), np.tanh(expected), device,
        f"sequential in sequential on {device}",
    )  # fmt: skip
    twice = nn.sequential(net, nn.dense(2, 2))
    assert unidev.shares_memory(
        next(iter(unidev.parameters(twice).values())), next(iter(unidev.parameters(conv).values()))
    ), f"on {device}: sequential made its own layers"


@check(required=True, needs=("layers", "models", "autograd"), over="devices")
def test_gradients(bench: Workbench, device: Device) -> None:
    """A net's gradients match finite differences, with respect to each of its parameters.

    In inference mode, in which no statistics of the batch count and nothing is dropped.
    """
    images = IMAGES[:, :2, :5, :4]
    net = made_on(device, _small_net)
    nn.eval_mode(net)
    fill(bench, net, ("0.bias", "6.bias"))
    has = values_of(bench, net)
    names = ["0.weight", "0.bias", "6.weight", "6.bias"]

    def reference(*given: Array) -> Array:
        h = neural.conv2d(images, given[0], given[1], (1, 1), (1, 1))
        h = h / np.sqrt(1 + 1e-5)  # a new batch norm: mean 0, variance 1
        h = neural.avg_pool2d(np.tanh(h), (2, 2), (2, 2)).reshape(2, -1)
        return neural.linear(h, given[2], given[3]) ** 2

    expected = neural.grads(reference, [has[name] for name in names])
    x = bench.make(images, device)
    evaluate = unidev.value_and_grad(_sum_of_squares)
    _, grads = bench.works(evaluate, net, x)
    stored = bench.backend.models.stored(net)
    parameters = unidev.parameters(net)
    for name, grad in zip(names, expected, strict=True):
        own = [n for n, p in parameters.items() if unidev.shares_memory(p, stored[name].tensor)]
        assert len(own) == 1, f"on {device}: {name} is not among {list(parameters)}"
        found, axes = grads[own[0]], stored[name].axes
        bench.oracle.check_device(found, device, f"the gradient of {name}")
        values = unidev.to_numpy(found)
        values = values if axes is None else values.transpose(axes)
        off = float(abs(values - grad).max() / max(1.0, abs(grad).max()))
        assert off < 1e-2, f"on {device}: the gradient of {name} is off by {off:g}: {values}"
        bench.evidence.add("off by", f"{name} on {device}: {off:g}")


def _small_net() -> Any:
    return nn.sequential(
        nn.conv2d(2, 3, 3, padding=1), nn.batch_norm(3), nn.tanh(), nn.avg_pool2d(2), nn.flatten(),
        nn.dropout(0.5), nn.dense(12, 2),
    )  # fmt: skip
