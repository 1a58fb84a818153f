"""``place``: a model moves in place, and keeps its identity. PYTEST_DONT_REWRITE."""

from __future__ import annotations

import signal
import threading
import warnings
from contextlib import ExitStack, suppress
from functools import partial
from itertools import pairwise
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from hypothesis import example, given

import unidev
from unidev import nn
from unidev.errors import LeftBehindWarning
from unidev_conformance.judging.outcomes import NotApplicableError
from unidev_conformance.kit import trees
from unidev_conformance.kit.current import check_stays
from unidev_conformance.kit.inputs.strategies import a_couple, from_seed, some
from unidev_conformance.kit.models.differentiating import squares_of
from unidev_conformance.kit.models.held_models import HeldModel, holdable, one_of_each
from unidev_conformance.kit.models.sample_models import INPUT, Sample
from unidev_conformance.kit.models.stored_models import a_path
from unidev_conformance.kit.oracle import overlapping_bytes, shown
from unidev_conformance.kit.spying import Calls, PressedError, Presses
from unidev_conformance.running.catalog import check

if TYPE_CHECKING:
    from unidev.device import Device
    from unidev_conformance.kit.trees import Tree
    from unidev_conformance.kit.workbench import Workbench

_BOTH = ("models", "probe.models")
_BARRAGES = 16


@check(required=True, needs=_BOTH, over="ring")
def test_same_object_returned(bench: Workbench, source: Device, target: Device) -> None:
    """The returned model is the given one, alone and with an optimizer."""
    sample = Sample.trained_on(bench, source)
    assert sample.place_alone(target) is sample.model, f"{source} to {target}: another model"
    placed = bench.works(unidev.place, sample.model, source, optimizer=sample.optimizer)
    where = f"{target} to {source}, with an optimizer"
    assert isinstance(placed, tuple), f"{where}: a {type(placed).__name__}, not a pair"
    assert placed[0] is sample.model, f"{where}: another model"


@check(required=True, needs=_BOTH)
def test_everything_arrives(bench: Workbench) -> None:
    """Parameters, buffers and gradients are on the device, with their values."""
    # From the CPU first, where nothing has been placed yet: names what stays behind.
    for source, target in sorted(bench.ring(), key=lambda pair: pair[0] is pair[1]):
        sample = Sample.trained_on(bench, source)
        where = f"{source} to {target}"
        before, memory = sample.contents(), sample.memory()
        sample.place(target)
        sample.check_on(target, where)
        sample.check_contents(before, where)
        if source is target:
            continue
        # No address was freed before all twins existed, so none can have been reused.
        after = sample.memory()
        for name in memory:
            shared = overlapping_bytes(memory[name], after[name])
            assert not shared, f"{where}: {name} is still in its old memory: {shown(memory[name])}"
        bench.evidence.add("arrived", f"{where}: {sorted(after)}")
        _check_gradients_follow(sample, source, where)


def _check_gradients_follow(sample: Sample, home: Device, where: str) -> None:
    """Gradients that were elsewhere than their parameters, as PyTorch's may be, come there, too."""
    before = sample.contents()
    for name, x in sample.tensors().items():
        if not name.endswith(".grad") and unidev.is_tensor(getattr(x, "data", None)):
            with suppress(AttributeError):
                x.data = unidev.copy_to(x.data, home)
    sample.place_alone(home)
    sample.check_on(home, f"{where}, where gradients were elsewhere")
    sample.check_contents(before, f"{where}, where gradients were elsewhere")


@check(required=True, needs=("models",))
def test_any_model(bench: Workbench) -> None:
    """However many tensors a model has, of any dtypes, all arrive, and come back; ties stay."""
    dtypes, there = holdable(bench), [bench.devices[-1]]
    kinds = trees.Kinds(dtypes, is_bits=True)

    @a_couple
    @given(from_seed(lambda rng: (kinds.tree(rng), some(rng, bench.devices, 1, 3))))
    @example((one_of_each(dtypes), there))
    @example((trees.many("float32"), there))
    def moved(case: tuple[Tree, list[Device]]) -> None:
        tree, way = case
        held, here = HeldModel(bench, tree), bench.cpu
        for device in (*way, bench.cpu):
            where, before = f"{here} to {device}", held.memory()
            placed = bench.works(unidev.place, held.model, device)
            assert placed is held.model, f"{where}: another model"
            held.check(device, where)
            if device is not here:
                after = held.memory()
                kept = [n for n in before if overlapping_bytes(before[n], after[n])]
                assert not kept, f"{where}: {kept} of {tree} are in their old memory"
            here = device

    moved()


@check(required=True, needs=("models",))
def test_whole_under_signals(bench: Workbench) -> None:
    """Up to ten signals whose handlers raise, while a model is placed, leave all of it in place."""
    if not hasattr(signal, "SIGALRM"):
        raise NotApplicableError("this system has no signal that a program may send itself")
    held, here, raised = HeldModel(bench, one_of_each(holdable(bench))), bench.cpu, 0
    models = bench.backend.models
    ways = [pair for pair in bench.ring() if pair[0] is not pair[1]]
    if not ways:
        raise NotApplicableError("there is one device")
    for seed in range(_BARRAGES):
        rng = Random(seed)  # noqa: S311
        numbers = {rng.randrange(60) for _ in range(rng.choice((1, 2, 10)))}
        target = next(b if a is here else a for a, b in ways if here in (a, b))
        with ExitStack() as stack:
            presses = stack.enter_context(Presses(numbers, rng))
            for name in ("swap", "is_on", "finish"):
                stack.enter_context(Calls(models, name, presses.press))
            try:
                unidev.place(held.model, target)
            except PressedError:
                raised += 1
        devices = {str(unidev.device_of(x)) for x in held.tensors().values()}
        where = f"{here} to {target}, signals {sorted(numbers)}"
        assert len(devices) == 1, f"{where}: torn, on {', '.join(sorted(devices))}"
        here = target if str(target) in devices else here
        held.check(here, where)
    bench.evidence.add("placed", f"{_BARRAGES} times, {raised} of them ended by a signal")


@check(required=True, needs=_BOTH, over="ring")
def test_parameter_objects_stay(bench: Workbench, source: Device, target: Device) -> None:
    """Parameter objects and submodules stay the same objects."""
    sample = Sample.on(bench, source)
    before = list(sample.probe.objects(sample.model))
    sample.place_alone(target)
    after = list(sample.probe.objects(sample.model))
    same = [a is b for a, b in zip(before, after, strict=True)]
    assert all(same), f"{source} to {target}: {same.count(False)} objects were replaced"


@check(required=True, needs=("models", "probe.models.earlier_optimizer"), over="ring")
def test_earlier_optimizer_trains(bench: Workbench, source: Device, target: Device) -> None:
    """An optimizer made before the move trains the model like one that was never moved."""
    moved, unmoved = Sample.on(bench, source), Sample.on(bench, source)
    moved.optimizer = moved.probe.earlier_optimizer(moved.model)
    moved.place_alone(target)
    for count in (1, 2):
        moved.step()
        unmoved.step()
        where = f"{source} to {target}, after {count} steps"
        moved.check_like(unmoved, where)
        moved.check_on(target, where)


@check(required=True, needs=_BOTH, over="ring")
def test_ties_stay(bench: Workbench, source: Device, target: Device) -> None:
    """Tied weights stay one tensor, before and after a step."""
    sample = Sample.on(bench, source)
    sample.place(target)
    _check_tied(bench, sample, f"{source} to {target}")
    sample.step()
    _check_tied(bench, sample, f"{source} to {target}, after a step")


def _check_tied(bench: Workbench, sample: Sample, where: str) -> None:
    for a, b in sample.probe.tied(sample.model):
        one = list(bench.oracle.storage(a)) == list(bench.oracle.storage(b))
        assert one, f"{where}: tied weights are no longer tied: each has its own memory"
        assert bench.probe.read(a) == bench.probe.read(b), f"{where}: tied weights differ"


@check(required=True, needs=_BOTH, over="ring")
def test_shared_submodules_stay(bench: Workbench, source: Device, target: Device) -> None:
    """A submodule at two places stays one object."""
    sample = Sample.on(bench, source)
    sample.place_alone(target)
    for a, b in sample.probe.shared(sample.model):
        assert a is b, f"{source} to {target}: a shared submodule became two"


@check(required=True, needs=_BOTH, over="ring")
def test_frozen_stays(bench: Workbench, source: Device, target: Device) -> None:
    """Frozen parameters stay frozen, the others trainable, and a step leaves frozen ones alone."""
    sample = Sample.on(bench, source)
    before = sample.probe.frozen(sample.model)
    sample.place(target)
    where = f"{source} to {target}"
    after = sample.probe.frozen(sample.model)
    assert after == before, f"{where}: frozen was {sorted(before)}, and is {sorted(after)}"
    numbers = sample.contents()
    sample.step()
    changed = [name for name in before if sample.contents()[name] != numbers[name]]
    assert not changed, f"{where}: a step changes {changed}, which is frozen"
    sample.probe.set_inference(sample.model)
    sample.place(source)


@check(required=True, needs=("models", "probe.models.add_hook"), over="ring")
def test_hooks_stay(bench: Workbench, source: Device, target: Device) -> None:
    """Hooks are still called, once for each event as before, in a step and in inference."""
    sample = Sample.on(bench, source)
    calls: list[str] = []
    sample.probe.add_hook(sample.model, partial(calls.append, "called"))
    sample.forward()
    assert calls, f"{source}: the probe's hook is not called even before the move"
    sample.step()
    expected = len(calls)
    sample.place(target)
    sample.forward()
    sample.step()
    found = len(calls) - expected
    assert found == expected, f"{source} to {target}: called {found} times, not {expected}"


@check(required=True, needs=("models", "layers"), over="kinds_of_ways")
def test_modes_of_layers_stay(bench: Workbench, source: Device, target: Device) -> None:
    """Layers of one net may be in different modes, and are in them still, whatever it goes through.

    Those in training mode, and no others, change their statistics: in its copies, too.
    """
    x = bench.make(INPUT, target)
    for modes in ([True, False, True], [False, False], [True]):
        parts = [nn.sequential(nn.batch_norm(4, momentum=0.5), nn.relu()) for _ in modes]
        net = unidev.place(nn.sequential(*parts), source)
        for part, is_training in zip(parts, modes, strict=True):
            (nn.train_mode if is_training else nn.eval_mode)(part)
        bench.works(unidev.place, net, target)
        with a_path() as path:
            unidev.save_parameters(net, path)
            bench.works(unidev.load_parameters, net, path)
        if bench.has("autograd"):
            bench.works(unidev.value_and_grad(squares_of), net, x)
        for number, each in enumerate([net, *_copies(bench, net, target)]):
            found = _which_train(bench, each, x, len(modes))
            assert found == modes, f"{source} to {target}, copy {number}: {found} train"


def _copies(bench: Workbench, net: Any, device: Device) -> list[Any]:
    """Two on its device, with memory of their own; none if the framework makes none."""
    try:
        made = unidev.replicate(net, [device, device])
    except unidev.UnsupportedOperation:
        return []
    for one, other in pairwise([net, *made, net]):
        for a, b in zip(*(unidev.parameters(net).values() for net in (one, other)), strict=True):
            bench.oracle.check_disjoint(a, b, f"a net on {device} and its copies there")
    return made


def _which_train(bench: Workbench, net: Any, x: Any, count: int) -> list[bool]:
    """Which of so many layers change their statistics."""
    models = bench.backend.models
    before = {n: bench.probe.read(y) for n, y in models.statistics(net).items()}
    with unidev.device_of(x):
        net(x)
    changed = [n for n, y in models.statistics(net).items() if bench.probe.read(y) != before[n]]
    return [any(name.startswith(f"{n}.") for name in changed) for n in range(count)]


@check(required=True, needs=_BOTH, over="ring")
def test_forward_to_the_bit(bench: Workbench, source: Device, target: Device) -> None:
    """On the same kind of device the output has the same bits; on another it is close."""
    sample = Sample.trained_on(bench, source)
    before, numbers = sample.forward(), sample.output()
    sample.place(target)
    where = f"{source} to {target}"
    if source.kind == target.kind:
        assert sample.forward() == before, f"{where}: the output has other bits"
    far = abs(sample.output() - numbers).max()
    assert far <= 1e-4 * max(1.0, abs(numbers).max()), f"{where}: the output is off by {far}"
    x = sample.probe.forward(sample.model, sample.x)
    bench.oracle.check_device(x, target, f"{where}: the output")
    sample.place(source)
    assert sample.forward() == before, f"{where} and back: the output has other bits"


@check(required=True, needs=_BOTH, over="devices")
def test_already_there_is_not_touched(bench: Workbench, device: Device) -> None:
    """A model already on the device keeps its memory, however the device is spelt."""
    sample = Sample.trained_on(bench, device)
    before, memory = sample.contents(), sample.memory()
    with Calls(bench.backend.models, "twin") as calls:
        for spelling in (device, str(device), device.native):
            bench.works(unidev.place, sample.model, spelling)
            bench.works(unidev.place, sample.model, spelling, optimizer=sample.optimizer)
    assert not calls.count, f"{device}: {calls.count} parts were copied, but none had to move"
    after = sample.memory()
    moved = [name for name in memory if memory[name] != after[name]]
    assert not moved, f"{device}: the memory of {moved} was replaced"
    sample.check_contents(before, f"on {device} already")


@check(required=True, needs=_BOTH, over="kinds_of_ways")
def test_optimizer_state_moves(bench: Workbench, source: Device, target: Device) -> None:
    """An optimizer's state moves along, and the returned optimizer continues from there.

    Moments of each group of parameters, and what counts steps.
    """
    _check_state_moves(Sample.on(bench, source), Sample.on(bench, source), target, "momentum")
    if bench.has("probe.models.counting_optimizer"):
        moved, unmoved = (Sample.counting_on(bench, source) for _ in range(2))
        _check_state_moves(moved, unmoved, target, "an optimizer that counts steps")


def _check_state_moves(moved: Sample, unmoved: Sample, target: Device, kind: str) -> None:
    bench, where = moved.bench, f"{moved.device} to {target}, {kind}"
    moved.step()
    unmoved.step()
    before = moved.contents()
    moved.place(target)
    moved.check_contents(before, where)
    state = moved.state()
    assert state, f"{where}: the optimizer has lost its state"
    for name, x in state.items():
        bench.oracle.check_device(x, target, f"{where}: {name}")
    for count in (1, 2):
        moved.step()
        unmoved.step()
        moved.check_like(unmoved, f"{where}, and {count} steps more")
    if bench.backend.models.places_optimizers:
        twice = {"optimizer": moved.optimizer}
        bench.expect(unidev.NotAModelError, unidev.place, moved.optimizer, target, **twice)
        for device in (bench.cpu, target):
            placed = bench.works(unidev.place, moved.optimizer, device)
            assert placed is moved.optimizer, f"{kind}, alone to {device}: another optimizer"
            for name, x in moved.state().items():
                bench.oracle.check_device(x, device, f"{kind}, alone to {device}: {name}")
        moved.step()
        unmoved.step()
        moved.check_like(unmoved, f"{where}, and its state alone to {bench.cpu} and back")
    bench.evidence.add("state", sorted(state))


@check(needs=("models", "probe.models.wrapping_optimizer"), over="devices")
def test_wrapped_state_moves(bench: Workbench, device: Device) -> None:
    """The state of an optimizer that another one wraps moves along."""
    probe = bench.probe.models
    model = probe.model()
    optimizer, tensors = probe.wrapping_optimizer(model)
    probe.step(model, optimizer, bench.make(INPUT, bench.cpu))
    bench.works(unidev.place, model, device, optimizer=optimizer)
    state = tensors()
    assert state, "the optimizer that is wrapped has no state"
    for name, x in state.items():
        bench.oracle.check_device(x, device, f"placed on {device}: {name}")
    bench.evidence.add("state", sorted(state))


@check(required=True, needs=("models", "probe.models.unbuilt"), over="devices")
def test_unbuilt(bench: Workbench, device: Device) -> None:
    """An unbuilt model is placed once it is built, or the error explains how to build it."""
    probe = bench.probe.models
    model = probe.unbuilt()
    try:
        placed = unidev.place(model, device)
    except unidev.UnsupportedOperation as refusal:
        said = str(refusal)
        assert "build" in said or "built" in said or "initial" in said or "call" in said, (
            f"the refusal does not explain how to build it: {said}"
        )
        bench.evidence.add("refused", said)
        bench.works(probe.forward, model, bench.make(INPUT, bench.cpu))
        bench.works(unidev.place, model, device)
    else:
        assert placed is model, f"unbuilt, to {device}: another model"
    bench.works(probe.forward, model, bench.make(INPUT, device))
    tensors: dict[str, Any] = dict(probe.tensors(model))
    assert tensors, f"built on {device}, but without tensors"
    for name, x in tensors.items():
        bench.oracle.check_device(x, device, f"an unbuilt model, to {device}: {name}")


@check(required=True, needs=_BOTH)
def test_one_thread_at_a_time(bench: Workbench) -> None:
    """While one thread places a model, another one that places it, too, waits: it is the last."""
    source, target = bench.devices[0], bench.devices[-1]
    sample = Sample.on(bench, source)
    other = threading.Thread(target=unidev.place, args=(sample.model, source))

    def begin(count: int) -> None:
        if count == 2:  # some of the model is on the target
            other.start()
            other.join(1)  # it ends if nothing makes it wait

    with Calls(bench.backend.models, "swap", begin) as calls:
        bench.works(unidev.place, sample.model, target)
    if calls.count < 2:  # as in TensorFlow, for all variables of one dtype
        bench.evidence.add("nothing in between", "the model is moved by one exchange")
        other.start()
    other.join()
    found = bench.works(unidev.device_of, sample.model)
    assert found is source, f"placed on {target} and then on {source}, the model is on {found}"


@check(required=True, needs=("models", "probe.models.spread"), over="devices")
def test_spread_is_refused(bench: Workbench, device: Device) -> None:
    """A model on several devices is refused, or brought to one device as a whole."""
    if len(bench.gpus()) < 2:
        raise NotApplicableError("spreading a model takes two GPUs")
    model = bench.probe.models.spread()
    bench.expect(unidev.UnidevError, unidev.device_of, model)  # it has no one device
    try:
        unidev.place(bench.probe.models.spread(), device)
    except unidev.UnsupportedOperation:
        return
    before = {name: unidev.to_numpy(x) for name, x in unidev.parameters(model).items()}
    unidev.place(model, device)
    for name, x in unidev.parameters(model).items():
        where = f"{name} of a model that was spread"
        bench.oracle.check_device(x, device, where)
        bench.oracle.check_bytes(x, before[name].tobytes(), where)


@check(needs=("models", "probe.models.remembering"), over="devices")
def test_remembered_device_follows(bench: Workbench, device: Device) -> None:
    """A model that keeps its device in an attribute finds the new one there.

    If a part of it refuses the device, the old one.
    """
    model, remembered = bench.probe.models.remembering(False)
    for target in (device, bench.cpu, device):
        bench.works(unidev.place, model, target)
        found = remembered()
        assert found == target.native, f"placed on {target}, the model remembers {found}"
    if device is not bench.cpu:
        model, remembered = bench.probe.models.remembering(True)
        bench.expect(unidev.UnsupportedOperation, unidev.place, model, device)
        found, home = remembered(), bench.cpu
        assert found == home.native, f"{device} was refused, but the model remembers {found}"
        for name, x in bench.probe.models.tensors(model).items():
            bench.oracle.check_device(x, home, f"after {device} was refused: {name}")
    bench.evidence.add("devices", str(device))


@check(needs=("models", "probe.models.keeping"), over="devices")
def test_unregistered_is_named(bench: Workbench, device: Device) -> None:
    """A tensor that stays elsewhere, since the model does not register it, is named each time.

    Also in an object: a distribution, a graph.
    """
    model = bench.probe.models.keeping(bench.make(INPUT, bench.cpu))
    model.held = SimpleNamespace(inner=SimpleNamespace(x=bench.make(INPUT, bench.cpu)))
    for again in (False, True):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            bench.works(unidev.place, model, device)
        said = [str(each.message) for each in caught if each.category is LeftBehindWarning]
        where = f"on {device}{', placed again' if again else ''}"
        assert bool(said) is (device is not bench.cpu), f"{where}: warnings are {said}"
        for path in ("kept.0", "held.inner.x"):
            assert all(f"{path} on cpu:0" in each for each in said), f"{where}: not in {said}"
    if device is not bench.cpu:
        error = bench.expect(unidev.DeviceMismatchError, unidev.check_same_device, net=model)
        assert {"net.kept.0", "net.held.inner.x"} <= error.devices.keys(), sorted(error.devices)
    bench.evidence.add("devices", str(device))


@check(needs=("models", "probe.models.embedding"), over="devices")
def test_gradient_of_an_embedding(bench: Workbench, device: Device) -> None:
    """The gradient that the framework stores for an embedding is on the embedding's device."""
    weight, gradient = bench.probe.models.embedding(device)
    bench.oracle.check_device(weight, device, f"on {device}: the weight")
    bench.oracle.check_device(gradient, device, f"on {device}: the gradient")
    found = bench.works(unidev.device_of, {"weight": weight, "gradient": gradient})
    assert found is device, f"unidev finds the weight and its gradient on {found}, not {device}"


@check(required=True, needs=("layers", "models", "probe.current"), over="gpus")
def test_current_device_stays(bench: Workbench, device: Device) -> None:
    """Making, placing and calling a model changes neither the current device nor the stream."""

    def run(target: Device) -> None:
        net = unidev.nn.sequential(unidev.nn.dense(4, 4), unidev.nn.relu())
        unidev.place(net, target)
        with target:
            net(bench.make(INPUT, target))
        unidev.place(net, bench.cpu)

    check_stays(bench, device, ((f"a model on {d}", partial(run, d)) for d in bench.devices))
