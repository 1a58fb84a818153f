"""``DataParallel``: the probe's model at work on several devices. PYTEST_DONT_REWRITE."""

from __future__ import annotations

from functools import partial
from itertools import combinations, cycle, product
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import example, given

import unidev
from unidev import nn
from unidev_conformance.kit import trees
from unidev_conformance.kit.inputs.strategies import a_couple, from_seed, pick, some
from unidev_conformance.kit.models import neural
from unidev_conformance.kit.models.differentiating import squares_of
from unidev_conformance.kit.models.held_models import HeldModel, holdable, one_of_each
from unidev_conformance.kit.models.layered import fill
from unidev_conformance.kit.models.parallel_models import ROWS, Parallel, check_close
from unidev_conformance.kit.models.sample_models import INPUT, Sample, assign_anew, bind_anew
from unidev_conformance.kit.models.stored_models import a_path, values_of
from unidev_conformance.running.catalog import check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from unidev.device import Device
    from unidev_conformance.kit.trees import Tree
    from unidev_conformance.kit.workbench import Workbench

    Random = np.random.Generator

_NEEDS = ("collectives", "models", "probe.models")
_TRAINS = (*_NEEDS, "autograd")


def _net(layers: int = 1) -> Any:
    unidev.seed(1)
    inner = [layer for _ in range(layers - 1) for layer in (nn.dense(8, 8), nn.tanh())]
    return nn.sequential(nn.dense(4, 8), nn.tanh(), *inner, nn.dense(8, 4))


def _groups(bench: Workbench) -> Iterator[list[Device]]:
    devices = bench.several(3)
    yield devices[-2:]
    yield devices[:3]


@check(required=True, needs=(*_TRAINS, "layers"))
def test_steps(bench: Workbench) -> None:
    """After some steps replicas have the same bits, and weights are those of one device."""
    groups = list(_groups(bench))

    @a_couple
    @given(from_seed(lambda r: (int(r.integers(1, 13)), int(r.integers(1, 5)), pick(r, groups))))
    @example((1, 12, groups[0]))
    @example((9, 3, groups[1]))
    def trained(case: tuple[int, int, list[Device]]) -> None:
        _check_steps(bench, *case)

    trained()


def _check_steps(bench: Workbench, layers: int, steps: int, devices: list[Device]) -> None:
    parallel = Parallel(bench, devices, _net(layers))
    alone = Parallel(bench, devices[:1], _net(layers))
    for _ in range(steps):
        loss, gradients = parallel.step()
        expected, wanted = alone.step(alone.sample.model)
    where = f"{parallel.where}, {layers} inner layers, after {steps} steps"
    parallel.check_replicas(where)
    check_close(bench, loss, expected, f"{where}: the loss")
    bench.oracle.check_device(loss, devices[0], f"{where}: the loss")
    assert list(gradients) == list(wanted), f"{where}: gradients of {list(gradients)}"
    for name, x in unidev.parameters(alone.sample.model).items():
        check_close(bench, unidev.parameters(parallel.net)[name], x, f"{where}: {name}")
    for name, gradient in gradients.items():
        bench.oracle.check_device(gradient, devices[0], f"{where}: the gradient of {name}")
        assert parallel.sample.array(gradient).any(), f"{where}: {name} has a gradient of zeros"


@check(required=True, needs=_NEEDS)
def test_replicas(bench: Workbench) -> None:
    """Replicas share no memory with each other or the model; ties and frozen flags are kept."""
    for devices in _groups(bench):
        parallel = Parallel(bench, devices)
        parallel.check_replicas("when it is new")
        sample, extents = parallel.sample, []
        objects = list(map(id, sample.probe.objects(sample.model)))
        frozen = sample.probe.frozen(sample.model)
        for index in range(len(devices)):
            with parallel.net.replica(index) as model:
                where = f"{parallel.where}, replica {index}"
                for one, other in sample.probe.tied(model):
                    assert bench.oracle.storage(one) == bench.oracle.storage(other), where
                assert sample.probe.frozen(model) == frozen, f"{where}: other parameters are frozen"
                found = list(map(id, sample.probe.objects(model)))
                assert found == objects, f"{where}: new objects"
                extents.append({e for found in sample.memory().values() for e in found if e.nbytes})
        for (i, a), (j, b) in combinations(enumerate(extents), 2):
            for p in a:
                for q in b:
                    assert p.address + p.nbytes <= q.address or q.address + q.nbytes <= p.address, (
                        f"{parallel.where}: replicas {i} and {j} share memory"
                    )


@check(required=True, needs=(*_NEEDS, "probe.models.holding"))
def test_replicas_of_any_model(bench: Workbench) -> None:
    """However many tensors a model has, of any dtypes, each replica has them all, bit for bit."""
    devices, dtypes = bench.several(3), holdable(bench)
    kinds = trees.Kinds(dtypes, is_bits=True)

    def drawn(rng: Random) -> tuple[Tree, list[Device]]:
        return kinds.tree(rng), list(dict.fromkeys(some(rng, devices, 1, 3)))

    @a_couple
    @given(from_seed(drawn))
    @example((one_of_each(dtypes), devices[:3]))
    @example((trees.many("float32"), devices[1:3]))
    def replicated(case: tuple[Tree, list[Device]]) -> None:
        tree, listed = case
        held = HeldModel(bench, tree)
        net = bench.works(unidev.DataParallel, held.model, listed)
        for index, device in enumerate(listed):
            with net.replica(index):
                held.check(device, f"DataParallel on {[*map(str, listed)]}: replica {index}")
        held.check(listed[0], f"DataParallel on {[*map(str, listed)]}, after looking")

    replicated()


@check(required=True, needs=_TRAINS)
def test_changes(bench: Workbench) -> None:
    """Whatever changes the model, its own optimizer or a checkpoint, changes every replica."""
    for devices in _groups(bench):
        parallel = Parallel(bench, devices)
        before = parallel.contents()
        parallel.check_replicas("when it is new")
        # Not every framework's optimizer follows the model by itself.
        sample = parallel.sample
        bench.works(unidev.place, sample.model, devices[0], optimizer=sample.optimizer)
        sample.step()
        assert parallel.contents() != before, "the probe's step changed nothing"
        parallel.check_replicas("after a step of the framework's own optimizer")
        other = Parallel(bench, devices[:1])
        with a_path() as path:
            bench.works(unidev.save_parameters, other.net, path)
            loaded = bench.works(unidev.load_parameters, parallel.net, path)
            assert loaded is parallel.net, "load_parameters gives another model"
        parallel.check_replicas("after load_parameters")
        if bench.has("probe.write"):
            bench.probe.write(next(iter(unidev.parameters(parallel.net).values())), 0.5)
            parallel.check_replicas("after a write")
        _, gradients = parallel.step()
        assert gradients, "a step gives no gradients"
        if any(bench.backend.models.namespaces(sample.model)):
            _check_assigned(bench, parallel)


def _check_assigned(bench: Workbench, parallel: Parallel) -> None:
    """Buffers that each replica assigns anew: those of the first one stay."""
    sample, assigned = parallel.sample, dict[str, bytes]()

    def assigning(model: Any, x: Any) -> Any:
        loss, contents = sample.loss_of(model, x), assign_anew(bench, model)
        if unidev.device_of(x) is parallel.devices[0]:
            assigned.update(contents)
        return loss

    bench.works(unidev.value_and_grad(assigning), parallel.net, parallel.x)
    parallel.check_replicas("after a loss that assigned buffers")
    after = parallel.contents()
    for name in assigned.keys() - bench.backend.models.statistics(sample.model).keys():
        where = f"{parallel.where}: {name}, which each replica has assigned"
        bench.oracle.check_content(after[name], assigned[name], where)


@check(required=True, needs=_TRAINS)
def test_failures(bench: Workbench) -> None:
    """A loss that raises on any of the devices leaves the model and each replica as they were.

    Also if the model has bound a buffer anew: ``self.count = self.count + 1``.
    """
    for devices in _groups(bench):
        parallel = Parallel(bench, devices)
        parallel.step()
        before = parallel.contents()
        kinds: Any = cycle((LookupError, KeyboardInterrupt))
        for bad, kind in zip(devices, kinds, strict=False):

            def failing(
                model: Any,
                x: Any,
                bad: Device = bad,
                kind: type[BaseException] = kind,
                sample: Sample = parallel.sample,
            ) -> Any:
                loss = sample.loss_of(model, x)
                bind_anew(bench, model)
                if unidev.device_of(x) is bad:
                    raise kind("as a user's own loss may, which must reach the user")
                return loss

            bench.expect(kind, unidev.value_and_grad(failing), parallel.net, parallel.x)
            assert parallel.contents() == before, f"{parallel.where}: failing on {bad} changed it"
            parallel.check_replicas(f"after failing on {bad}")
        parallel.step()


@check(required=True, needs=("collectives", "models", "autograd", "layers"))
def test_statistics(bench: Workbench) -> None:
    """Running statistics of each batch norm are the mean over replicas, weighted by rows.

    However deep in the model it is.
    """
    devices = bench.several(3)

    def drawn(rng: Random) -> tuple[int, int, int, int]:
        norms, rows, depth = (int(rng.integers(*ends)) for ends in ((1, 4), (5, 18), (0, 7)))
        return norms, rows, int(rng.integers(2, len(devices) + 1)), depth

    @a_couple
    @given(from_seed(drawn))
    @example((1, ROWS, 2, 0))
    @example((2, ROWS, 3, 5))
    def averaged(case: tuple[int, int, int, int]) -> None:
        norms, rows, count, depth = case
        used = devices[: min(count, rows // 2)]
        where = f"{norms} batch norms, {depth + 1} deep, {rows} rows on {[*map(str, used)]}"
        # Without anything between them, each would see the bias of the one before as its mean.
        pair = (partial(nn.batch_norm, 4, momentum=0.5), nn.relu)
        model = nn.sequential(*(f() for f in pair * norms))
        for _ in range(depth):
            model = nn.sequential(model)
        names = ["0." * depth + each for each in "024"[:norms]]
        fill(bench, model, {f"{name}.bias" for name in names})
        net = unidev.DataParallel(model, used, reduction="sum")
        values = np.resize(INPUT, (rows, 4)) + np.arange(rows, dtype="float32")[:, None]
        bench.works(unidev.value_and_grad(squares_of), net, bench.make(values, used[0]))
        found = values_of(bench, model)
        biases = [found[f"{name}.bias"] for name in names]
        shares = np.array_split(values, len(used))
        expected = neural.running_statistics(shares, biases, momentum=0.5)
        for name, (mean, *variances) in zip(names, expected, strict=True):
            for kind, references in (("mean", [mean]), ("var", variances)):
                running = found[f"{name}.running_{kind}"]
                assert any(np.allclose(running, x, rtol=1e-4, atol=1e-4) for x in references), (
                    f"{where}: the running_{kind} of {name} is {running}, not {references[0]}"
                )

    averaged()


@check(required=True, needs=_TRAINS)
def test_rows(bench: Workbench) -> None:
    """Each device gets its rows, in order; fewer rows use fewer devices; keywords come whole."""
    devices = bench.several(3)[:3]
    parallel = Parallel(bench, devices)
    parallel.sample.probe.set_inference(parallel.sample.model)  # a batch norm of one row
    seen: list[tuple[Any, ...]] = []

    def loss_of(model: Any, x: Any, *, whole: Any) -> Any:
        home = unidev.device_of(x)
        assert unidev.device_of(whole) is home, f"a keyword is not on {home}"
        seen.append((home, bench.probe.read(x), tuple(whole.shape)))
        return parallel.sample.loss_of(model, x)

    for rows, shares in ((7, (3, 2, 2)), (2, (1, 1)), (1, (1,))):
        values = np.resize(INPUT, (rows, 4))
        x = bench.make(values, devices[0])
        seen.clear()
        bench.works(unidev.value_and_grad(loss_of), parallel.net, x, whole=x)
        parts = np.split(values, np.cumsum(shares)[:-1])
        expected = [(d, part.tobytes(), (rows, 4)) for d, part in zip(devices, parts, strict=False)]
        assert seen == expected, f"{rows} rows over 3 devices came as {[s[0] for s in seen]}"


@check(required=True, needs=(*_NEEDS, "layers"))
def test_outputs(bench: Workbench) -> None:
    """A call gives the outputs of all rows, in order, on the first device."""
    for devices in _groups(bench):
        parallel = Parallel(bench, devices, _net())
        outputs = bench.works(parallel.net, parallel.x)
        expected = parallel.sample.model(parallel.x)
        where = f"the outputs of {parallel.where}"
        bench.oracle.check_device(outputs, devices[0], where)
        assert tuple(outputs.shape) == (ROWS, 4), f"{where} have the shape {tuple(outputs.shape)}"
        check_close(bench, outputs, expected, where)


@check(required=True, needs=(*_NEEDS, "layers"))
def test_dropout(bench: Workbench) -> None:
    """Replicas drop different elements, where the model has random generators of its own."""
    for devices in _groups(bench):
        net = nn.sequential(nn.dense(4, 4), nn.dropout(0.5))
        parallel = bench.works(unidev.DataParallel, net, devices)
        x = bench.make(np.ones((64 * len(devices), 4), "float32"), devices[0])
        found = bench.works(parallel, x)
        drops = [each == 0 for each in np.split(unidev.to_numpy(found), len(devices))]
        where = f"DataParallel on {[*map(str, devices)]}"
        assert all(0.25 < each.mean() < 0.75 for each in drops), f"{where} does not drop a half"
        if bench.backend.models.random_states(net):
            for one, other in combinations(drops, 2):
                assert (one != other).any(), f"{where}: two replicas drop the same elements"


@check(required=True, needs=(*_TRAINS, "tracer"))
def test_transfers(bench: Workbench) -> None:
    """Values and gradients travel packed, however many there are; on one device, nothing does."""
    devices = bench.several(3)[:3]
    for used in (devices[:1], devices):
        parallel = Parallel(bench, used)
        x = parallel.x
        parallel.step()
        with unidev.trace_transfers() as trace:
            unidev.value_and_grad(parallel.sample.loss_of)(parallel.net, x)
        found = [each for each in trace.transfers if each.operation == "DataParallel"]
        dtypes = {str(t.dtype) for t in parallel.sample.tensors().values()}
        # To each other device: the values by dtype. From each: loss and gradients, and statistics.
        most = (len(used) - 1) * (len(dtypes) + 2)
        assert len(found) <= most, f"{parallel.where}: {len(found)} transfers, not {most}"


@check(required=True, needs=(*_TRAINS, "probe.models.compiled"))
def test_compiled(bench: Workbench) -> None:
    """Functions that a framework has compiled compute with each replica, not with the first one."""
    for devices in _groups(bench):
        model, plain = (bench.probe.models.compiled() for _ in range(2))
        parallel, alone = Parallel(bench, devices, model), Parallel(bench, devices[:1], plain)
        for _ in range(3):
            _, gradients = parallel.step()
            _, expected = alone.step(plain)
        for name, gradient in expected.items():
            assert parallel.sample.array(gradient).any(), f"{name} has a gradient of zeros"
            where = f"{parallel.where}, compiled: the gradient of {name}"
            check_close(bench, gradients[name], gradient, where)


@check(required=True, needs=_NEEDS)
def test_copies(bench: Workbench) -> None:
    """``replicate`` gives models that share nothing and train apart, or says what needs no copy."""
    bench.several(3)
    for home in bench.ends():
        sample = Sample.trained_on(bench, home)
        if home is not bench.cpu:
            sample.probe.set_inference(sample.model)
        _check_copies(bench, sample, [*bench.ends(), home])


def _check_copies(bench: Workbench, sample: Sample, devices: list[Device]) -> None:
    """They have its values, ties, flags and mode, and nothing else in common with another."""
    before, flags, original, home = sample.contents(), sample.flags(), sample.model, sample.device
    try:
        copies = unidev.replicate(original, devices)
    except unidev.UnsupportedOperation as error:
        if "DataParallel" not in str(error):
            raise AssertionError(f"the error does not say what to use: {error}") from error
        return
    kept = {n: x for n, x in before.items() if not n.endswith(".grad")}
    others = [*sample.tensors().values()]
    for model, device in zip(copies, devices, strict=True):
        where = f"a replica of a model on {home}, on {device}"
        sample.model, sample.device = model, device
        found = sample.tensors()
        sample.check_on(device, where)
        changed = [n for n, x in kept.items() if n in found and bench.probe.read(found[n]) != x]
        assert not changed, f"{where}: other values in {changed}"
        missing = [n for n in kept if n not in found and not n.startswith("optimizer")]
        assert not missing, f"{where}: without {missing}"
        sample.check_flags(flags, where)
        for a, b in sample.probe.tied(model):
            assert bench.oracle.shares(a, b), f"{where}: tied weights are tied no more"
        assert all(a is b for a, b in sample.probe.shared(model)), f"{where}: a shared part is two"
        for x in found.values():
            assert not any(bench.oracle.shares(x, y) for y in others), f"{where}: memory is shared"
        others += found.values()
        _check_trains(sample, where)
    sample.model, sample.device = original, home
    sample.check_contents(before, f"a model on {home} that was replicated")


def _check_trains(sample: Sample, where: str) -> None:
    """A step of an optimizer of its own changes it, as any model whose parameters are leaves."""
    bench, model, kept = sample.bench, sample.model, sample.optimizer
    sample.optimizer = bench.works(sample.probe.optimizer, model)
    before = [*map(bench.probe.read, unidev.parameters(model).values())]
    sample.step()
    sample.check_on(sample.device, f"{where}, after a step")
    after = [*map(bench.probe.read, unidev.parameters(model).values())]
    assert after != before, f"{where}: a step of its own changes no parameter"
    sample.optimizer = kept


@check(required=True, needs=_NEEDS)
def test_errors(bench: Workbench) -> None:
    """Models, devices and batches that cannot be used on several devices raise a fitting error."""
    devices = bench.several(3)
    sample, expect = Sample.on(bench, devices[0]), bench.expect
    parallel: Any = unidev.DataParallel
    expect(unidev.DeviceSpecError, parallel, sample.model, [])
    expect(unidev.InvalidDataError, parallel, sample.model, [devices[1], devices[1]])
    expect(unidev.NotAModelError, parallel, sample.x, devices)
    expect(unidev.NotAModelError, parallel, [sample.model, sample.model], devices)
    for name, value in product(("reduction", "batch_norm", "reduce_dtype"), ("max", sample.x)):
        expect(unidev.InvalidDataError, parallel, sample.model, devices[1:], **{name: value})
        left = f"{name} was refused, and the model has moved"
        assert unidev.device_of(sample.model) is devices[0], left
    net = parallel(sample.model, devices)
    expect(unidev.NotAModelError, parallel, net, devices)
    older, net = net, parallel(sample.model, devices[::-1])
    expect(unidev.UnsupportedOperation, older, sample.x)  # though nothing has deleted it
    expect(unidev.NotAModelError, unidev.place, net, devices[1])
    expect(unidev.InvalidDataError, net, 1.5)
    expect(unidev.InvalidDataError, net, bench.make(np.array(1.0, "float32"), devices[0]))
    with net.replica(1):
        expect(unidev.UnsupportedOperation, net, sample.x)
        expect(unidev.NotAModelError, parallel, sample.model, devices)
    unidev.place(sample.model, devices[0])
    expect(unidev.DeviceMismatchError, net, sample.x)
