"""Libraries' own objects in a batch of PyTorch tensors: ``nox -s libraries``.

The default sessions have stand-ins of the same shape, in ``tests/tensors/test_objects.py``.
"""

from __future__ import annotations

import dataclasses
import importlib
import os
from typing import Any

import pytest

import unidev


def library(name: str) -> Any:
    """The module. If it is missing, the test is left out, but in the session of the libraries."""
    if "LIBRARIES_REQUIRED" in os.environ:
        return importlib.import_module(name)
    return pytest.importorskip(name, reason="not installed: `nox -s libraries` has it")


torch: Any = library("torch")


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


def holding() -> list[tuple[str, Any, str]]:
    def data(geometric: Any) -> Any:
        return geometric.data.Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0], [1]]))

    def cache(transformers: Any) -> Any:
        made = transformers.DynamicCache()
        made.update(torch.ones(1, 1, 1, 1), torch.ones(1, 1, 1, 1), 0)
        return made

    def cell(pydantic: Any) -> Any:
        return pydantic.create_model("Batch", x=(Any, ...))(x=torch.ones(1))

    return [
        ("torch_geometric", data, "._store._mapping['x']"),
        (
            "torch_geometric",
            lambda geometric: geometric.data.Batch.from_data_list([data(geometric)]),
            "._store._mapping[",
        ),
        ("transformers", cache, ".layers[0].keys"),
        (
            "transformers",
            lambda transformers: transformers.BatchEncoding({"ids": torch.ones(1)}),
            ".data['ids']",
        ),
        ("pydantic", cell, ".x"),
        ("attrs", lambda attrs: attrs.make_class("Slots", ["a"], slots=True)(torch.ones(1)), ".a"),
        ("torchmetrics", lambda metrics: [metrics.MeanMetric()], ""),
    ]  # fmt: skip


@pytest.mark.parametrize(("name", "make", "path"), holding(), ids=lambda value: str(value)[:14])
def test_what_holds_a_tensor_is_refused(name: str, make: Any, path: str) -> None:
    tree = {"y": torch.ones(1), "odd": make(library(name))}
    if not path:  # a module
        with pytest.raises(unidev.NotATensorError):
            unidev.copy_to(tree, "cpu")
        return
    for verb in (lambda tree: unidev.copy_to(tree, "cpu"), unidev.device_of):
        with pytest.raises(unidev.UnsupportedContainerError) as caught:
            verb(tree)
        assert f"['odd']{path}" in str(caught.value)


def test_outputs_of_transformers_are_one_thing() -> None:
    outputs: Any = library("transformers.modeling_outputs")
    unidev.register_container(outputs.BaseModelOutput)

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
    assert printed == "True True\nTrue True"
