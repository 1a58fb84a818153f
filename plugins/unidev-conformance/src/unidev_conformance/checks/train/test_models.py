"""A model: its parameters by name, its device, and verbs that take it. PYTEST_DONT_REWRITE."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import unidev
from unidev.contract.models import Models
from unidev_conformance.kit.inputs.containers import Slotted
from unidev_conformance.kit.models.differentiating import wholes
from unidev_conformance.kit.models.sample_models import INPUT, Sample
from unidev_conformance.kit.oracle import line_of
from unidev_conformance.running.catalog import check

if TYPE_CHECKING:
    from unidev.device import Device
    from unidev_conformance.kit.workbench import Workbench

_BOTH = ("models", "probe.models")


@check(required=True, needs=_BOTH)
def test_probe_calibrated(bench: Workbench) -> None:
    """The probe's models are equal but separate, contain what they should, and learn."""
    one, other = Sample(bench), Sample(bench)
    where = f"the probe's model, by {line_of(one.probe.model)}"
    assert one.contents() == other.contents(), f"{where}: two of them have other numbers"
    for (name, x), y in zip(one.tensors().items(), other.tensors().values(), strict=True):
        assert not bench.oracle.shares(x, y), f"{where}: two models share the memory of {name}"
    assert one.forward() == other.forward(), f"{where}: two of them give different outputs"
    assert len(one.forward()) == INPUT.nbytes, f"{where}: does not map (n, 4) to (n, 4)"
    _calibrate_structure(bench, one, where)
    before = one.contents()
    one.step()
    after = one.contents()
    frozen = one.probe.frozen(one.model)
    stuck = [n for n in before if before[n] == after[n] and n not in frozen]
    assert len(stuck) < len(before) - len(frozen), f"{where}: a step changes nothing"
    assert all(before[n] == after[n] for n in frozen), f"{where}: a step changes frozen parameters"
    assert one.state(), f"{where}: the optimizer has no state after a step"
    buffers = [n for n in before if n not in stuck and not _is_parameter(bench, one, n)]
    assert buffers, f"{where}: a step updates no buffer"
    assert other.contents() == before, f"{where}: a step of one changes another one"
    other.step()
    one.check_like(other, f"{where}: a step of each of two")
    bench.evidence.add("tensors", list(after))


def _calibrate_structure(bench: Workbench, sample: Sample, where: str) -> None:
    probe, model = sample.probe, sample.model
    tensors = sample.tensors()
    assert probe.tied(model), f"{where} has no tied weights"
    for a, b in probe.tied(model):
        assert bench.oracle.shares(a, b), f"{where}: weights listed as tied are not"
    assert probe.shared(model), f"{where} has no shared submodule"
    assert all(a is b for a, b in probe.shared(model)), f"{where}: objects listed as shared differ"
    assert probe.objects(model), f"{where} has no parameter objects"
    frozen = probe.frozen(model)
    assert frozen, f"{where} has no frozen parameters"
    assert frozen <= set(tensors), f"{where}: frozen is {sorted(frozen)}, of {sorted(tensors)}"
    assert probe.is_training(model) in (True, None), f"{where}: a new one is not in training mode"
    if probe.is_training(model) is not None:
        inferring = probe.model()
        probe.set_inference(inferring)
        assert probe.is_training(inferring) is False, f"{where}: set_inference does nothing"
    if bench.has("probe.models.add_hook"):
        calls: list[int] = []
        hooked = probe.model()
        probe.add_hook(hooked, lambda: calls.append(1))
        probe.forward(hooked, sample.x)
        assert calls, f"{where}: its hook is not called"


def _is_parameter(bench: Workbench, sample: Sample, name: str) -> bool:
    x = sample.tensors().get(name)
    return x is None or any(
        bench.oracle.shares(x, each) for each in unidev.parameters(sample.model).values()
    )


@check(required=True, needs=_BOTH, over="devices")
def test_tensors_are_all_there(bench: Workbench, device: Device) -> None:
    """The backend finds every tensor of a model, gradients and buffers too, and no other."""
    assert isinstance(bench.backend.models, Models), (
        "the part `models` is not a unidev.contract.models.Models"
    )
    sample = Sample.trained_on(bench, device)
    listed = bench.backend.models.tensors(sample.model)
    seen = {_key(bench, x): name for name, x in sample.tensors().items()}
    found = {_key(bench, x): name for name, x in listed.items()}
    missing = [seen[key] for key in seen if key not in found]
    assert not missing, f"on {device}: the backend does not find {missing}"
    strange = [found[key] for key in found if key not in seen]
    assert not strange, f"on {device}: the backend finds {strange}, which the probe does not"
    bench.evidence.add("found", sorted(listed))


def _key(bench: Workbench, x: Any) -> tuple[Any, ...]:
    return tuple(bench.oracle.storage(x))


@check(required=True, needs=_BOTH)
def test_parameters_by_name(bench: Workbench) -> None:
    """``parameters`` gives the model's own tensors, each once, always in the same order."""
    one, other = Sample(bench), Sample(bench)
    named = bench.works(unidev.parameters, one.model)
    assert list(named) == list(unidev.parameters(other.model)), "the names of two models differ"
    assert list(named) == list(unidev.parameters(one.model)), "the names differ between two calls"
    assert all(isinstance(name, str) for name in named), f"names are {list(named)}"
    memory = [_key(bench, x) for x in named.values()]
    assert len(set(memory)) == len(memory), f"one tensor has two of the names {list(named)}"
    names = one.names(named)
    frozen = one.probe.frozen(one.model)
    assert frozen <= names, f"{sorted(frozen - names)} is frozen, but not a parameter"
    for name, x in named.items():
        assert isinstance(x, bench.backend.tensor_types), f"{name} is a {type(x).__name__}"
    trainable = bench.backend.models.trainable(one.model)
    found = one.names(trainable)
    assert found == names - frozen, f"{sorted(found)} can be trained; frozen are {sorted(frozen)}"
    order = [name for name in named if name in trainable]
    assert order == list(trainable), f"trainable ones are in another order: {list(trainable)}"
    for device in bench.devices:
        one.place(device)
        assert list(unidev.parameters(one.model)) == list(named), f"on {device}: other names"
    bench.evidence.add("parameters", list(named))


@check(required=True, needs=_BOTH, over="devices")
def test_parameters_stay(bench: Workbench, device: Device) -> None:
    """A parameter is the same object after a step, and has its new values."""
    sample, models = Sample.on(bench, device), bench.backend.models
    before, listed = dict(unidev.parameters(sample.model)), dict(models.tensors(sample.model))
    values = {name: unidev.to_numpy(x) for name, x in before.items()}
    sample.step()
    after, where = unidev.parameters(sample.model), f"after a step on {device}"
    replaced = [name for name in before if after[name] is not before[name]]
    own = {id(x) for x in before.values()}
    now = models.tensors(sample.model)
    replaced += [path for path, x in listed.items() if id(x) in own and now[path] is not x]
    assert not replaced, f"{where}: other objects are {', '.join(replaced)}"
    trained = [
        n for n in models.trainable(sample.model) if (values[n] != unidev.to_numpy(before[n])).any()
    ]
    assert trained, f"{where}: no parameter that was listed before has other values"


@check(required=True, needs=_BOTH, over="devices")
def test_device_of_a_model(bench: Workbench, device: Device) -> None:
    """``device_of`` and ``same_device`` accept a model."""
    sample = Sample.trained_on(bench, device)
    found = bench.works(unidev.device_of, sample.model)
    assert found is device, f"a model on {device} is reported to be on {found}"
    assert unidev.same_device(sample.model, sample.x), f"on {device}, and not with its input"
    bench.works(unidev.check_same_device, model=sample.model, x=sample.x)
    for other in bench.devices:
        x = bench.make(INPUT, other)
        assert unidev.same_device(sample.model, x) is (other is device), (
            f"a model on {device} and a tensor on {other}: same_device is wrong"
        )


@check(required=True, needs=_BOTH, over="pairs")
def test_mismatch_names_paths(bench: Workbench, here: Device, there: Device) -> None:
    """The mismatch of a model and its batch lists devices by path."""
    sample = Sample.on(bench, here)
    batch = {"mask": bench.make(INPUT, there)}
    error = bench.expect(
        unidev.DeviceMismatchError, unidev.check_same_device, model=sample.model, batch=batch
    )
    within = {f"model.{name}" for name in sample.paths()}
    expected = {*within, "batch['mask']"}
    assert set(error.devices) == expected, f"it names {sorted(error.devices)}, not {expected}"
    wanted = f"batch['mask']: {there}"
    first = f"{min(within, key=list(error.devices).index)}: {here}"
    assert wanted in str(error), f"the message lacks {wanted!r}: {error}"
    assert first in str(error), f"the message lacks {first!r}: {error}"


@check(required=True, needs=_BOTH, over="devices")
def test_transfer_verbs_refuse(bench: Workbench, device: Device) -> None:
    """``copy_to`` and ``as_in_device`` refuse a model and an optimizer, and name ``place``."""
    sample = Sample(bench)
    for verb in (unidev.copy_to, unidev.as_in_device):
        for each in (sample.model, sample.optimizer):
            error = bench.expect(unidev.NotATensorError, verb, each, device)
            assert "place" in str(error), f"the message does not name `place`: {error}"
    sample.check_on(bench.cpu, "after being refused")


@check(required=True, needs=("models",), over="devices")
def test_what_is_no_model_is_refused(bench: Workbench, device: Device) -> None:
    """``place`` and ``parameters`` refuse a tensor, a number and any object, and name the type."""
    x = bench.make(wholes(2, 3), device)
    for each in (x, 3, None, "net", {"n": 3}, Slotted(3)):
        bench.expect(unidev.NotAModelError, unidev.place, each, device)
        bench.expect(unidev.NotAModelError, unidev.parameters, each)
    models = bench.backend.models
    if models.takes_containers or models.rebuilds_containers:
        return
    error = bench.expect(unidev.NotAModelError, unidev.place, {"x": x}, device)
    assert "save_parameters(device_get(x), path)" in str(error), f"no way to save it: {error}"
    bench.oracle.check_bytes(x, wholes(2, 3).tobytes(), f"on {device}, after being refused")


@check(needs=("models", "probe.write"), over="all_pairs")
def test_container_of_arrays(bench: Workbench, source: Device, target: Device) -> None:
    """Where containers are models, one is placed like a model: same object, ties and names."""
    if not bench.backend.models.takes_containers:
        bench.not_applicable("in this framework containers of tensors are not models")
    x, y = bench.make(wholes(2, 3), source), bench.make(wholes(4), source)
    inner = [y, x]
    model = {"first": x, "rest": inner}
    placed = bench.works(unidev.place, model, target)
    where = f"{source} to {target}"
    assert placed is model, f"{where}: another dict was returned"
    assert model["rest"] is inner, f"{where}: the list in it was replaced"
    assert inner[1] is model["first"], f"{where}: a tied array became two"
    bench.oracle.check_bytes(model["first"], wholes(2, 3).tobytes(), where)
    assert unidev.device_of(model) is target, f"{where}: it is on {unidev.device_of(model)}"
    assert list(unidev.parameters(model)) == ["first", "rest.0"], f"{where}: other names"
    assert (model["first"] is x) is (source is target), f"{where}: moved without need, or not"
    bench.oracle.check_bytes(x, np.ascontiguousarray(wholes(2, 3)).tobytes(), where)
