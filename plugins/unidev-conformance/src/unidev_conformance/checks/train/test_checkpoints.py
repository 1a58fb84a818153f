"""``save_parameters``, ``load_parameters``: what is restored, and where. PYTEST_DONT_REWRITE."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
from hypothesis import example, given

import unidev
from unidev import nn
from unidev.contract.models import Stored
from unidev.models.checkpoints.format import CODES
from unidev.models.checkpoints.verbs import load_optimizer, save_optimizer
from unidev_conformance.kit import trees
from unidev_conformance.kit.inputs import shapes
from unidev_conformance.kit.inputs.samples import counting
from unidev_conformance.kit.inputs.strategies import a_couple, a_few, from_seed, pick, some
from unidev_conformance.kit.models.held_models import is_held
from unidev_conformance.kit.models.layered import IMAGES, called, check_close, glorot, made_on
from unidev_conformance.kit.models.sample_models import Sample, bind_anew
from unidev_conformance.kit.models.stored_models import (
    HEADER_BYTES,
    a_folder,
    a_path,
    check_values,
    entries,
    values_of,
)
from unidev_conformance.kit.trees import Leaf, Tree
from unidev_conformance.running.catalog import check

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from unidev.device import Device
    from unidev_conformance.kit.workbench import Workbench

    Random = np.random.Generator
    Tensors = dict[str, Any]

_BOTH = ("models", "probe.models")


@check(required=True, needs=_BOTH, over="ring")
def test_round_trip(bench: Workbench, source: Device, target: Device) -> None:
    """A checkpoint saved on one device loads on another bit by bit, into the existing model."""
    saved, other = Sample.trained_on(bench, source, steps=2), Sample.trained_on(bench, target)
    if bench.has("probe.write"):
        for each in (saved, other):
            values_of(bench, each.model)  # what it finds now is not what it has later
            bind_anew(bench, each.model)
    where = f"saved on {source}, loaded on {target}"
    with a_path() as path:
        expected = values_of(bench, saved.model)
        objects, memory = list(other.probe.objects(other.model)), other.memory()
        other.probe.set_inference(other.model)
        flags = other.flags()
        earlier = Sample.trained_on(bench, source, steps=1)
        for each in (earlier, saved):  # two files of one name and size
            bench.works(unidev.save_parameters, each.model, path)
            loaded = bench.works(unidev.load_parameters, other.model, path)
    assert loaded is other.model, f"{where}: another model was returned"
    check_values(bench, other.model, expected, where)
    same = zip(objects, other.probe.objects(other.model), strict=True)
    assert all(a is b for a, b in same), f"{where}: parameter objects were replaced"
    after = other.memory()
    moved = [name for name, extents in memory.items() if after[name] != extents]
    # If tensors are immutable, the variable gets new memory.
    assert not moved or not bench.has("probe.write"), f"{where}: the memory of {moved} was replaced"
    other.check_on(target, where)
    other.check_flags(flags, where)
    saved.place(target)
    assert other.forward() == saved.forward(), f"{where}: the outputs differ"


@check(required=True, needs=_BOTH, over="ring")
def test_loads_to_a_device(bench: Workbench, source: Device, target: Device) -> None:
    """With ``device=`` the model is placed there, wherever it was, and gets the values."""
    saved, other = Sample.trained_on(bench, bench.cpu, steps=2), Sample.trained_on(bench, source)
    with a_path() as path:
        unidev.save_parameters(saved.model, path)
        bench.works(unidev.load_parameters, other.model, str(path), device=target)
        with _storing(bench, {"alone": bench.matrix(source)}):
            unidev.save_parameters(saved.model, path)
        refused = Sample.trained_on(bench, source)
        bench.expect(
            unidev.CheckpointError, unidev.load_parameters, refused.model, path, device=target
        )
        refused.check_on(source, f"a model on {source}, after another's file for {target}")
    where = f"a model on {source}, loaded with device={target}"
    other.device = target
    other.check_on(target, where)
    check_values(bench, other.model, values_of(bench, saved.model), where)


@check(required=True, needs=("models",), over="ring")
def test_tensors_without_a_model(bench: Workbench, source: Device, target: Device) -> None:
    """``load_tensors`` gives all of a file on one device by name, tied tensors as one object."""
    where, x = f"saved on {source}, loaded on {target}", bench.matrix(source)
    models = bench.backend.models
    takes_both = models.takes_containers or models.rebuilds_containers
    model = {"x": x, "tied": [x]} if takes_both else Sample.trained_on(bench, source, steps=2).model
    expected = {"x": unidev.to_numpy(x)} if takes_both else values_of(bench, model)
    expected |= {"tied.0": expected["x"]} if takes_both else {}
    with a_path() as path:
        unidev.save_parameters(model, path)
        once = entries(path)
        found = bench.works(unidev.load_tensors, path, target)
    assert set(found) == set(expected), f"{where}: {sorted(found)}, not {sorted(expected)}"
    for name, x in found.items():
        bench.oracle.check_device(x, target, f"{where}: {name}")
        bench.oracle.check_bytes(x, expected[name].tobytes(), f"{where}: {name}")
        assert tuple(x.shape) == expected[name].shape, f"{where}: {name} is {tuple(x.shape)}"
    assert len(once) < len(expected), f"the model has no tied weights: {sorted(expected)}"
    objects = {id(x) for x in found.values()}
    assert len(objects) == len(once), f"{where}: {len(objects)} tensors of {len(once)} entries"


@check(required=True, needs=_BOTH, over="devices")
def test_ties_are_stored_once(bench: Workbench, device: Device) -> None:
    """A tied weight is stored once, and stays tied under both names after loading."""
    from safetensors.numpy import save_file

    saved, other = Sample.trained_on(bench, device, steps=2), Sample.trained_on(bench, device)
    expected = values_of(bench, saved.model)
    stored = bench.backend.models.stored(saved.model)
    once = {tuple(bench.oracle.storage(s.tensor)): n for n, s in stored.items()}
    assert len(once) < len(stored), f"the model has no tied weights: {sorted(stored)}"
    if bench.has("probe.models.unsaved"):
        tensors = {name: each.tensor for name, each in stored.items()}
        wrong = saved.names(tensors).intersection(bench.probe.models.unsaved(saved.model))
        assert not wrong, f"stored, though the framework does not save it: {wrong}"
    with a_path() as path:
        unidev.save_parameters(saved.model, path)
        found, size = entries(path), path.stat().st_size
        bench.works(unidev.load_parameters, other.model, path)
        save_file(found, path)  # which ties nothing: one of the names is enough
        bench.works(unidev.load_parameters, other.model, path)
    assert len(found) == len(once), f"{len(found)} entries, not {len(once)}: {sorted(found)}"
    nbytes = sum(expected[name].nbytes for name in once.values())
    assert nbytes <= size <= nbytes + HEADER_BYTES, f"a file of {size} bytes for {nbytes}"
    for a, b in other.probe.tied(other.model):
        assert bench.oracle.shares(a, b), f"on {device}: tied weights are no longer tied"
    check_values(bench, other.model, expected, f"on {device}")


@check(required=True, needs=(*_BOTH, "probe.write"), over="devices")
def test_view_without_its_storage(bench: Workbench, device: Device) -> None:
    """The file has a view's own elements, in its order, not the complete storage behind it."""
    whole = bench.make(counting((500, 400)), device)
    views = {**bench.probe.views(whole), "same": bench.probe.same_memory(whole)}
    expected = {
        "transposed": counting((500, 400)).T, "sliced": counting((500, 400))[1:, ::2],
        "broadcast": np.broadcast_to(counting((500, 400)), (3, 500, 400)),
        "same": counting((500, 400)),
    }  # fmt: skip
    for name, view in views.items():
        _check_view(bench, view, expected[name], f"{name} on {device}")
    halves = {"first": whole[:250], "second": whole[250:]}
    with _storing(bench, halves), a_path() as path:
        bench.works(unidev.save_parameters, bench.probe.models.model(), path)
        found = entries(path)
    both = [found[name] for name in halves if name in found]
    assert len(both) == len(halves), f"two views of one storage on {device}: {sorted(found)}"
    assert np.array_equal(np.concatenate(both), counting((500, 400))), f"two views on {device}"


def _check_view(bench: Workbench, view: Any, expected: Any, where: str) -> None:
    model = bench.probe.models.model()
    with _storing(bench, {"view": view}), a_path() as path:
        bench.works(unidev.save_parameters, model, path)
        found, size = entries(path), path.stat().st_size
    assert list(found) == ["view"], f"{where}: the file has {sorted(found)}"
    assert found["view"].shape == expected.shape, f"{where}: shape {found['view'].shape}"
    assert np.array_equal(found["view"], expected), f"{where}: the file has other values"
    room = expected.nbytes + HEADER_BYTES
    assert size <= room, f"{where}: a file of {size} bytes for {expected.nbytes} of elements"
    bench.evidence.add("file", f"{where}: {size} bytes for {expected.nbytes}")


def _storing(bench: Workbench, tensors: dict[str, Any]) -> AbstractContextManager[Any]:
    """Inside the block, these tensors are all that a checkpoint of a model holds."""
    stored = {name: Stored(x) for name, x in tensors.items()}
    return mock.patch.object(bench.backend.models, "stored", return_value=stored)


@check(required=True, needs=("models",))
def test_any_dtype_and_size(bench: Workbench) -> None:
    """A checkpoint holds the bits of tensors of any dtype, size and layout, and gives them back."""
    devices = bench.devices
    dtypes = [dtype for dtype in bench.dtypes(*devices) if dtype in CODES]
    kinds = trees.Kinds(dtypes, trees.layouts(bench), 1500, is_bits=True)

    def drawn(rng: Random) -> tuple[Tree, list[str], Device]:
        tree = kinds.tree(rng)
        found = trees.with_a_large_one(tree, shapes.size(rng)) if rng.integers(2) else tree
        names = ["".join(some(rng, _CHARACTERS, 1, 12)) for _ in tree.leaves]
        return found, list(dict.fromkeys(names)), pick(rng, devices)

    many = trees.with_a_large_one(trees.many("float32"), 9_001)

    @a_few
    @given(from_seed(drawn))
    @example((_telling(dtypes), [f"{number}.x" for number in range(60)], devices[-1]))
    @example((many, [f' "{number}"/ä. ' for number in range(40)], devices[0]))
    def kept(case: tuple[Tree, list[str], Device]) -> None:
        tree, names, device = case
        count = min(len(names), len(tree.leaves))
        _check_kept(bench, Tree(tree.leaves[:count]), names[:count], device)

    kept()
    bench.evidence.add("held", dtypes)


_CHARACTERS = "aZ0._/\\ '\"\n\tß中🙂"


def _telling(dtypes: Sequence[str]) -> Tree:
    """A scalar, an empty tensor and telling bits of each dtype; integers that a float rounds."""
    leaves = []
    for number, dtype in enumerate(dtypes):
        leaves += [Leaf(dtype, shape, seed=number, is_bits=True) for shape in ((), (0, 3), (97,))]
        large = {"int64": 2**53 + 1, "uint64": 2**53 + 1, "int32": 2**24 + 1, "uint32": 2**24 + 1}
        if dtype in large:
            leaves.append(Leaf(dtype, (), filled=(large[dtype],)))
    return Tree(tuple(leaves))


def _check_kept(bench: Workbench, tree: Tree, names: list[str], device: Device) -> None:
    tensors = dict(zip(names, tree.tensors(bench, device), strict=True))
    expected = {name: bench.probe.read(x) for name, x in tensors.items()}
    where = {
        name: f"{name!r} of {tree.where(position)}, on {device}"
        for position, name in enumerate(names)
    }
    # In the layout of the leaf, as a weight may have that of its kernels.
    blank = {
        name: unidev.zeros(tuple(x.shape), dtype=leaf.dtype, device=device)
        if leaf.layout == "broadcast"  # whose elements are one
        else leaf.made(bench, device, 1)
        for (name, x), leaf in zip(tensors.items(), tree.leaves, strict=True)
    }
    for stored in _ways_to_store(bench):
        content, loaded = stored(bench, tensors, blank, device)
        for name, x in loaded.items():
            bench.oracle.check_bytes(x, expected[name], f"{where[name]}, loaded")
            bench.oracle.check_kind(tensors[name], x, f"{where[name]}, loaded")
        start = 8 + int.from_bytes(content[:8], "little")
        header = json.loads(content[8:start])
        for (name, x), leaf in zip(tensors.items(), tree.leaves, strict=True):
            entry = header[name]
            form = {"dtype": CODES[leaf.dtype], "shape": [*map(int, x.shape)]}
            found = {key: entry[key] for key in form}
            assert found == form, f"{where[name]}: the file has {found}, not {form}"
            begin, end = entry["data_offsets"]
            bench.oracle.check_content(
                content[start + begin : start + end], expected[name], f"{where[name]}: in the file"
            )
        with a_path() as path:
            path.write_bytes(content)
            for name, x in bench.works(unidev.load_tensors, path, device).items():
                bench.oracle.check_bytes(x, expected[name], f"{where[name]}, without a model")
                bench.oracle.check_kind(tensors[name], x, f"{where[name]}, without a model")
                bench.oracle.check_device(x, device, f"{where[name]}, without a model")


def _ways_to_store(bench: Workbench) -> list[Callable[..., tuple[bytes, Tensors]]]:
    """Those that the framework has: a tree, a model, or both."""
    if not bench.backend.models.rebuilds_containers:
        return [_in_a_model]
    return [_in_a_tree] if not bench.has("probe.models") else [_in_a_tree, _in_a_model]


def _in_a_tree(
    bench: Workbench, tensors: Tensors, blank: Tensors, _: Device
) -> tuple[bytes, Tensors]:
    """The content of a checkpoint of ``tensors``, and ``blank`` with its values."""
    with a_path() as path:
        bench.works(unidev.save_parameters, tensors, path)
        return path.read_bytes(), bench.works(unidev.load_parameters, blank, path)


def _in_a_model(
    bench: Workbench, tensors: Tensors, blank: Tensors, device: Device
) -> tuple[bytes, Tensors]:
    """The same for a model, whose tensors are then ``blank``, or its own if none is written to."""
    takes_containers = bench.backend.models.takes_containers
    model = {"x": bench.matrix(device)} if takes_containers else bench.probe.models.model()
    with a_path() as path:
        with _storing(bench, tensors):
            bench.works(unidev.save_parameters, model, path)
        if not bench.has("probe.write"):
            return path.read_bytes(), _held(bench, tensors, blank, device)
        with _storing(bench, blank):
            bench.works(unidev.load_parameters, model, path)
        return path.read_bytes(), blank


def _held(bench: Workbench, tensors: Tensors, blank: Tensors, device: Device) -> Tensors:
    """What a model of ``blank`` holds once that of ``tensors`` is saved and loaded into it."""
    if not bench.has("probe.models.holding"):
        return {}
    # By numbers: a framework's models may not take any name.
    names = {
        f"x{number}": name for number, name in enumerate(tensors) if is_held(bench, tensors[name])
    }
    source, target = (
        bench.probe.models.holding({}, {number: each[name] for number, name in names.items()})
        for each in (tensors, blank)
    )
    with a_path() as path:
        unidev.place(source, device)
        unidev.place(target, device)
        bench.works(unidev.save_parameters, source, path)
        bench.works(unidev.load_parameters, target, path)
    found = bench.probe.models.tensors(target)
    return {name: found[number] for number, name in names.items()}


_OPTIMIZERS = (
    "models.optimizer_state", "models.load_optimizer_state", "probe.models.counting_optimizer",
)  # fmt: skip


@check(required=True, needs=_OPTIMIZERS)
def test_optimizer_state(bench: Workbench) -> None:
    """An optimizer that goes on from its stored state has its steps, dtypes, groups and bits.

    Its settings as well, where those that it was made with were others.
    """

    def drawn(rng: Random) -> tuple[int, int, Device, Device]:
        steps, before = int(rng.integers(1, 5)), int(rng.integers(3))
        return steps, before, pick(rng, bench.devices), pick(rng, bench.devices)

    @a_couple
    @given(from_seed(drawn))
    @example((3, 0, bench.devices[-1], bench.cpu))
    @example((1, 1, bench.devices[-1], bench.devices[-2:][0]))
    def restored(case: tuple[int, int, Device, Device]) -> None:
        steps, steps_before, source, target = case
        where = f"{steps} steps on {source}, to an optimizer on {target} of {steps_before} steps"
        saved = Sample.counting_on(bench, source)
        other = Sample.counting_on(bench, target, is_other=True)
        for sample, count in ((saved, steps), (other, steps_before)):
            for _ in range(count):
                sample.step()
        state = bench.works(bench.backend.models.optimizer_state, saved.optimizer)
        kept = {name: (x.dtype, x.shape, x.tobytes()) for name, x in state.items()}
        with a_folder() as folder:
            model, optimizer = folder / "model.safetensors", str(folder / "optimizer.safetensors")
            unidev.save_parameters(saved.model, model)
            save_optimizer(saved.optimizer, optimizer, bench.backend)
            saved.step()
            unidev.load_parameters(other.model, model)
            load_optimizer(other.model, other.optimizer, optimizer, bench.backend)
        found = bench.backend.models.optimizer_state(other.optimizer)
        assert set(found) == set(kept), f"{where}: {sorted(found)} instead of {sorted(kept)}"
        for name, x in found.items():
            form, before = (x.dtype, x.shape), kept[name][:2]
            assert form == before, f"{where}: {name} is {form}, not {before}"
            bench.oracle.check_content(x.tobytes(), kept[name][2], f"{where}: {name}")
            assert state[name].tobytes() == kept[name][2], f"{where}: {name} changed with a step"
        other.step()
        _check_alike(bench, saved, other, f"{where}, and a step more")

    restored()


def _check_alike(bench: Workbench, one: Sample, other: Sample, where: str) -> None:
    """The same parameters: identical bits on one kind of device."""
    is_exact = one.device.kind == other.device.kind
    for (name, x), y in zip(
        unidev.parameters(one.model).items(), unidev.parameters(other.model).values(), strict=True
    ):
        a, b = (np.frombuffer(bench.probe.read(each), "float32") for each in (x, y))
        is_like = np.array_equal(a, b) if is_exact else np.allclose(a, b, rtol=1e-4, atol=1e-5)
        assert is_like, f"{where}: {name} is {b.tolist()}, not {a.tolist()}"


@check(required=True, needs=_OPTIMIZERS)
def test_state_of_another_optimizer(bench: Workbench) -> None:
    """State of another optimizer, or with a name too many, is refused, and changes nothing."""
    models, device = bench.backend.models, bench.devices[-1]
    sample = Sample.counting_on(bench, device)
    sample.step()
    state = dict(bench.works(models.optimizer_state, sample.optimizer))
    of_another = models.optimizer_state(Sample.trained_on(bench, device).optimizer)
    for what, wrong in (
        ("state of another optimizer", of_another),
        ("a name too many", {**state, "unknown": np.zeros(3)}),
    ):
        error = bench.expect(
            unidev.CheckpointError,
            models.load_optimizer_state, sample.model, sample.optimizer, wrong,
        )  # fmt: skip
        assert error.problems, f"{what}: the error lists no problems"
        now = models.optimizer_state(sample.optimizer)
        assert set(now) == set(state), f"{what}: {sorted(now)} of {sorted(state)}"
        changed = [name for name, x in now.items() if not np.array_equal(x, state[name])]
        assert not changed, f"{what} has changed {changed}"


@check(required=True, needs=("layers", "models"), over="devices")
def test_portable_names_and_layouts(bench: Workbench, device: Device) -> None:
    """For ``unidev.nn`` the file has the same names, shapes and numbers on every framework."""
    net = made_on(device, _net)
    with a_path() as path:
        bench.works(unidev.save_parameters, net, path)
        found = entries(path)
    shapes = {name: x.shape for name, x in found.items()}
    assert shapes == _SHAPES, f"on {device}: the file has {shapes}, not {_SHAPES}"
    assert all(x.dtype == np.float32 for x in found.values()), f"on {device}: not all float32"
    unidev.seed(3)
    limits = {
        "0.weight": (2 * 4, 2 * 4), "1.weight": (2 * 9, 4 * 9), "6.weight": (16, 3),
        "7.weight": (3, 3),
    }  # fmt: skip
    for name, (fan_in, fan_out) in limits.items():
        expected = glorot(_SHAPES[name], fan_in, fan_out)
        assert np.array_equal(found[name], expected), f"on {device}: {name} has another layout"
    for name, value in (("2.running_mean", 0), ("2.running_var", 1), ("2.weight", 1)):
        assert (found[name] == value).all(), f"on {device}: {name} is {found[name]}"
    if bench.has("probe.models.compiled"):
        _check_compiled(bench, device)


def _check_compiled(bench: Workbench, device: Device) -> None:
    """A file of a net with a compiled layer fits the net without, and the other way round."""

    def made(layer: Any) -> Any:
        return unidev.place(nn.sequential(nn.tanh(), layer), device)

    compiled = made(bench.probe.models.compiled())
    plain, other = (made(nn.dense(4, 4)) for _ in range(2))
    if not any(name.endswith("weight") for name in values_of(bench, compiled)):
        return  # its names are the framework's own
    for saved, loaded in ((compiled, plain), (other, compiled)):
        with a_path() as path:
            bench.works(unidev.save_parameters, saved, path)
            bench.works(unidev.load_parameters, loaded, path)
        expected, found = (values_of(bench, net).values() for net in (saved, loaded))
        same = all(np.array_equal(x, y) for x, y in zip(expected, found, strict=True))
        assert same, f"a net with a compiled layer on {device}: other values"


_SHAPES = {
    "0.weight": (2, 2, 2, 2), "0.bias": (2,), "1.weight": (4, 2, 3, 3), "1.bias": (4,),
    "2.weight": (4,), "2.bias": (4,), "2.running_mean": (4,), "2.running_var": (4,),
    "6.weight": (3, 16), "6.bias": (3,), "7.weight": (3, 3), "7.bias": (3,),
}  # fmt: skip
"""Among them some of which each order of the axes has the same shape."""


def _net() -> Any:
    unidev.seed(3)
    return nn.sequential(
        nn.conv2d(2, 2, 2), nn.conv2d(2, 4, 3, padding=1), nn.batch_norm(4), nn.relu(),
        nn.avg_pool2d(2), nn.flatten(), nn.dense(16, 3), nn.dense(3, 3),
    )  # fmt: skip


@check(required=True, needs=("layers", "models"), over="devices")
def test_of_another_framework(bench: Workbench, device: Device) -> None:
    """A file with these names from elsewhere loads into a net of layers, which computes with it."""
    from safetensors.numpy import save_file

    numbers = {n: (counting(s) / np.float32(64)).copy() for n, s in _SHAPES.items()}
    images = IMAGES[:, :2, :5, :5].copy()
    net, twin = made_on(device, _net), made_on(bench.cpu, _net)
    with a_path() as path:
        save_file(numbers, path)
        assert bench.works(unidev.load_parameters, net, path) is net, "another model"
        files = {name: f"{n % 2}.safetensors" for n, name in enumerate(numbers)}
        for file in set(files.values()):
            save_file({n: x for n, x in numbers.items() if files[n] == file}, path.with_name(file))
        index = path.with_name("net.safetensors.index.json")
        index.write_text(json.dumps({"weight_map": files}))
        bench.works(unidev.load_parameters, twin, index)
    check_values(bench, net, numbers, f"on {device}")
    nn.eval_mode(net)
    nn.eval_mode(twin)
    expected = unidev.to_numpy(called(bench, twin, images, bench.cpu))
    check_close(bench, called(bench, net, images, device), expected, device, f"loaded on {device}")
    assert unidev.device_of(net) is device, f"loading moved it to {unidev.device_of(net)}"
