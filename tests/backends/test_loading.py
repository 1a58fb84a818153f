from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import unidev
from unidev.backends.loading import backend_of_namespace, backend_of_type, is_installed
from unidev.tensors.kinds import backend_of_tensor

SPEC = """
    import unidev
    from unidev.backends.numpy_backend.backend import NumpyBackend

    {body}

    @unidev.hookimpl
    def unidev_register_backend():
        return unidev.BackendSpec(
            name="theirs", contract_version=3, framework="{framework}",
            install="pip install {framework}[cpu]", load=load, {more}
        )
"""

TRY = """
    import unidev
    for attempt in range(2):
        try:
            unidev.set_backend("theirs")
        except unidev.UnidevError as error:
            print(type(error).__name__, error.__cause__.__class__.__name__, error)
"""


def plugin(body: str, framework: str = "json", more: str = "") -> str:
    return SPEC.format(body="\n    ".join(body.splitlines()), framework=framework, more=more)


BROKEN = {
    "the framework is not installed": (
        plugin("load = print", framework="no_such_framework"),
        "FrameworkNotInstalledError NoneType",
        "Install it with: pip install no_such_framework[cpu]",
    ),
    "the import raises": (
        plugin("def load():\n    raise OSError('libcuda.so is missing')"),
        "PluginError OSError",
        "does not load: OSError: libcuda.so is missing. The installation of json may be "
        "incomplete.",
    ),
    "the import exits": (
        plugin("def load():\n    raise SystemExit(4)"),
        "PluginError SystemExit",
        "SystemExit: 4",
    ),
    "the module that load names is missing": (
        plugin("load = 'no_such_package.backend:Mine'"),
        "PluginError ModuleNotFoundError",
        "`load` of backend 'theirs' is 'no_such_package.backend:Mine', but there is no module "
        "no_such_package.",
    ),
    "the name is missing in the module that load names": (
        plugin("load = 'theirs_plugin:Mine'"),
        "PluginError NoneType",
        "`load` of backend 'theirs' is 'theirs_plugin:Mine', but the module theirs_plugin has no "
        "Mine.",
    ),
    "load names a module that imports a missing one": (
        plugin("load = 'needs_more:Mine'"),
        "PluginError ModuleNotFoundError",
        "does not load: ModuleNotFoundError: No module named 'no_such_package'. "
        "The installation of json may be incomplete.",
    ),
    "load imports what unidev does not have": (
        plugin("def load():\n    from unidev.contract import Nothing"),
        "PluginError ImportError",
        "The plugin itself raised it, at line 6 of ",
    ),
    "a number in out-of-memory words that there is not": (
        plugin(
            "class Mine(NumpyBackend):\n    out_of_memory_numbers = ('all {wanted}',)\n"
            "def load():\n    return Mine"
        ),
        "PluginError NoneType",
        "out_of_memory_numbers of backend 'theirs' names wanted in braces; there are: "
        "requested, free, total, shape, dtype.",
    ),
    "load names a function": (
        plugin("load = 'json:loads'"),
        "PluginError NoneType",
        "not a subclass of Backend",
    ),
    "methods are missing": (
        plugin("class Bad(unidev.Backend):\n    pass\ndef load():\n    return Bad"),
        "PluginError NoneType",
        "copy_to, device_count, device_of, dtypes, empty, from_numpy, full, native_device, "
        "parse_native, synchronize, tensor_types, to_numpy. See unidev/contract/backend.py",
    ),
    "load gives no backend": (
        plugin("def load():\n    return 5"),
        "PluginError NoneType",
        "gives 5, not a subclass of Backend",
    ),
    "an attribute is no tuple": (
        plugin("class Mine(NumpyBackend):\n    kinds = 'cpu'\ndef load():\n    return Mine"),
        "PluginError NoneType",
        "`kinds` of backend 'theirs' gives 'cpu', not a tuple of names.",
    ),
    "an interruption among the framework's errors": (
        plugin(
            "class Mine(NumpyBackend):\n    framework_errors = (KeyboardInterrupt,)\n"
            "def load():\n    return Mine"
        ),
        "PluginError NoneType",
        "(<class 'KeyboardInterrupt'>,), not a tuple of classes of Exception.",
    ),
    "an attribute is no mapping": (
        plugin("class Mine(NumpyBackend):\n    dtypes = [4]\ndef load():\n    return Mine"),
        "PluginError NoneType",
        "`dtypes` of backend 'theirs' gives [4], not a mapping.",
    ),
    "a tracer that the spec denies": (
        plugin("def load():\n    return NumpyBackend", more="is_traced=False,"),
        "PluginError NoneType",
        "`is_traced` of backend 'theirs' gives False, not True: its backend has a tracer.",
    ),
    "the constructor does not call that of Backend": (
        plugin(
            "class Mine(NumpyBackend):\n    def __init__(self, *rest):\n        pass\n"
            "def load():\n    return Mine"
        ),
        "PluginError NoneType",
        "not a class whose constructor calls Backend's.",
    ),
    "an error that cannot be shown": (
        plugin(
            "class Bad(Exception):\n    def __str__(self):\n        raise ValueError\n"
            "def load():\n    raise Bad"
        ),
        "PluginError Bad",
        "backend 'theirs' does not load: Bad. The plugin itself raised it, at line 9 of ",
    ),
    "the constructor raises": (
        plugin(
            "class Bad(NumpyBackend):\n    def __init__(self, *rest):\n"
            "        raise KeyError('k')\n"
            "def load():\n    return Bad"
        ),
        "PluginError KeyError",
        "KeyError: 'k'",
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_backend_that_does_not_load_says_why_each_time_and_never_falls_back(
    add_plugin, run_python, what: str
) -> None:
    source, kinds, message = BROKEN[what]
    add_plugin("theirs_plugin", source)
    add_plugin("needs_more", "import no_such_package")
    said = run_python(TRY, UNIDEV_PLUGINS="theirs_plugin")
    first, second = said.splitlines()
    assert first == second
    assert first.startswith(kinds)
    assert message in first


SIMULATORS = {
    "there is none": ("", "UnsupportedOperation", "simulator is not supported: the backend has no"),
    "it is none": ("simulator=dict", "PluginError", "gives {}, not a Simulator."),
    "making it raises": ("simulator=lambda: 1 / 0", "PluginError", "ZeroDivisionError"),
    "its module is missing": (
        "simulator='no_such_package:Simulator'",
        "PluginError",
        "`simulator` of backend 'theirs' is 'no_such_package:Simulator', but there is no module",
    ),
    "it cannot start": ("simulator=Fails", "SimulationError", "install a compiler"),
}


@pytest.mark.parametrize("what", SIMULATORS)
def test_a_simulator_that_fails_is_an_error_and_no_fallback_to_real_devices(
    add_plugin, run_python, what: str
) -> None:
    more, kind, message = SIMULATORS[what]
    body = (
        "class Fails(unidev.Simulator):\n    def start(self, count):\n"
        "        raise unidev.SimulationError('install a compiler')\n"
        "def load():\n    return NumpyBackend"
    )
    add_plugin("theirs_plugin", plugin(body, more=more))
    said = run_python(TRY, UNIDEV_PLUGINS="theirs_plugin", UNIDEV_SIMULATE="2")
    first, second = said.splitlines()
    assert first == second
    assert first.startswith(kind)
    assert message in first


@pytest.mark.parametrize(
    ("load", "simulator"),
    [
        ("def load():\n    return Mine", "Starts"),
        ("load = 'theirs_plugin:Mine'", "'theirs_plugin:Starts'"),
    ],
    ids=["functions", "strings"],
)
def test_a_backend_is_loaded_once_and_its_simulator_started_once(
    add_plugin, run_python, load, simulator
) -> None:
    body = (
        "class Starts(unidev.Simulator):\n    def start(self, count):\n"
        "        print('start', count)\n"
        "class Mine(NumpyBackend):\n    tensor_types = ()\n"
        "    def __init__(self, *arguments):\n"
        "        print('load')\n        super().__init__(*arguments)\n"
    )
    add_plugin("theirs_plugin", plugin(body + load, more=f"simulator={simulator}"))
    said = run_python(
        """
        import threading, unidev
        start = threading.Barrier(8)
        seen = []
        def use():
            start.wait()
            with unidev.use_backend("theirs") as backend:
                seen.append((backend, unidev.num_gpus(), unidev.gpu(2)))
        threads = [threading.Thread(target=use) for _ in range(8)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        print(len(set(seen)), len(seen), seen[0][1])
        """,
        UNIDEV_PLUGINS="theirs_plugin",
        UNIDEV_SIMULATE="3",
    )
    assert said.splitlines() == ["start 3", "load", "1 8 3"]


def test_a_type_belongs_to_the_backend_its_bases_come_from() -> None:
    class Mine(np.ndarray):
        pass

    assert backend_of_type(Mine) is backend_of_type(np.ndarray) is backend_of_tensor(np.zeros(1))
    assert backend_of_type(np.float32) is None
    assert backend_of_namespace(np.float32) is backend_of_type(np.ndarray)
    assert backend_of_type(int) is None


def test_an_object_of_a_shared_namespace_is_of_the_backend_that_knows_its_class(
    add_plugin, run_python
) -> None:
    for name, framework, known in (("theirs", "json", "First"), ("others", "csv", "Second")):
        body = (
            "import sys\nclass Mine(NumpyBackend):\n    tensor_types = optimizer_types = ()\n"
            "    @property\n    def model_types(self):\n"
            f"        return (sys.modules['shared'].{known},)\n"
            "def load():\n    return Mine"
        )
        text = plugin(body, framework, more="namespaces=('shared',)").replace("theirs", name)
        add_plugin(f"plugin_of_{name}", text, entry_point=name)
    said = run_python(
        """
        import csv, json, sys, types
        from unidev.backends.loading import backend_of_model_type, backend_of_namespace
        shared = sys.modules["shared"] = types.ModuleType("shared")
        for name in ("First", "Second", "Third"):
            setattr(shared, name, type(name, (), {"__module__": "shared"}))
        for cls in (shared.Second, shared.First, shared.Third):
            found = backend_of_model_type(cls())
            print(found and found.name)
        own = type("Layer", (), {"__module__": "plugin_of_theirs.layers"})
        print(backend_of_namespace(own).name)
        """
    )
    assert said.split() == ["others", "theirs", "None", "theirs"]


def test_a_type_whose_module_is_no_string_belongs_to_nobody() -> None:
    strange = type("Strange", (), {"__module__": None})
    assert backend_of_type(strange) is None


def test_types_of_strangers_are_not_kept_alive() -> None:
    stranger = type("Stranger", (), {})
    with pytest.raises(unidev.NotATensorError, match="Stranger"):
        unidev.copy_to(stranger(), "cpu")
    reference = weakref.ref(stranger)
    del stranger
    gc.collect()
    assert reference() is None


def test_a_folder_without_code_is_no_installed_framework(tmp_path, monkeypatch) -> None:
    (tmp_path / "left_behind" / "lib").mkdir(parents=True)
    (tmp_path / "whole.py").write_text("")
    (tmp_path / "spaced-1.dist-info").mkdir()  # as mlx is installed, whose code is in mlx.core
    (tmp_path / "spaced-1.dist-info" / "METADATA").write_text("Name: spaced\nVersion: 1\n")
    (tmp_path / "spaced-1.dist-info" / "RECORD").write_text("spaced/core.py,,\n")
    (tmp_path / "spaced").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    assert is_installed("spaced")
    assert not is_installed("left_behind")
    assert is_installed("whole")
    assert not is_installed("no_such_framework")


def test_a_stand_in_made_by_hand_is_installed_and_a_blocked_module_is_not(monkeypatch) -> None:
    import sys
    import types

    monkeypatch.setitem(sys.modules, "stand_in", types.ModuleType("stand_in"))
    monkeypatch.setitem(sys.modules, "blocked", None)
    assert is_installed("stand_in")
    assert not is_installed("blocked")


def test_no_garbage_is_collected_while_a_framework_is_imported(add_plugin, run_python) -> None:
    body = "def load():\n    import gc\n    print(gc.isenabled())\n    return NumpyBackend"
    add_plugin("theirs", plugin(body), entry_point="theirs")
    use = "import gc, unidev; unidev.set_backend('theirs'); unidev.ones(3); print(gc.isenabled())"
    assert run_python(use).split() == ["False", "True"]
