"""Libraries' own objects in a batch of PyTorch tensors: ``nox -s libraries``.

``tests/tensors/library_objects.py`` has objects of no library: they raise when they are asked.
"""

from __future__ import annotations

import dataclasses
import importlib
import os
from typing import Any

import pytest
from needed import need

import unidev


def library(name: str) -> Any:
    """The module. If it is missing, the test is left out, but in the session of the libraries."""
    need("libraries", name, install="nox -s libraries")
    return importlib.import_module(name)


if "LIBRARIES_REQUIRED" not in os.environ:  # it simulates GPUs in this process, and in its children
    pytest.skip("in a process of its own: nox -s libraries", allow_module_level=True)
torch: Any = library("torch")
os.environ.update(UNIDEV_BACKEND="torch", UNIDEV_SIMULATE="2")
unidev.active_backend()  # before anything moves

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # of libraries


def passing() -> list[tuple[str, Any]]:
    return [
        ("pandas", lambda pandas: [pandas.Series([1.0, 2.0]), pandas.Index(["a", "b"])]),
        ("pandas", lambda pandas: [pandas.DataFrame({"a": [1]}), pandas.Timestamp(0)]),
        ("scipy.sparse", lambda sparse: [sparse.csr_matrix([[0, 1]]), sparse.coo_array([[1]])]),
        ("scipy.stats", lambda stats: [stats.norm(0, 1)]),
        ("PIL.Image", lambda image: [image.new("RGB", (2, 2)), image.new("RGB", (2, 2)).palette]),
        ("tokenizers", lambda tokenizers: [encoding(tokenizers), tokenizers.AddedToken("a")]),
        ("arrow", lambda arrow: [arrow.utcnow(), arrow.utcnow() - arrow.utcnow()]),
        ("pint", lambda pint: [pint.UnitRegistry().Quantity(3.0, "metre"), pint.UnitRegistry()]),
        ("pydantic", lambda pydantic: [pydantic.create_model("Config", lr=(float, 0.1))()]),
        ("attrs", lambda attrs: [attrs.make_class("Slotted", ["a"], slots=True)(1)]),
        ("transformers", lambda transformers: [transformers.BertConfig()]),
        ("torch", lambda torch: [torch.Generator(), torch.device("cpu"), torch.Size([1]), torch]),
        ("torch", lambda torch: [torch.float32, torch.finfo(torch.float32), torch.strided]),
    ]


def encoding(tokenizers: Any) -> Any:
    vocabulary = tokenizers.models.WordLevel({"a": 0, "?": 1}, unk_token="?")
    return tokenizers.Tokenizer(vocabulary).encode("a")


@pytest.mark.parametrize(("name", "make"), passing(), ids=lambda value: str(value)[:14])
def test_what_holds_no_tensor_passes(name: str, make: Any) -> None:
    inside = make(library(name))
    x = torch.ones(2)
    moved = unidev.copy_to({"x": x, "inside": inside}, "cpu")
    assert all(new is old for new, old in zip(moved["inside"], inside, strict=True))
    assert unidev.device_of([x, inside]) is unidev.cpu()


def graph(geometric: Any, x: Any) -> Any:
    return geometric.data.Data(x=x, edge_index=torch.tensor([[0], [1]]), note="a")


def several_kinds(geometric: Any, x: Any) -> Any:
    made = geometric.data.HeteroData()
    made["a"].x = x
    made["a", "to", "a"].edge_index = torch.tensor([[0], [1]])
    return made


def cache(transformers: Any, x: Any) -> Any:
    made = transformers.DynamicCache()
    made.update(x.reshape(1, 1, 2, 1), x.reshape(1, 1, 2, 1), 0)
    return made


def model_of(pydantic: Any, x: Any) -> Any:
    return pydantic.create_model("Batch", x=(Any, ...), n=(int, 3))(x=x)


def output(transformers: Any, x: Any) -> Any:
    return importlib.import_module("transformers.modeling_outputs").BaseModelOutput(x)


HOLDING = {
    "BatchEncoding": ("transformers", lambda lib, x: lib.BatchEncoding({"x": x}), "x"),
    "BatchFeature": ("transformers", lambda lib, x: lib.BatchFeature({"x": x, "n": 3}), "x"),
    "ModelOutput": ("transformers", output, "last_hidden_state"),
    "DynamicCache": ("transformers", cache, ".layers[0].keys"),
    "Data": ("torch_geometric", graph, "x"),
    "HeteroData": ("torch_geometric", several_kinds, "a.x"),
    "Batch": (
        "torch_geometric",
        lambda lib, x: lib.data.Batch.from_data_list([graph(lib, x), graph(lib, x)]),
        "x",
    ),
    "TensorDict": (
        "tensordict", lambda lib, x: lib.TensorDict({"x": x, "in": {"y": x}}, batch_size=[2]), "x",
    ),
    "TensorDict on a device": (
        "tensordict", lambda lib, x: lib.TensorDict({"x": x}, batch_size=[2], device="cpu"), "x",
    ),
    "a model of pydantic": ("pydantic", model_of, ".x"),
    "attrs": ("attrs", lambda lib, x: lib.make_class("Slots", ["x"], slots=True)(x), ".x"),
    "attrs, frozen": ("attrs", lambda lib, x: lib.make_class("F", ["x"], frozen=True)(x), ".x"),
}  # fmt: skip


def read(tree: Any, path: str) -> Any:
    if path.startswith(".layers"):
        return tree.layers[0].keys
    if path.startswith("."):
        return getattr(tree, path[1:])
    for key in path.split("."):
        tree = tree[key]
    return tree


@pytest.mark.parametrize(("name", "make", "path"), HOLDING.values(), ids=HOLDING)
def test_what_holds_tensors_is_moved_and_stays_what_it_is(name: str, make: Any, path: str) -> None:
    made = make(library(name), torch.tensor([[1.0], [2.0]]))
    old = read(made, path)
    for device in map(unidev.as_device, ("gpu:1", "cpu")):
        tree = {"batch": [made], "y": torch.ones(1)}
        for moved in (unidev.copy_to(made, device), unidev.copy_to(tree, device)["batch"][0]):
            assert type(moved) is type(made)
            new = read(moved, path)
            assert new.device == device.native
            assert torch.equal(new.cpu(), old.cpu())
            assert not unidev.shares_memory(new, old)
            assert unidev.device_of(moved) is device
            assert unidev.as_in_device(moved, device) is moved
        assert read(made, path) is old
        assert unidev.device_of(made) is unidev.cpu()
    unidev.check_same_device(batch=made, y=torch.ones(1))


def test_graphs_and_tensordicts_keep_what_else_they_hold() -> None:
    geometric, tensordict = library("torch_geometric"), library("tensordict")
    both = geometric.data.Batch.from_data_list([graph(geometric, torch.ones(2, 1))] * 2)
    moved = unidev.copy_to(both, "gpu:1")
    assert moved.num_graphs == 2
    assert moved._store._parent() is moved
    assert moved.to_data_list()[1].note == "a"
    there = tensordict.TensorDict({"x": torch.ones(2)}, batch_size=[2], device="cpu")
    assert unidev.copy_to(there, "gpu:1").device == unidev.gpu(1).native
    assert unidev.copy_to(there, "cpu").batch_size == there.batch_size


def test_a_path_leads_to_a_store_where_there_are_several() -> None:
    geometric, tensordict = library("torch_geometric"), library("tensordict")
    one, two = torch.ones(1, 1), torch.ones(1, 1, device=unidev.gpu().native)
    both = geometric.data.HeteroData()
    both["a"].x, both["b"].x = one, two
    named = tensordict.TensorDict({"x": two}, batch_size=[1])
    with pytest.raises(unidev.DeviceMismatchError) as caught:
        unidev.check_same_device(one=geometric.data.Data(x=one), two=[both], named=named)
    assert {*caught.value.devices} == {
        "one['x']", "two[0].stores[1]['x']", "two[0].stores[2]['x']", "named['x']",
    }  # fmt: skip


def test_a_cache_brings_what_it_has_offloaded_back_to_where_it_was_moved() -> None:
    made = cache(library("transformers"), torch.ones(2))
    (layer,) = unidev.copy_to(made, "gpu:1").layers
    assert layer.device == unidev.gpu(1).native
    layer.offload()
    assert layer.keys.device == torch.device("cpu")
    layer.prefetch()
    assert layer.keys.device == layer.values.device == unidev.gpu(1).native
    assert made.layers[0].device == torch.device("cpu")


def test_a_module_among_tensors_is_refused() -> None:
    metric = library("torchmetrics").MeanMetric()
    with pytest.raises(unidev.NotATensorError):
        unidev.copy_to({"y": torch.ones(1), "metric": [metric]}, "cpu")


def test_outputs_of_transformers_are_one_thing() -> None:
    outputs: Any = library("transformers.modeling_outputs")

    @dataclasses.dataclass
    class Own(outputs.BaseModelOutput):  # type: ignore[misc]
        extra: Any = None

    hidden = torch.ones(2)
    for made in (outputs.BaseModelOutput(hidden), Own(hidden, extra=hidden)):
        moved = unidev.copy_to(made, "cpu")
        assert type(moved) is type(made)
        assert moved.last_hidden_state is moved["last_hidden_state"] is moved[0]
        assert moved.last_hidden_state is not hidden
        assert list(moved) == list(made)


def test_what_a_lightning_module_says_of_its_device_follows(run_python: Any) -> None:
    library("lightning.pytorch")
    library("torchmetrics")
    printed = run_python(
        """
        import warnings
        warnings.simplefilter("ignore")  # theirs
        import lightning.pytorch as lightning, torch, torchmetrics, unidev

        class Net(lightning.LightningModule):
            def __init__(self, *inside):
                super().__init__()
                self.layers = torch.nn.ModuleList([torch.nn.Linear(2, 2), *inside])

        metric = torchmetrics.MeanMetric()
        print(unidev.place(metric, "gpu:1").device == unidev.gpu(1).native)
        inner = Net()
        metric = torchmetrics.MeanMetric()
        net = Net(torch.nn.Sequential(inner, metric))
        for device in map(unidev.as_device, ("gpu:1", "cpu")):
            unidev.place(torch.nn.Sequential(net), device)
            kept = {net.device, inner.device, metric.device, metric.mean_value.device}
            print(kept == {device.native}, unidev.device_of(net) is device)
        """,
        UNIDEV_BACKEND="torch",
        UNIDEV_SIMULATE="2",
    )
    assert printed == "True\nTrue True\nTrue True"
