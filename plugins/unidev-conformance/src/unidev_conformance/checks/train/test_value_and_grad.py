"""``value_and_grad`` and ``sgd``: of tensors and of trees. PYTEST_DONT_REWRITE."""

from __future__ import annotations

import weakref
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import example, given

import unidev
from unidev_conformance.kit.inputs.strategies import a_few, from_seed, pick
from unidev_conformance.kit.models.differentiating import (
    check_gradient,
    plus,
    read,
    refuses_where_it_records,
    squares,
    times,
    total,
    wholes,
)
from unidev_conformance.kit.models.drawn_losses import (
    DrawnLoss,
    differentiable,
    drawn_loss,
    shared_losses,
)
from unidev_conformance.kit.reductions import EPSILONS
from unidev_conformance.kit.trees import Leaf, numbers_in
from unidev_conformance.running.catalog import check

if TYPE_CHECKING:
    from unidev.device import Device
    from unidev_conformance.kit.workbench import Workbench

    Random = np.random.Generator


@check(required=True, needs=("autograd",), over="devices")
def test_of_a_tensor(bench: Workbench, device: Device) -> None:
    """The loss, and its gradient as a new tensor on the parameter's device.

    No later step changes the loss, even if it is an element of the parameter, or all of it.
    """
    values = wholes(2, 3)
    x = bench.make(values, device)

    def loss_of(x: Any) -> Any:
        assert isinstance(x, bench.backend.tensor_types), f"it gets a {type(x).__name__}"
        return squares(x)

    loss, grad = bench.works(unidev.value_and_grad(loss_of), x)
    where = f"sum of x*x on {device}"
    check_gradient(bench, grad, 2 * values, device, where)
    _check_loss(bench, loss, float((values * values).sum()), device, where)
    bench.oracle.check_disjoint(x, grad, f"{where}: the gradient")
    bench.oracle.check_bytes(x, values.tobytes(), f"{where}: the tensor itself")
    bench.oracle.check_kind(x, grad, f"{where}: the gradient")
    if bench.has("probe.autograd.taken"):
        rows = [1, 0, 1]  # one of them twice: both count

        def rows_of(x: Any) -> Any:
            with unidev.device_of(x):
                return total(bench.probe.autograd.taken(x, rows))

        _, grad = bench.works(unidev.value_and_grad(rows_of), x)
        expected = np.array([[1] * 3, [2] * 3], "float32")
        check_gradient(bench, grad, expected, device, f"the rows {rows} on {device}")
    for of in (_element, lambda x: x):
        one = bench.make(wholes(1), device)
        loss, grad = bench.works(unidev.value_and_grad(of), one)
        unidev.sgd(one, grad, lr=1)
        _check_loss(bench, loss, 1.0, device, f"x[0] on {device}, after a step")
    for shape, dtype in product(((), (1,), (1, 1)), ("float32", "float64")):
        if dtype in bench.dtypes(device):
            _check_one(bench, bench.make(np.full(shape, 3, dtype), device), device)
    for name, x in bench.probe.specials(device).items():
        if name in ("variable", "parameter") and len(x.shape) == 2:
            _check_kept(bench, x, device, f"a {name} on {device}")


def _check_kept(bench: Workbench, x: Any, device: Device, where: str) -> None:
    """What autograd records of ``x`` by itself, it records after a gradient and a step, too."""
    has_flags = bench.has("probe.autograd.is_differentiable")
    said, values = has_flags and bench.probe.autograd.is_differentiable(x), unidev.to_numpy(x)
    try:
        _, grad = unidev.value_and_grad(squares)(x)
    except bench.backend.framework_errors as error:  # MXNet's legacy arrays have no product
        bench.evidence.add("not differentiated by the framework itself", f"{where}: {error}")
        return
    check_gradient(bench, grad, 2 * values, device, where)
    unidev.sgd(x, grad, lr=1)
    bench.oracle.check_bytes(x, (values - 2 * values).tobytes(), f"{where}, a step")
    after = has_flags and bench.probe.autograd.is_differentiable(x)
    assert after is said, f"{where}: its flag was {said}, and is {after}"


def _check_one(bench: Workbench, x: Any, device: Device) -> None:
    """A loss of one element keeps its shape and dtype, and is computed where the argument is."""
    where = f"x*x of {x.dtype} {tuple(x.shape)} on {device}"
    loss, grad = bench.works(unidev.value_and_grad(lambda x: x * x), x)  # type: ignore[misc]
    for each, number in ((loss, 9), (grad, 6)):
        bench.oracle.check_kind(x, each, where)
        bench.oracle.check_device(each, device, where)
        assert float(unidev.to_numpy(each).ravel()[0]) == number, f"{where}: {each}, not {number}"
    bench.oracle.check_all_disjoint([x, loss, grad], where)


def _element(x: Any) -> Any:
    with unidev.device_of(x):
        return x[0]


@check(required=True, needs=("autograd",), over="devices")
def test_of_a_container(bench: Workbench, device: Device) -> None:
    """Gradients come in a container of the same structure; a repeated tensor has one gradient."""
    values = {name: wholes(2, 3, start=start) for start, name in enumerate("abc", start=1)}
    a, b, c = (bench.make(each, device) for each in values.values())
    parameters = {"a": a, "pair": (b, [c, a]), "note": "no tensor"}

    def loss_of(given: Any, factor: Any) -> Any:
        b, (c, again) = given["pair"]
        assert again is given["a"], "a repeated tensor became two"
        product = times(times(given["a"], b), times(c, again))
        return total(times(product, factor))

    factor = bench.make(np.full((2, 3), 2, "float32"), device)
    loss, grads = bench.works(unidev.value_and_grad(loss_of), parameters, factor=factor)
    where = f"sum of 2*a*a*b*c on {device}"
    assert isinstance(grads, dict), f"{where}: gradients come as a {type(grads).__name__}"
    assert list(grads) == list(parameters), f"{where}: gradients of {list(grads)}"
    by_b, (by_c, by_a) = grads["pair"]
    assert by_a is grads["a"], f"{where}: the repeated tensor has two gradients"
    a_, b_, c_ = values.values()
    check_gradient(bench, by_a, 4 * a_ * b_ * c_, device, f"{where}, da")
    check_gradient(bench, by_b, 2 * a_ * a_ * c_, device, f"{where}, db")
    check_gradient(bench, by_c, 2 * a_ * a_ * b_, device, f"{where}, dc")
    _check_loss(bench, loss, float((2 * a_ * a_ * b_ * c_).sum()), device, where)


@check(required=True, needs=("autograd",))
def test_of_any_tree(bench: Workbench) -> None:
    """However many leaves, nested and used in whatever way, each has a gradient of its own.

    Where tensors can be written to, gradients share no memory with each other or with a leaf.
    """
    devices = bench.devices
    dtypes = differentiable(bench, devices[-1])
    flattens = bench.has("functions")

    def drawn(rng: Random) -> tuple[DrawnLoss, Device]:
        return drawn_loss(rng, dtypes, flattens=flattens), pick(rng, devices)

    @a_few
    @given(from_seed(drawn))
    @example((shared_losses("float32"), devices[0]))
    @example((shared_losses("float32", is_flattened=flattens), devices[-1]))
    def differentiated(case: tuple[DrawnLoss, Device]) -> None:
        loss, device = case
        xs = loss.leaves(bench, device)
        parameters, seen = loss.tree.nested(xs), [bench.probe.read(x) for x in xs]

        def loss_of(given: Any) -> Any:
            return loss(loss.tree.places(given))

        _, gradients = bench.works(unidev.value_and_grad(loss_of), parameters)
        found, expected = loss.tree.places(gradients)[: len(xs)], loss.gradients()
        for position, (x, gradient) in enumerate(zip(xs, found, strict=True)):
            where = f"{loss.where(position)}, on {device}: the gradient"
            bench.oracle.check_device(gradient, device, where)
            bench.oracle.check_kind(x, gradient, where)
            if seen[position]:
                bench.oracle.check_room(gradient, len(seen[position]), where)
            numbers = numbers_in(bench, gradient, loss.tree.leaves[position].dtype)
            assert np.array_equal(numbers, expected[position]), where
            bench.oracle.check_bytes(x, seen[position], f"{where}: the leaf itself")
        if bench.has("probe.write"):
            held = [x for x in (*found, *xs) if 0 not in tuple(x.shape)]
            bench.oracle.check_all_disjoint(held, f"{loss.tree}, gradients and leaves")

    differentiated()


@check(required=True, needs=("autograd",), over="all_pairs")
def test_across_devices(bench: Workbench, here: Device, there: Device) -> None:
    """Parameters on several devices in one loss: each gradient is on its parameter's device."""
    values = wholes(2, 3), wholes(2, 3, start=2)
    parameters = [bench.make(each, d) for each, d in zip(values, (here, there), strict=True)]

    def loss_of(given: Any) -> Any:
        return total(times(unidev.copy_to(given[0], there), given[1]))

    loss, grads = bench.works(unidev.value_and_grad(loss_of), parameters)
    where = f"x on {here} copied to y on {there}"
    check_gradient(bench, grads[0], values[1], here, f"{where}, dx")
    check_gradient(bench, grads[1], values[0], there, f"{where}, dy")
    _check_loss(bench, loss, float((values[0] * values[1]).sum()), there, where)


@check(required=True, needs=("autograd",), over="all_pairs")
def test_zeros_for_what_is_not_reached(bench: Workbench, here: Device, there: Device) -> None:
    """Parameters that the loss does not depend on get zero gradients, on their own device."""
    values = wholes(2, 3)
    used, idle = bench.make(values, here), bench.make(wholes(4), there)
    loss_of = unidev.value_and_grad(lambda given: total(given["used"]))
    _, grads = bench.works(loss_of, {"used": used, "idle": idle})
    where = f"used on {here}, idle on {there}"
    check_gradient(bench, grads["used"], np.ones_like(values), here, where)
    check_gradient(bench, grads["idle"], np.zeros(4, "float32"), there, f"{where}, of idle")


@check(required=True, needs=("autograd", "probe.autograd"), over="devices")
def test_loss_is_detached(bench: Workbench, device: Device) -> None:
    """The returned loss is detached, and so are the gradients."""
    values = wholes(2, 3)
    x = bench.make(values, device)
    loss, grad = unidev.value_and_grad(squares)(x)
    flag = bench.probe.autograd.is_differentiable
    if bench.has("probe.autograd.is_differentiable"):
        assert flag(loss) is False, f"on {device}: the loss is still differentiable"
        assert flag(grad) is False, f"on {device}: the gradient is differentiable itself"
        assert flag(x) is False, f"on {device}: the tensor itself was made differentiable"

    def again(y: Any) -> Any:
        return times(plus(y, x), loss)

    (found,) = bench.probe.autograd.gradients(again, [np.ones((1, 1), "float32")], [device])
    expected = np.full((1, 1), (values * values).sum() * values.size, "float32")
    check_gradient(bench, found, expected, device, f"a use of the loss on {device}")
    if not bench.has("autograd.no_grad") or refuses_where_it_records(bench):
        return  # JAX records all that depends on its arguments

    def within(x: Any) -> Any:
        loss, grad = unidev.value_and_grad(squares)(x)
        return times(plus(grad, loss), x)

    (found,) = bench.probe.autograd.gradients(within, [values], [device])
    expected = 2 * values + (values * values).sum()
    check_gradient(bench, found, expected, device, f"loss and gradient made within, on {device}")


@check(required=True, needs=("autograd", "probe.autograd.passing"), over="devices")
def test_own_backwards(bench: Workbench, device: Device) -> None:
    """Gradients that a user's own backward returns are detached, and share no memory.

    Be they a parameter, or parts of one buffer, as those of a concatenation.
    """
    flag, passing = bench.probe.autograd.is_differentiable, bench.probe.autograd.passing
    has_flags = bench.has("probe.autograd.is_differentiable")
    both = bench.make(wholes(2, 3), device)
    with device:
        parts = [both[:1], both[1:]]
    for kind in ("a parameter", "parts of one buffer"):
        xs = [bench.make(wholes(1, 3, start=n), device) for n in (1, 2, 3)]
        expected = [bench.probe.read(x) for x in (xs[2:] * 2 if "param" in kind else parts)]

        def loss_of(xs: Any, kind: str = kind) -> Any:
            return passing(xs[:2], xs[2:] * 2 if "param" in kind else parts)

        _, found = bench.works(unidev.value_and_grad(loss_of), xs)
        where = f"{kind} as gradients, on {device}"
        bench.oracle.check_all_disjoint([*found, *xs], where)
        for x, values in zip(found, expected, strict=False):
            bench.oracle.check_bytes(x, values, where)
            assert not (has_flags and flag(x)), f"{where}: it is not detached"


@check(required=True, needs=("autograd",), over="devices")
def test_called_again(bench: Workbench, device: Device) -> None:
    """Each call computes anew, once: from its arguments and from what else the function uses."""
    of_the_function: dict[str, Any] = {"calls": 0}

    def loss_of(x: Any, y: Any) -> Any:
        of_the_function["calls"] += 1
        return total(times(times(x, y), of_the_function["z"]))

    gradient_of = unidev.value_and_grad(loss_of)
    for start in (1, 2, 3):
        x, y, z = (wholes(2, 3, start=start + n) for n in range(3))
        of_the_function["z"] = bench.make(z, device)
        loss, grad = bench.works(gradient_of, bench.make(x, device), bench.make(y, device))
        where, calls = f"sum of x*y*z on {device}, call {start}", of_the_function["calls"]
        assert calls == start, f"{where}: the function was called {calls} times so far"
        check_gradient(bench, grad, y * z, device, where)
        _check_loss(bench, loss, float((x * y * z).sum()), device, where)


@check(required=True, needs=("autograd",), over="devices")
def test_errors(bench: Workbench, device: Device) -> None:
    """A loss that is not one number, depends on no parameter, or is not a tensor is an error."""
    x, other = bench.matrix(device), bench.matrix(device)
    of: Any = unidev.value_and_grad  # mypy cannot infer a lambda's type inside `expect`
    bench.expect(unidev.InvalidDataError, of(lambda x: times(x, x)), x)
    bench.expect(unidev.InvalidDataError, of(lambda _: 1.5), x)
    bench.expect(unidev.InvalidDataError, of(lambda _: None), x)
    bench.expect(unidev.InvalidDataError, of(lambda _, o=other: total(o)), x)
    bench.expect(unidev.NotATensorError, of(lambda _, o=other: total(o)), {"n": 3})

    def failing(_: Any) -> Any:
        raise ZeroDivisionError("as a user's own loss may, which must reach the user unchanged")

    left = weakref.ref(failing)
    bench.expect(ZeroDivisionError, of(failing), x)
    del failing
    assert left() is None, f"on {device}: a loss that raised, and all it holds, is left to collect"
    _, grad = bench.works(of(total), x)
    check_gradient(bench, grad, np.ones((2, 3), "float32"), device, "after all these errors")


@check(required=True, needs=("autograd",), over="devices")
def test_sgd_is_exact(bench: Workbench, device: Device) -> None:
    """``sgd`` gives parameter minus lr times gradient, in place if tensors can be written to."""
    _check_many_descend(bench, device)
    _check_descends(bench, device)
    values, down = wholes(2, 3), wholes(2, 3, start=2)
    expected = values - np.float32(0.25) * down
    is_mutable = bench.has("probe.write")
    x, y = bench.make(values, device), bench.make(values, device)
    grad = bench.make(down, device)
    parameters = {"x": x, "more": [y, x]}
    memory = bench.oracle.storage(x), bench.oracle.storage(y)
    new = bench.works(unidev.sgd, parameters, {"x": grad, "more": [grad, grad]}, lr=0.25)
    where = f"sgd on {device}"
    for name, each in (("x", new["x"]), ("y", new["more"][0]), ("again", new["more"][1])):
        bench.oracle.check_bytes(each, expected.tobytes(), f"{where}, {name}")
        bench.oracle.check_device(each, device, f"{where}, {name}")
    assert new["more"][1] is new["x"], f"{where}: a repeated tensor became two"
    bench.oracle.check_bytes(grad, down.tobytes(), f"{where}, the gradient itself")
    if is_mutable:
        assert new is parameters, f"{where}: tensors can be written to, but were replaced"
        after = bench.oracle.storage(x), bench.oracle.storage(y)
        assert after == memory, f"{where}: the memory was {memory}, and is {after}"
    else:
        bench.oracle.check_bytes(x, values.tobytes(), f"{where}, the old tensor")


def _check_descends(bench: Workbench, device: Device) -> None:
    """Numbers and rates that are rounded, in each dtype: to its precision, and no less."""
    for dtype, lr in product(differentiable(bench, device), (0.1, -0.07, 3e-5, 1)):
        leaf = Leaf(dtype, (2, 3), seed=7)
        old, down = (leaf.values(number).astype("longdouble") for number in range(2))
        x, grad = (leaf.made(bench, device, number) for number in range(2))
        found = numbers_in(bench, bench.works(unidev.sgd, [x], [grad], lr=lr)[0], dtype)
        expected = old - np.longdouble(lr) * down
        most = 4 * EPSILONS.get(dtype, 2.0**-24) * (abs(old) + abs(lr * down))
        where = f"sgd of {leaf} on {device}, lr={lr}: {found.tolist()}, not {expected.tolist()}"
        assert (abs(found - expected) <= most + 1e-7 * ("16" in dtype)).all(), where


_ODD = ((), (0, 3), (2, 1, 3))


def _check_many_descend(bench: Workbench, device: Device) -> None:
    """As many parameters as a model has, more than any block in which they are updated."""
    for count in (1, 67, 130):
        shapes = [(1 + n % 4, 3) if n % 9 else _ODD[n // 9 % 3] for n in range(1, count + 1)]
        arrays = [wholes(*shape, start=n % 7) for n, shape in enumerate(shapes)]
        xs, grads = ([bench.make(each, device) for each in arrays] for _ in range(2))
        new = bench.works(unidev.sgd, xs, grads, lr=0.5)
        for position, (each, array) in enumerate(zip(new, arrays, strict=True)):
            where = f"sgd of {count} tensors on {device}, number {position} of shape {array.shape}"
            bench.oracle.check_bytes(each, (array * np.float32(0.5)).tobytes(), where)


@check(required=True, needs=("autograd",), over="devices")
def test_sgd_refuses_what_does_not_fit(bench: Workbench, device: Device) -> None:
    """Gradients of another shape, number, kind or device are an error, and nothing is changed."""
    values = wholes(2, 3)
    x, y, good = (bench.make(values, device) for _ in range(3))
    parameters = [x, y]
    wrong: list[Any] = [bench.make(wholes(3, 2), device)]
    wrong += [bench.make(values, other) for other in bench.devices if other is not device]
    for each in wrong:
        bench.expect(unidev.InvalidDataError, unidev.sgd, parameters, [good, each], lr=1)
    bench.expect(unidev.InvalidDataError, unidev.sgd, parameters, [good], lr=1)
    for lr in ("fast", None, 1j):
        bench.expect(unidev.InvalidDataError, unidev.sgd, parameters, [good, good], lr=lr)
    for each in parameters:
        bench.oracle.check_bytes(each, values.tobytes(), f"on {device}, after the errors")


def _check_loss(bench: Workbench, loss: Any, expected: float, device: Device, where: str) -> None:
    found = float(read(bench, loss, np.zeros(1, "float32"))[0])
    assert found == expected, f"{where}: the loss is {found}, not {expected}"
    bench.oracle.check_device(loss, device, f"{where}: the loss")
