from __future__ import annotations

import copy
import dataclasses
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import unidev
from unidev.backends.loading import load_backend
from unidev.contract.backend import Backend
from unidev.contract.backend_spec import BackendSpec, Simulator
from unidev.contract.models import check_state
from unidev.contract.optional import names_an_object
from unidev.contract.probe import Probe


def test_the_contract_asks_for_a_dozen_methods_and_no_more() -> None:
    assert sorted(Backend.__abstractmethods__) == [
        "copy_to", "device_count", "device_of", "dtypes", "empty", "from_numpy", "full",
        "native_device", "parse_native", "synchronize", "tensor_types", "to_numpy",
    ]  # fmt: skip


@pytest.mark.parametrize("part", [Backend, Probe, Simulator])
def test_a_part_with_a_method_missing_cannot_be_made(part: type) -> None:
    with pytest.raises(TypeError, match="abstract"):
        part()


def test_what_a_backend_cannot_do_it_says_with_the_name_of_the_attribute() -> None:
    class Poor:
        memory = unidev.unsupported("nobody counts", "https://example.org")

    assert Poor.memory.reason == "nobody counts"
    for use in (Poor().memory, lambda: Poor.memory.used_bytes, lambda: Poor().memory(1, a=2)):
        with pytest.raises(unidev.UnsupportedOperation) as caught:
            use()
        assert str(caught.value) == "memory is not supported: nobody counts (https://example.org)"
        assert caught.value.operation == "memory"


def test_what_python_itself_looks_for_is_an_ordinary_missing_attribute() -> None:
    unsupported = unidev.unsupported("no")
    assert not hasattr(unsupported, "__wrapped__")
    assert copy.copy(unsupported).reason == "no"


def test_a_part_is_imported_and_made_when_it_is_first_asked_for_and_once(run_python) -> None:
    said = run_python(
        """
        import sys, unidev
        backend = unidev.active_backend()
        print("unidev.backends.numpy_backend.nn.layers" in sys.modules, end=" ")
        print(backend.layers is backend.layers, backend.layers.backend is backend, end=" ")
        print("unidev.backends.numpy_backend.nn.layers" in sys.modules)
        """,
        UNIDEV_BACKEND="numpy",
    )
    assert said.split() == ["False", "True", "True", "True"]


def test_a_part_that_is_not_where_its_backend_says_is_an_error_that_names_it() -> None:
    class Lost(load_backend("numpy").__class__):  # type: ignore[misc]
        models = unidev.part("no_such_package.models:Models")
        tracer = unidev.part("unidev.backends.numpy_backend.tracer:NoTracer")

    lost = Lost(load_backend("numpy").spec, 0)
    for part, wrong in (
        ("models", "there is no module no_such_package"),
        ("tracer", "the module unidev.backends.numpy_backend.tracer has no NoTracer"),
    ):
        with pytest.raises(unidev.PluginError) as caught:
            getattr(lost, part)
        assert str(caught.value).startswith(f"`{part}` of Lost is ")
        assert wrong in str(caught.value)


@pytest.mark.parametrize(
    "where", ["", ":", "a", "a:", ":B", "a.b", "a:B.c", "a:b:c", "a b:C", "a..b:C", "a:B()"]
)
def test_a_string_names_an_object_as_module_and_name_only(where: str) -> None:
    assert names_an_object("a.b:C")
    assert not names_an_object(where)


def test_many_threads_that_ask_at_once_get_one_part() -> None:
    class Slow(load_backend("numpy").__class__):  # type: ignore[misc]
        models = unidev.part("test_backend:SlowPart")

    numpy = load_backend("numpy")
    slow = Slow(numpy.spec, 0)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: slow.models, range(8)))
    assert all(each is found[0] for each in found)


class SlowPart:
    def __init__(self, backend: object) -> None:
        time.sleep(0.01)


def test_a_spec_is_frozen_and_takes_names_only() -> None:
    spec = load_backend("numpy").spec
    with pytest.raises(dataclasses.FrozenInstanceError):
        spec.name = "other"  # type: ignore[misc]
    with pytest.raises(TypeError, match="positional"):
        BackendSpec("name", 1, "framework", "install", lambda: Backend)  # type: ignore[misc]


class Least(load_backend("numpy").__class__):  # type: ignore[misc]
    """NumPy with what may be left out left out."""

    zeros = Backend.zeros
    cast = Backend.cast
    copy_if_there = Backend.copy_if_there
    native_name = Backend.native_name
    hardware_name = Backend.hardware_name


def test_what_may_be_left_out_is_made_of_what_must_be_there() -> None:
    numpy = load_backend("numpy")
    least = Least(numpy.spec, 0)
    cpu = unidev.cpu()
    assert least.zeros((2,), numpy.dtypes["int8"], cpu).tolist() == [0, 0]
    x = unidev.array([1.5, 2.5])
    assert least.cast(x, numpy.dtypes["float64"], cpu).dtype == numpy.dtypes["float64"]
    copied = least.copy_if_there(x, least.device_of(x))
    assert copied.tolist() == x.tolist()
    assert not unidev.shares_memory(copied, x)
    assert (least.native_name("cpu", 0), least.hardware_name("cpu", 0)) == ("cpu", "cpu")


def test_the_state_of_an_optimizer_has_its_names_and_shapes() -> None:
    sound = {"a": np.zeros(2), "b": np.zeros(())}
    check_state("SGD", {"a": (2,), "b": ()}, sound)
    for wrong, problem in (
        ({"a": sound["a"]}, "b: not in the file"),
        ({**sound, "c": np.zeros(2)}, "c: not in this SGD"),
        ({**sound, "a": np.zeros(3)}, "a: (3,) in the file, (2,) here"),
    ):
        with pytest.raises(unidev.CheckpointError) as caught:
            check_state("SGD", {"a": (2,), "b": ()}, wrong)
        assert list(caught.value.problems) == [problem]
