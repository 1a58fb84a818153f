"""``value_and_grad`` and ``sgd`` of models. PYTEST_DONT_REWRITE."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import unidev
from unidev_conformance.kit.models.differentiating import plus, times, total
from unidev_conformance.kit.models.sample_models import Sample, assign_anew
from unidev_conformance.running.catalog import check

if TYPE_CHECKING:
    from unidev.device import Device
    from unidev_conformance.kit.workbench import Workbench


@check(required=True, needs=("autograd", "models", "probe.models"), over="ends")
def test_of_a_model(bench: Workbench, device: Device) -> None:
    """For a model, gradients have the names of its trainable parameters, and lower the loss."""
    sample = Sample.on(bench, device)
    sample.probe.set_inference(sample.model)  # else statistics change between two calls
    frozen = sample.probe.frozen(sample.model)
    trainable = sample.names(unidev.parameters(sample.model)) - frozen
    flags, calls = sample.flags(), list[int]()

    def loss_of(model: Any, x: Any) -> Any:
        calls.append(1)
        return sample.loss_of(model, x)

    before, grads = bench.works(unidev.value_and_grad(loss_of), sample.model, sample.x)
    assert len(calls) == 1, f"on {device}: the function was called {len(calls)} times"
    sample.check_flags(flags, f"value_and_grad on {device}")
    found = sample.names({name: unidev.parameters(sample.model)[name] for name in grads})
    assert found == trainable, f"on {device}: gradients of {found}, not of {trainable}"
    for name, grad in grads.items():
        bench.oracle.check_device(grad, device, f"the gradient of {name}")
        bench.oracle.check_kind(unidev.parameters(sample.model)[name], grad, name)
    for name, grad in grads.items():  # each alone: of a tied one, a part might be missing
        _check_falls(bench, sample, before, {name: grad}, f"on {device}, of {name} alone")
    in_another_order = dict(reversed(grads.items()))  # they are paired by their names
    _check_falls(bench, sample, before, in_another_order, f"on {device}")
    for other in bench.ends():
        if other is not device:
            sample.place(other)
            contents = sample.contents()
            bench.expect(unidev.InvalidDataError, unidev.sgd, sample.model, grads, lr=1)
            sample.check_contents(contents, f"sgd on {other}, with gradients on {device}")


def _check_falls(
    bench: Workbench, sample: Sample, before: Any, grads: dict[str, Any], where: str
) -> None:
    """A step along these gradients lowers the loss as they say, and the step back raises it."""
    steepness = sum(float((sample.array(each) ** 2).sum()) for each in grads.values())
    assert steepness > 0, f"{where}: the gradients are zeros"
    old = float(sample.array(before).ravel()[0])
    # So small a step that the loss is almost linear, so large that float32 shows the change.
    lr = 0.002 * old / steepness
    bench.works(unidev.sgd, sample.model, grads, lr=lr)
    after, _ = unidev.value_and_grad(sample.loss_of)(sample.model, sample.x)
    unidev.sgd(sample.model, grads, lr=-lr)
    fell, expected = old - float(sample.array(after).ravel()[0]), lr * steepness
    where = f"a step of {lr:g} along the gradients {where}"
    assert np.isclose(fell, expected, rtol=0.1), (
        f"{where} lowered the loss by {fell:g}, not by the expected {expected:g}"
    )
    bench.evidence.add("fell", f"{where}: {fell:g} of {expected:g}")


@check(required=True, needs=("autograd", "models", "probe.models"), over="ends")
def test_buffers_are_the_models(bench: Workbench, device: Device) -> None:
    """What the function changes in the buffers of the model that it gets is in the user's model.

    As after a call of the function alone, or where that changes nothing, after a step; parameters
    are unchanged.
    """
    sample, called, stepped, failed = (Sample.on(bench, device) for _ in range(4))
    before, memory, where = sample.contents(), sample.memory(), f"on {device}"
    parameters = [memory[name] for name in sample.names(unidev.parameters(sample.model))]
    buffers = [n for n, x in memory.items() if x not in parameters and not n.endswith(".grad")]
    bench.works(unidev.value_and_grad(sample.loss_of), sample.model, sample.x)
    stepped.step()
    references = [stepped.contents()]
    try:
        called.loss_of(called.model, called.x)
    except bench.backend.framework_errors as error:  # MXNet's layers, without NumPy's semantics
        bench.evidence.add("the function alone", str(error))
    else:
        references.append(called.contents())

    def failing(model: Any, x: Any) -> Any:
        failed.loss_of(model, x)
        raise ZeroDivisionError("as a user's own loss may, after a forward")

    flags = failed.flags()
    bench.expect(ZeroDivisionError, unidev.value_and_grad(failing), failed.model, failed.x)
    failed.check_flags(flags, f"{where}, after a loss that raised")
    left = failed.contents()
    assert left in (before, references[-1]), f"{where}: a loss that raised leaves the model torn"
    after = sample.contents()
    for name in before:
        expected = [each[name] for each in references] if name in buffers else [before[name]]
        assert after[name] in expected, (
            f"{where}: {name} is neither as after a call of the function nor as after a step"
            if name in buffers
            else f"{where}: value_and_grad has changed {name}, which is not a buffer"
        )
    changed = [name for name in buffers if after[name] != before[name]]
    bench.evidence.add("changed", f"{where}: {changed} of {buffers}")
    _check_bound_anew(bench, device)


def _check_bound_anew(bench: Workbench, device: Device) -> None:
    """Buffers that the function binds anew are those that it binds if it is called alone."""
    sample, called = (Sample.on(bench, device) for _ in range(2))
    where = f"buffers bound anew on {device}"

    def binding(model: Any, x: Any) -> Any:
        assign_anew(bench, model)
        return sample.loss_of(model, x)

    for each in (sample, called):
        each.probe.set_inference(each.model)
    refusals: tuple[type[Exception], ...] = (*bench.backend.framework_errors, AttributeError)
    try:
        binding(called.model, called.x)
    except refusals as error:  # a layer may ask for what its own variable has
        bench.evidence.add("no buffer can be bound anew", f"{where}: {error}")
        return
    tensors = bench.backend.models.tensors
    if tensors(called.model).keys() != tensors(sample.model).keys():
        bench.evidence.add("no buffer can be bound anew", f"{where}: what is assigned is none")
        return
    bench.works(unidev.value_and_grad(binding), sample.model, sample.x)
    sample.check_contents(called.contents(), where)


@check(required=True, needs=("autograd", "models", "probe.models"), over="ends")
def test_of_the_framework_stay(bench: Workbench, device: Device) -> None:
    """Gradients that the framework keeps in the model are not created, changed or lost.

    Nor those in another model that the loss uses, as a generator's loss uses a critic.
    """
    sample, critic = Sample.on(bench, device), Sample.on(bench, device)
    # JAX refuses to set the statistics of a model that the differentiated function encloses.
    critic.probe.set_inference(critic.model)
    _check_gradients_stay(bench, sample, critic, f"on {device}, before any")
    sample.step()
    critic.step()
    _check_gradients_stay(bench, sample, critic, f"on {device}, after a step")


def _check_gradients_stay(bench: Workbench, sample: Sample, critic: Sample, where: str) -> None:
    def kept() -> dict[str, bytes]:
        return {
            f"{name} of the {whose}": bench.probe.read(x)
            for whose, each in (("model", sample), ("model that the loss uses", critic))
            for name, x in each.tensors().items()
            if name.endswith(".grad")
        }

    def loss_of(model: Any, x: Any) -> Any:
        with unidev.device_of(x):
            y = model(x)
        return critic.loss_of(critic.model, y)

    before = kept()
    bench.works(unidev.value_and_grad(loss_of), sample.model, sample.x)
    after = kept()
    changed = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    assert not changed, f"{where}: value_and_grad has changed {changed}"
    bench.evidence.add("kept", f"{where}: {sorted(before)}")


@check(required=True, needs=("autograd", "models", "probe.models", "probe.autograd.recomputed"))
def test_through_what_is_computed_again(bench: Workbench) -> None:
    """Gradients of what backward computes again are whole or refused, and none stay in the model.

    Checkpointing, for one. A weight is used elsewhere, too, so that its gradient has two parts.
    """
    device, again = bench.devices[-1], bench.probe.autograd.recomputed
    sample = Sample.on(bench, device)
    sample.probe.set_inference(sample.model)  # else statistics change between two calls

    def loss_of(model: Any, x: Any, call: Any, is_alone: bool) -> Any:
        weight = next(w for w in unidev.parameters(model).values() if len(w.shape) == 2)
        with device:
            given = x if is_alone else x @ weight
        return plus(total(call(model, given)), total(times(weight, weight)))

    for is_alone in (True, False):
        where = f"on {device}, {'alone' if is_alone else 'after a weight of its own'}"
        of = unidev.value_and_grad(loss_of)
        _, expected = of(sample.model, sample.x, lambda f, x: f(x), is_alone)
        before = sample.contents()
        try:
            _, found = of(sample.model, sample.x, again, is_alone)
        except unidev.UnidevError as error:
            bench.evidence.add("refused", f"{where}: {error}")
        else:
            for name, each in expected.items():
                assert np.allclose(sample.array(found[name]), sample.array(each)), (
                    f"{where}: the gradient of {name} is not that of the layers themselves"
                )
        assert sample.contents() == before, f"{where}: value_and_grad has changed the model"
