"""``unidev_register_launcher``: launchers of plugins, found as backends are."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
import run_samples
import subprocess_launcher

import unidev
from unidev.parallel.launchers import finding

if TYPE_CHECKING:
    from core_fixtures import AddPlugin, RunPython

PLUGIN = """
    import unidev

    @unidev.hookimpl
    def unidev_register_launcher():
        return unidev.LauncherSpec(name={name}, contract_version={version}, load={load})
"""
LAUNCHER = """
    from subprocess_launcher import Agent

    class Mine(Agent):
        def __init__(self, size, address):
            super().__init__(size, address)
            print("mine starts", size)
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
    from unidev.backends.discovery import find_plugins
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
        ({"version": "4"}, "was written for version 4 of the contract"),
        ({"version": "1"}, "docs/contract-3.md in unidev's repository lists what to change"),
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
        from unidev.backends import numpy_backend
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


@pytest.mark.parametrize("options", [{"launcher": "ray"}, {"address": "auto"}])
def test_the_plugin_of_rays_launcher_is_named(
    options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finding, "launcher_specs", dict)
    with pytest.raises(unidev.UnsupportedOperation) as caught:
        unidev.run(run_samples.ranks, backend="numpy", **options)  # type: ignore[arg-type]
    assert "unidev-ray is not installed. In unidev's repository, run: pip install" in str(
        caught.value
    )
    assert str(caught.value).endswith("'./plugins/unidev-ray[framework]'")


def test_an_address_is_for_the_one_launcher_that_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    specs = {
        name: unidev.LauncherSpec(
            name=name,
            contract_version=3,
            load=lambda: subprocess_launcher.Agent,
            takes_address=True,
        )
        for name in ("mine", "another")
    }
    monkeypatch.setattr(finding, "launcher_specs", lambda: {"mine": specs["mine"]})
    assert finding.launcher_class(None, "somewhere") is subprocess_launcher.Agent
    monkeypatch.setattr(finding, "launcher_specs", lambda: specs)
    with pytest.raises(unidev.InvalidDataError, match=r"take an address: another, mine\. Choose"):
        finding.launcher_class(None, "somewhere")


def test_a_plugin_that_does_not_load_is_the_reason_for_its_missing_launcher(
    add_plugin: AddPlugin, run_python: RunPython
) -> None:
    add_plugin("my_plugin", "import nothing_of_that_name", entry_point="mine")
    printed = run_python(RUN)
    assert "the plugin of launcher 'mine' (my_plugin) is broken: ModuleNotFoundError" in printed


# -- one that is written from the contract alone ---------------------------------------------------


@pytest.fixture
def _agent(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = subprocess_launcher.unidev_register_launcher()
    monkeypatch.setattr(finding, "launcher_specs", lambda: {spec.name: spec})


def test_it_imports_the_contract_and_the_standard_library_alone() -> None:
    tree = ast.parse(Path(subprocess_launcher.__file__).read_text(encoding="utf-8"))
    modules = {
        name
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [each.name for each in node.names]
        )
    }
    assert modules - sys.stdlib_module_names == {"unidev.contract"}


@pytest.mark.usefixtures("_agent")
def test_a_host_that_is_lost_ends_the_run_and_its_workers(
    mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = subprocess_launcher.Agent.start

    def start_and_kill(self: Any, jobs: Any, helpers: Any) -> None:
        start(self, jobs, helpers)
        assert len(psutil.Process(self.agent.pid).children()) >= 2
        self.agent.kill()

    monkeypatch.setattr(subprocess_launcher.Agent, "start", start_and_kill)
    with pytest.raises(unidev.WorkerFailedError, match=r"(?s)was killed by SIGKILL.*its agent has"):
        unidev.run(run_samples.failing, "late", backend="numpy", launcher="agent")
