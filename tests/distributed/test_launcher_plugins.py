"""``unidev_register_launcher``: launchers of plugins, found as backends are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import AddPlugin, RunPython

PLUGIN = """
    import unidev

    @unidev.hookimpl
    def unidev_register_launcher():
        return unidev.LauncherSpec(name={name}, contract_version={version}, load={load})
"""
LAUNCHER = """
    from unidev.distributed.launchers.processes import Processes

    class Mine(Processes):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            print("mine starts", len(self.hosts))
"""
HELPERS = str(Path(__file__).parents[1] / "helpers")
RUN = f"""
    import sys
    sys.path.append({HELPERS!r})
    import run_samples, unidev
    try:
        print(unidev.run(run_samples.ranks, backend="numpy", launcher="mine"))
    except unidev.UnidevError as error:
        print(error)
    from unidev.registry.discovery import find_plugins
    print([plugin.failure for plugin in find_plugins() if plugin.failure])
"""


def run(add: AddPlugin, python: RunPython, **given: str) -> str:
    fields = {"name": "'mine'", "version": "2", "load": "'my_launcher:Mine'", **given}
    add("my_plugin", PLUGIN.format(**fields), entry_point="mine")
    add("my_launcher", LAUNCHER)
    return python(RUN)


def test_a_plugin_starts_the_workers_of_a_run(add_plugin: AddPlugin, run_python: RunPython) -> None:
    printed = run(add_plugin, run_python)
    assert "mine starts 2" in printed
    assert "[(0, 2, 'cpu:0'), (1, 2, 'cpu:0')]" in printed
    assert printed.endswith("[]")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"version": "3"}, "was written for version 3 of the contract"),
        ({"version": "1"}, "docs/contract-2.md in unidev's repository lists what to change"),
        ({"name": "'not one'"}, "which is not a valid name"),
        ({"load": "'not one'"}, "it must be a function, or"),
        ({"load": "'my_launcher:Nothing'"}, "the module my_launcher has no Nothing"),
        ({"load": "'my_launcher:__name__'"}, "not a subclass of Launcher"),
    ],
)
def test_a_broken_one_is_named(
    add_plugin: AddPlugin, run_python: RunPython, given: dict[str, str], words: str
) -> None:
    printed = run(add_plugin, run_python, **given)
    assert words in printed
    assert "mine starts" not in printed


def test_what_is_no_spec_is_named(add_plugin: AddPlugin, run_python: RunPython) -> None:
    source = """
        import unidev

        @unidev.hookimpl
        def unidev_register_launcher():
            return "mine"
    """
    add_plugin("my_plugin", source, entry_point="mine")
    assert "returned 'mine' from unidev_register_launcher, not a LauncherSpec" in run_python(RUN)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("3", "`group_setting` of its spec is 3: it must be a function"),
        ("dict", "`group_setting` of backend 'mine' gives {}, not a GroupSetting"),
    ],
)
def test_a_group_setting_that_is_none_is_named(
    add_plugin: AddPlugin, run_python: RunPython, setting: str, words: str
) -> None:
    source = f"""
        import unidev
        from unidev import numpy_backend
        import dataclasses

        @unidev.hookimpl
        def unidev_register_backend():
            return dataclasses.replace(
                numpy_backend.unidev_register_backend(),
                name="mine", framework="json", group_setting={setting},
            )
    """
    add_plugin("my_plugin", source, entry_point="mine")
    program = f"""
        import sys
        sys.path.append({HELPERS!r})
        import run_samples, unidev
        try:
            unidev.run(run_samples.ranks, backend="mine", workers=1)
        except unidev.UnidevError as error:
            print(error)
    """
    assert words in run_python(program)
