"""What the house promises: the invariants of the design, one test (or a few) of each name.

Here on NumPy and its simulated devices; the conformance suite asks the same of every backend.
"""

from __future__ import annotations

import ast
import inspect
import random
from pathlib import Path

import numpy as np
import pytest

import unidev
from unidev import contract
from unidev.backends.loading import load_backend
from unidev.backends.numpy_backend.simulated_array import SimulatedArray
from unidev.backends.scopes import stack

FREE = """
    import sys
    before = set(sys.modules)
    import unidev
    new = {name.partition(".")[0] for name in set(sys.modules) - before}
    costly = {"numpy", "pluggy", "optree", "psutil", "typing", "dataclasses", "re", "inspect",
              "contextlib", "filelock", "platformdirs", "click", "rich", "json", "safetensors",
              "xxhash", "torch", "tensorflow", "paddle", "mxnet"}
    homes = {f"unidev.{home}" for home in unidev._HOMES.values()} - {"unidev.contract"}
    print(sorted(new & costly), sorted({"importlib.metadata", *homes} & set(sys.modules)))
"""


def test_native_in_native_out(two_gpus: None) -> None:
    class Mine(np.ndarray):
        pass

    x = np.arange(3.0).view(Mine)
    for result in (unidev.copy_to(x, "cpu"), unidev.copy_to({"x": [x]}, "cpu")["x"][0]):
        assert type(result) is Mine
    for make in (unidev.zeros, unidev.ones, unidev.rand, unidev.empty):
        assert type(make(2)) is np.ndarray
        assert type(make(2, device="gpu:1")) is SimulatedArray
        assert isinstance(make(2, device="gpu:1"), np.ndarray)


def test_two_verbs_one_meaning(two_gpus: None) -> None:
    for source in unidev.list_devices():
        x = unidev.array(np.array([-0.0, np.nan, 5e-324]), device=source)
        for target in unidev.list_devices():
            copied, placed = unidev.copy_to(x, target), unidev.as_in_device(x, target)
            assert copied is not x
            assert not unidev.shares_memory(copied, x)
            assert (placed is x) == (source is target)
            assert unidev.shares_memory(placed, x) == (source is target)
            for result in (copied, placed):
                assert unidev.device_of(result) is target
                assert (result.dtype, result.shape) == (x.dtype, x.shape)
                assert unidev.to_numpy(result).tobytes() == unidev.to_numpy(x).tobytes()


def test_proved_not_believed(two_gpus: None) -> None:
    backend = load_backend("numpy")
    for device in unidev.list_devices():
        x = unidev.arange(6, dtype="int32", device=device)
        y = unidev.copy_to(x, device)
        (a,), (b,) = backend.extents(x), backend.extents(y)
        assert a.nbytes == b.nbytes == 24
        assert abs(a.address - b.address) >= 24
        y[...] = 7
        assert unidev.to_numpy(x).tolist() == [0, 1, 2, 3, 4, 5]
        view = x[1:]
        view[...] = 9
        assert unidev.to_numpy(x).tolist() == [0, 9, 9, 9, 9, 9]


def test_nothing_silent(two_gpus: None) -> None:
    for refused, kind in (
        (lambda: unidev.gpu(2), unidev.DeviceNotFoundError),
        (lambda: unidev.zeros(2, device="gpu:2"), unidev.DeviceNotFoundError),
        (lambda: unidev.array([2**63]), unidev.InvalidDataError),
        (lambda: unidev.array(np.array([300]), dtype="int8"), unidev.InvalidDataError),
        (lambda: unidev.zeros(2, dtype="bfloat16"), unidev.UnsupportedDtypeError),
        (lambda: unidev.zeros(2, device="gpu:0") + unidev.zeros(2), unidev.DeviceMismatchError),
        (lambda: unidev.set_backend("nobody"), unidev.BackendNotFoundError),
        (lambda: unidev.copy_to({1}, "cpu"), unidev.UnsupportedContainerError),
    ):
        with pytest.raises(kind):
            refused()
    assert unidev.try_gpu(2) is unidev.cpu()


def test_nobody_pays_for_what_they_do_not_use(run_python) -> None:
    assert run_python(FREE) == "[] []"


def test_selecting_a_backend_and_moving_a_tensor_need_no_optree(run_python) -> None:
    said = run_python(
        """
        import sys, unidev
        x = unidev.zeros(3)
        unidev.as_in_device(unidev.copy_to(x, "cpu"), unidev.cpu())
        unidev.as_in_device({"x": [x, 1, None]}, unidev.cpu())
        print("optree" in sys.modules)
        unidev.copy_to([x], "cpu")
        print("optree" in sys.modules)
        """
    )
    assert said.split() == ["False", "True"]


def test_leave_the_framework_as_found(two_gpus: None) -> None:
    def state() -> object:
        legacy = np.random.get_state(legacy=True)
        return (
            np.geterr(),
            legacy[1].tobytes(),
            legacy[2:],
            random.getstate(),
            np.get_printoptions(),
        )

    before = state()
    unidev.seed(1)
    for device in unidev.list_devices():
        with device:
            unidev.copy_to([unidev.rand(3), unidev.randn(3)], device)
            with pytest.raises(unidev.InvalidDataError):
                unidev.array([1e39])
    with pytest.raises(ZeroDivisionError), unidev.gpu(1):
        raise ZeroDivisionError
    assert state() == before
    assert not stack.scopes


def test_the_contract_is_the_same_for_us_and_for_strangers() -> None:
    """That plugins import nothing else, ``test_architecture.py`` reads off their imports."""
    for_plugins = {name for name, home in unidev._HOMES.items() if home == "contract"}
    assert set(contract.HOMES) >= for_plugins
    for name in contract.HOMES:
        assert getattr(contract, name) is not None
    for name in for_plugins:
        assert getattr(unidev, name) is getattr(contract, name)


def test_looking_is_harmless(two_gpus: None, monkeypatch) -> None:
    def touched(*_: object) -> None:
        raise AssertionError("looking made something")

    backend = load_backend("numpy")
    for name in ("empty", "zeros", "full", "from_numpy", "copy_to", "synchronize"):
        monkeypatch.setattr(type(backend), name, touched)
    assert [str(device) for device in unidev.list_devices()] == ["cpu:0", "gpu:0", "gpu:1"]
    assert (unidev.num_gpus(), len(unidev.try_all_gpus())) == (2, 2)
    assert unidev.try_gpu(1).name == "simulated GPU 1"
    assert unidev.as_device("gpu:1").native_name == "gpu:1"


# -- the public names ---------------------------------------------------------------------------


def public_functions() -> dict[str, object]:
    return {
        name: value
        for name in unidev.__all__
        if callable(value := getattr(unidev, name)) and not isinstance(value, type)
    } | {"use_backend": unidev.use_backend}


def test_no_public_name_is_that_of_a_module() -> None:
    modules = {path.stem for path in Path(unidev.__file__).parent.iterdir()}
    assert not modules & set(unidev.__all__)


def test_all_is_complete_and_sorted_and_each_name_is_there() -> None:
    tree = ast.parse(Path(unidev.__file__).read_text(encoding="utf-8"))
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("unidev.")
        for alias in node.names
    }
    assert set(unidev.__all__) == imported - {"__version__"}
    assert len(set(unidev.__all__)) == len(unidev.__all__)
    assert set(unidev._HOMES) < set(unidev.__all__) <= set(dir(unidev))
    for name in unidev.__all__:
        assert getattr(unidev, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = unidev.nothing  # type: ignore[attr-defined]


def test_a_star_gives_what_all_lists(run_python) -> None:
    said = run_python(
        "from unidev import *\nimport unidev\nprint(set(unidev.__all__) <= set(dir()))"
    )
    assert said == "True"


def test_every_public_function_has_a_summary_of_one_line() -> None:
    for name, function in public_functions().items():
        first = (inspect.getdoc(function) or "").partition("\n")[0]
        assert first.endswith("."), name


RAISES = {
    "arange", "array", "as_device", "copy_to", "device_of", "full", "gpu", "memory",
    "register_container", "same_device", "seed", "set_backend", "shares_memory", "simulate",
    "to_numpy", "try_gpu", "use_backend", "active_backend", "load_parameters", "load_tensors",
    "save_parameters",
}  # fmt: skip
EXAMPLES = {
    "active_backend", "arange", "array", "as_device", "as_in_device", "check_same_device",
    "copy_to", "device_of", "list_backends", "list_devices", "register_container",
    "same_device", "seed", "shares_memory", "try_gpu", "zeros", "load_parameters",
    "load_tensors", "save_parameters",
}  # fmt: skip


def test_every_function_that_raises_says_what_and_the_main_ones_have_an_example() -> None:
    texts = {name: inspect.getdoc(function) or "" for name, function in public_functions().items()}
    assert {name for name, text in texts.items() if "Raises:" in text} >= RAISES
    assert {name for name, text in texts.items() if ">>> " in text} >= EXAMPLES


def test_what_a_caller_passes_as_the_thing_is_positional_and_options_are_named() -> None:
    for name, function in public_functions().items():
        for parameter in inspect.signature(function).parameters.values():  # type: ignore[arg-type]
            if parameter.name in ("dtype", "non_blocking"):
                assert parameter.kind is parameter.KEYWORD_ONLY, name


def test_the_version_is_that_of_the_distribution() -> None:
    from importlib.metadata import version

    assert unidev.__version__ == version("unidev-core")
