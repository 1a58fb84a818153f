from __future__ import annotations

from pathlib import Path

import pytest

from unidev.contract.backend_spec import CONTRACT_VERSION

GOOD = """
    import unidev
    from unidev.backends.numpy_backend.backend import NumpyBackend

    class Good(NumpyBackend):
        tensor_types = ()

    def load():
        return Good

    @unidev.hookimpl
    def unidev_register_backend():
        return unidev.BackendSpec(
            name="{name}", contract_version={version}, framework="{framework}",
            install="pip install {framework}", load=load,
        )
"""

LIST = """
    import unidev
    from unidev.backends.discovery import find_plugins
    print(*unidev.list_backends())
    for plugin in find_plugins():
        if plugin.failure is not None:
            assert plugin.spec is None and "Error" in plugin.traceback or "Exit" in plugin.traceback
            print(plugin.name, "|", plugin.failure)
"""


def good(name: str = "good", framework: str = "json", version: int = 3) -> str:
    return GOOD.format(name=name, framework=framework, version=version)


BROKEN = {
    "another contract version": (
        good(version=99),
        "version 99 of the contract, but this unidev has version 3",
    ),
    "the last contract version": (good(version=1), "For its author: docs/contract-3.md in unidev"),
    "a short name that is no tuple": (
        good().replace("load=load", "load=load, short_names='js'"),
        "`short_names` of its spec is 'js': it must be a tuple of names.",
    ),
    "the import raises": ("raise ZeroDivisionError('at import')", "ZeroDivisionError: at import"),
    "the import exits": ("import sys; sys.exit(3)", "SystemExit: 3"),
    "the syntax is wrong": ("def (", "SyntaxError: invalid syntax"),
    "no hook": ("x = 1", "has no @unidev.hookimpl function named unidev_register_backend"),
    "the hook is misspelt": (
        "import unidev\n@unidev.hookimpl\ndef unidev_register_backnd():\n    pass",
        "unidev_register_backnd",
    ),
    "the hook takes an argument": (
        "import unidev\n@unidev.hookimpl\ndef unidev_register_backend(x):\n    pass",
        "unidev_register_backend",
    ),
    "the hook raises": (
        "import unidev\n@unidev.hookimpl\ndef unidev_register_backend():\n    raise KeyError('k')",
        "KeyError: 'k'",
    ),
    "no spec is returned": (
        "import unidev\n@unidev.hookimpl\ndef unidev_register_backend():\n    return 5",
        "returned 5 from unidev_register_backend, not a BackendSpec",
    ),
    "the name is no string": (
        good().replace('name="good"', "name=None"),
        "the name of its spec is None",
    ),
    "the name is empty": (good(name=""), "the name of its spec is ''"),
    "the framework is a submodule": (good(framework="os.path"), "the framework of its spec is 'os"),
    "load is no function": (good().replace("load=load", "load=7"), "`load` of its spec is 7"),
    "the simulator names no object": (
        good().replace("load=load", "load=load, simulator='theirs:'"),
        "`simulator` of its spec is 'theirs:': it must be a function, or \"module:name\"",
    ),
    "the command for the simulator is no string": (
        good().replace("load=load", "load=load, simulator_install=('pip', 'install')"),
        "`simulator_install` of its spec is ('pip', 'install'): it must be a string, or None.",
    ),
    "the embedded backend's name is taken": (
        good(name="numpy"),
        "a backend 'numpy' is already registered",
    ),
}


@pytest.mark.parametrize("way", ["entry point", "UNIDEV_PLUGINS"])
def test_a_plugin_is_found_by_its_entry_point_or_by_the_variable(
    add_plugin, run_python, way
) -> None:
    by_entry_point = way == "entry point"
    add_plugin("theirs", good(), entry_point="good" if by_entry_point else None)
    said = run_python(LIST, UNIDEV_PLUGINS="" if by_entry_point else "theirs")
    assert said == "good numpy"


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_plugin_is_kept_with_its_failure_and_the_others_load(
    add_plugin, run_python, what: str
) -> None:
    source, failure = BROKEN[what]
    add_plugin("a_broken", source, entry_point="broken")
    add_plugin("theirs", good("fine"), entry_point="fine")
    backends, failed = run_python(LIST).splitlines()
    assert backends == "fine numpy"
    assert failed.startswith("broken | ")
    assert failure in failed


def test_there_is_a_page_of_what_the_contracts_version_changes() -> None:
    assert (Path(__file__).parents[2] / f"docs/contract-{CONTRACT_VERSION}.md").is_file()


def test_a_plugin_with_a_colon_too_many_is_said_to_have_it(run_python) -> None:
    assert "neither `module` nor `module:attribute`" in run_python(LIST, UNIDEV_PLUGINS="a:b:c")


def test_a_framework_that_no_backend_can_have_is_refused_with_the_reason(
    add_plugin, run_python
) -> None:
    why = "load=unidev.unsupported('its arrays have no device', 'https://example.org/')"
    add_plugin("theirs", good("strange").replace("load=load", why), entry_point="strange")
    said = run_python(
        """
        import unidev
        from unidev.backends.query_child import overview
        print(*unidev.list_backends())
        found = overview()["plugins"][-1]
        print(found["plugin"], found["state"], found["problem"])
        try:
            unidev.set_backend("strange")
        except unidev.BackendNotFoundError as error:
            print(error)
        """
    ).splitlines()
    reason = "backend 'strange' is not supported: its arrays have no device (https://example.org/)"
    assert said == ["numpy", f"strange refused {reason}", reason]


def test_a_broken_plugin_asked_for_by_name_says_how_it_is_broken(add_plugin, run_python) -> None:
    add_plugin("theirs", "raise ZeroDivisionError('at import')", entry_point="broken")
    said = run_python(
        """
        import unidev
        for ask in (unidev.set_backend, unidev.use_backend):
            try:
                ask("broken")
            except unidev.PluginError as error:
                print(error.backend, error)
        try:
            unidev.set_backend("other")
        except unidev.BackendNotFoundError as error:
            print(error)
        """
    )
    broken, again, other = said.splitlines()
    assert broken == again
    assert broken.startswith("broken the plugin of backend 'broken' (theirs) is broken: ZeroDiv")
    assert "unidev info" in broken
    assert "UNIDEV_DISABLED_PLUGINS=broken" in broken
    assert "there are: numpy. The plugin theirs is broken: ZeroDivisionError: at import." in other


def test_two_plugins_with_one_backends_name_are_said_and_the_first_stays(
    add_plugin, run_python
) -> None:
    add_plugin("first", good("same", "json"), entry_point="a")
    add_plugin("second", good("same", "csv"), entry_point="b")
    backends, failed = run_python(LIST).splitlines()
    assert backends == "numpy same"
    assert failed.startswith(
        "b | PluginError: a backend 'same' is already registered by first: disable one"
    )
    assert run_python(LIST, UNIDEV_DISABLED_PLUGINS="a") == "numpy same"


def test_two_plugins_with_one_entry_points_name_are_both_tried(add_plugin, run_python) -> None:
    add_plugin("first", good("one", "json"), entry_point="same")
    add_plugin("second", good("two", "csv"), entry_point="same")
    assert run_python(LIST) == "numpy one two"


def test_two_plugins_for_one_frameworks_tensors_are_said(add_plugin, run_python) -> None:
    add_plugin("first", good("one", "json"))
    add_plugin("second", good("two", "json"))
    backends, failed = run_python(LIST, UNIDEV_PLUGINS="first,second").splitlines()
    assert backends == "numpy one"
    assert "a backend for json is already registered by first" in failed


def test_two_frameworks_may_share_a_namespace(add_plugin, run_python) -> None:
    for name, framework in (("one", "json"), ("two", "csv")):
        shared = good(name, framework).replace("load=load", 'load=load, namespaces=("keras",)')
        add_plugin(f"plugin_{name}", shared, entry_point=name)
    assert run_python(LIST) == "numpy one two"


def test_one_plugin_found_on_two_ways_is_one(add_plugin, run_python) -> None:
    add_plugin("theirs", good(), entry_point="good")
    assert run_python(LIST, UNIDEV_PLUGINS="theirs, theirs ,") == "good numpy"


def test_a_plugin_that_is_switched_off_is_not_imported(add_plugin, run_python) -> None:
    add_plugin("theirs", "raise ZeroDivisionError", entry_point="off")
    assert run_python(LIST, UNIDEV_DISABLED_PLUGINS="other, off") == "numpy"
    said = run_python(
        """
        import sys, unidev
        try:
            unidev.set_backend("off")
        except unidev.BackendNotFoundError as error:
            print("theirs" in sys.modules, error)
        """,
        UNIDEV_DISABLED_PLUGINS="off",
    )
    assert said.startswith("False backend 'off' is disabled by UNIDEV_DISABLED_PLUGINS")


def test_the_embedded_backend_cannot_be_switched_off(run_python) -> None:
    assert run_python(LIST, UNIDEV_DISABLED_PLUGINS="numpy") == "numpy"


def test_a_plugin_can_be_an_attribute_of_a_module(add_plugin, run_python) -> None:
    add_plugin(
        "theirs",
        """
        import unidev
        class Plugin:
            @unidev.hookimpl
            def unidev_register_backend(self):
                return unidev.BackendSpec(name="held", contract_version=3, framework="json",
                                          install="-", load=lambda: None)
        plugin = Plugin()
        """,
    )
    assert run_python(LIST, UNIDEV_PLUGINS="theirs:plugin") == "held numpy"


def test_plugins_are_searched_for_once_also_by_many_threads(add_plugin, run_python) -> None:
    asked = "print('asked'); import time; time.sleep(0.2); return unidev.BackendSpec("
    add_plugin("theirs", good().replace("return unidev.BackendSpec(", asked), entry_point="x")
    said = run_python(
        """
        import threading, unidev
        names = []
        threads = [
            threading.Thread(target=lambda: names.append(unidev.list_backends())) for _ in range(8)
        ]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        print(names == [["good", "numpy"]] * 8)
        """
    )
    assert said.splitlines() == ["asked", "True"]
