"""``unidev.nn.functional``: values, devices and gradients. PYTEST_DONT_REWRITE."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

import unidev
from unidev.nn import functional
from unidev_conformance.kit.inputs import samples
from unidev_conformance.kit.models import neural
from unidev_conformance.kit.models.layered import IMAGES, ROWS, check_close, tolerance
from unidev_conformance.running.catalog import check

if TYPE_CHECKING:
    from collections.abc import Callable

    from unidev.device import Device
    from unidev_conformance.kit.workbench import Workbench

    Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    """A function, its tensors, and its expected result."""

    name: str
    arrays: tuple[Array, ...]
    reference: Callable[..., Array]
    options: dict[str, Any] = field(default_factory=dict)

    def call(self, *tensors: Any) -> Any:
        """Call the function with these tensors."""
        return getattr(functional, self.name)(*tensors, **self.options)

    @property
    def given(self) -> str:
        """For messages."""
        return f"{self.name} {[each.shape for each in self.arrays]} {self.options or ''}".strip()


_SMALL = IMAGES[:, :2, :4, :4]
_WEIGHT = np.linspace(-1, 1, 12, dtype="float32").reshape(3, 4)
_KERNEL = np.linspace(-1, 1, 3 * 2 * 3 * 2, dtype="float32").reshape(3, 2, 3, 2)
_BIAS = np.array([0.5, -0.25, 1.0], "float32")
_LABELS = np.array([2, 0, 3, 3, 1], "int64")

CASES = (
    Case("linear", (ROWS, _WEIGHT), lambda x, w: neural.linear(x, w, None)),
    Case("linear", (ROWS, _WEIGHT, _BIAS), neural.linear),
    Case("linear", (ROWS.reshape(5, 1, 4), _WEIGHT, _BIAS), neural.linear),
    Case(
        "conv2d", (_SMALL, _KERNEL), lambda x, w: neural.conv2d(x, w, None, (1, 1), (0, 0))
    ),
    Case(
        "conv2d", (_SMALL, _KERNEL, _BIAS),
        lambda x, w, b: neural.conv2d(x, w, b, (2, 1), (1, 2)),
        {"stride": (2, 1), "padding": (1, 2)},
    ),
    Case(
        "avg_pool2d", (_SMALL,), lambda x: neural.avg_pool2d(x, (2, 2), (2, 2)), {"kernel_size": 2}
    ),
    Case(
        "avg_pool2d", (_SMALL,), lambda x: neural.avg_pool2d(x, (3, 2), (1, 2)),
        {"kernel_size": (3, 2), "stride": (1, 2)},
    ),
    Case(
        "max_pool2d", (_SMALL,), lambda x: neural.max_pool2d(x, (3, 2), (1, 2)),
        {"kernel_size": (3, 2), "stride": (1, 2)},
    ),
    Case("flatten", (_SMALL,), lambda x: x.reshape(len(x), -1)),
    Case("relu", (ROWS + np.float32(0.05),), lambda x: np.maximum(x, 0)),
    Case("tanh", (ROWS,), np.tanh),
    Case(
        "mean_squared_error", (ROWS, ROWS[::-1] * np.float32(0.5)),
        lambda a, b: ((a - b) ** 2).mean(),
    ),
    Case("softmax_cross_entropy", (ROWS, _LABELS), neural.softmax_cross_entropy),
    Case("softmax_cross_entropy", (ROWS * np.float32(90), _LABELS), neural.softmax_cross_entropy),
)  # fmt: skip


@check(required=True, needs=("functions",), over="devices")
def test_values(bench: Workbench, device: Device) -> None:
    """Each function gives the right values, on the device of its tensors."""
    wide = bench.backend.dtypes["float64"] if "float64" in bench.dtypes(device) else None
    if wide is not None:
        with device:  # JAX divides in float32, unless its switch is on
            wide = wide if (bench.matrix(device, "float64") / 2).dtype == wide else None
    for case in CASES:
        tensors = [bench.make(array, device) for array in case.arrays]
        y = bench.works(case.call, *tensors)
        expected = np.asarray(case.reference(*map(_exact, case.arrays)))
        check_close(bench, y, expected, device, f"{case.given} on {device}")
        for x, array in zip(tensors, case.arrays, strict=True):
            bench.oracle.check_bytes(x, array.tobytes(), f"{case.given}: its argument")
        if wide is not None:
            exact = [_exact(array) for array in case.arrays]
            y = bench.works(case.call, *(bench.make(array, device) for array in exact))
            where = f"{case.given} of float64 on {device}"
            assert y.dtype == wide, f"{where}: its dtype is {y.dtype}"
            off = abs(unidev.to_numpy(y) - expected).max()
            assert off < 1e-9 * max(1, abs(expected).max()), f"{where}: it is off by {off:g}"
    flat = bench.works(functional.flatten, bench.make(_SMALL[:0], device))
    assert tuple(flat.shape) == (0, 32), f"flatten of no rows has the shape {flat.shape}"


def _exact(array: Array) -> Array:
    return array if array.dtype.kind == "i" else array.astype("float64")


@check(required=True, needs=("functions",), over="devices")
def test_labels_of_any_integer(bench: Workbench, device: Device) -> None:
    """Labels may have any integer dtype, also one that cannot count the classes; and no other."""
    rows, labels = np.tile(ROWS, 50), _LABELS + 120
    logits = bench.make(rows, device)
    for name in bench.dtypes(device):
        kind = np.dtype(name).kind if samples.is_numpy_dtype(name) else ""
        if kind and kind in "iu":
            given = bench.make(labels.astype(name), device)
            loss = bench.works(functional.softmax_cross_entropy, logits, given)
            expected = neural.softmax_cross_entropy(rows.astype("float64"), labels)
            check_close(bench, loss, expected, device, f"labels of {name} on {device}")
    for name in ("float32", "bool"):
        wrong = bench.make(_LABELS.astype(name), device)
        bench.expect(unidev.InvalidDataError, functional.softmax_cross_entropy, logits, wrong)


@check(required=True, needs=("functions",), over="neighbours")
def test_mixed_devices(bench: Workbench, here: Device, there: Device) -> None:
    """Tensors on two devices are an error that names both; nothing is moved implicitly."""
    for case in CASES:
        for odd in range(1, len(case.arrays)):
            tensors = [
                bench.make(array, there if position == odd else here)
                for position, array in enumerate(case.arrays)
            ]
            error = bench.expect(unidev.DeviceMismatchError, case.call, *tensors)
            found = sorted({str(device) for device in error.devices.values()})
            assert found == sorted({str(here), str(there)}), f"{case.given}: {error.devices}"


@check(required=True, needs=("functions",), over="devices")
def test_shapes_that_do_not_fit(bench: Workbench, device: Device) -> None:
    """Losses of shapes that a framework would broadcast are an error."""
    rows, column = bench.make(ROWS, device), bench.make(ROWS[:, :1].copy(), device)
    flat, labels = (bench.make(ROWS[:, 0].copy(), device), bench.make(_LABELS[:4], device))
    of = functional
    bench.expect(unidev.InvalidDataError, of.mean_squared_error, rows, column)
    bench.expect(unidev.InvalidDataError, of.mean_squared_error, column, flat)
    bench.expect(unidev.InvalidDataError, of.softmax_cross_entropy, rows, labels)


@check(required=True, needs=("functions", "autograd"), over="devices")
def test_gradients(bench: Workbench, device: Device) -> None:
    """Each function's gradient matches finite differences, on the device of its tensor."""
    for case in CASES:
        _check_gradients(bench, case, device)


def _check_gradients(bench: Workbench, case: Case, device: Device) -> None:
    counted = [a for a in case.arrays if a.dtype.kind == "f"]
    rest = [bench.make(a, device) for a in case.arrays if a.dtype.kind != "f"]
    fixed = [a for a in case.arrays if a.dtype.kind != "f"]
    with device:
        shape = tuple(case.reference(*map(_exact, case.arrays)).shape)
        target = np.zeros(shape, "float32")

    def loss_of(xs: Any) -> Any:
        y = case.call(*xs, *rest)
        return y if shape == () else functional.mean_squared_error(y, bench.make(target, device))

    def reference(*xs: Array) -> Array:
        y = case.reference(*xs, *fixed)
        return np.asarray(y if shape == () else (y**2).mean())

    xs = [bench.make(a, device) for a in counted]
    loss, grads = bench.works(unidev.value_and_grad(loss_of), xs)
    where = f"{case.given} on {device}"
    bench.oracle.check_device(loss, device, f"{where}: the loss")
    expected = neural.grads(reference, counted)
    for position, (grad, wanted) in enumerate(zip(grads, expected, strict=True)):
        found = unidev.to_numpy(grad)
        off = float(abs(found - wanted).max() / max(1.0, abs(wanted).max()))
        assert off <= 10 * tolerance(device), (
            f"{where}: the gradient of tensor {position} is off by {off:g}: {found.tolist()}, not "
            f"{wanted.tolist()}"
        )
        bench.oracle.check_device(grad, device, f"{where}: the gradient of tensor {position}")
        bench.evidence.add("off by", f"{where}, tensor {position}: {off:g}")
