"""What is installed does not count for the core's tests: neither here nor in their children."""

from __future__ import annotations

import os
import sys
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest
from hiding import FOLDER, ROOT, hide, is_hidden_from

from unidev.backends.discovery import find_plugins

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from core_fixtures import RunPython


@pytest.fixture(params=["site-packages", "elsewhere"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A framework, its plugin and a module, as pip installs them, or as a test makes them."""
    folder = tmp_path / request.param
    information = folder / "acme-1.0.dist-info"
    information.mkdir(parents=True)
    (folder / "torch.py").touch()
    (folder / "helper.py").touch()
    (folder / "acme.py").write_text("raise ImportError('tried')")
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[unidev]\nacme = acme\n")
    return folder


@pytest.fixture
def shown() -> Iterator[None]:
    """What is installed can be seen, as in ``tests/everywhere``."""
    hide(hidden=False)
    yield
    hide(hidden=True)


def _seen(folder: Path) -> tuple[bool, bool, bool]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.delitem(sys.modules, "torch", raising=False)  # which another test may have loaded
        patch.setattr("unidev.backends.discovery._found", None)
        is_plugin = "acme" in {plugin.name for plugin in find_plugins()}
        assert is_plugin == ("acme" in entry_points(group="unidev").names)
        return is_plugin, _is_in("torch", folder), _is_in("helper", folder)


def _is_in(name: str, folder: Path) -> bool:
    spec = find_spec(name)
    return spec is not None and str(spec.origin).startswith(str(folder))


def test_this_process_sees_what_tests_make_alone(folder: Path) -> None:
    is_made = folder.name == "elsewhere"
    assert _seen(folder) == (is_made, is_made, True)


def test_tests_about_what_is_installed_see_it(folder: Path, shown: None) -> None:
    assert _seen(folder) == (True, True, True)


def test_a_child_sees_what_tests_make_alone(folder: Path, run_python: RunPython) -> None:
    path = os.pathsep.join([os.environ["PYTHONPATH"], str(folder)])
    program = """
        from importlib.util import find_spec
        from unidev.backends.discovery import find_plugins
        print([name for name in ("helper", "torch") if find_spec(name)])
        print([plugin.name for plugin in find_plugins()])
    """
    made = ["torch"] * (folder.name == "elsewhere")
    plugins = ["numpy"] + ["acme"] * (folder.name == "elsewhere")
    assert run_python(program, PYTHONPATH=path) == f"{['helper', *made]}\n{plugins}"


def test_a_sitecustomize_of_the_environment_is_run(tmp_path: Path, run_python: RunPython) -> None:
    (tmp_path / "sitecustomize.py").write_text("MINE = 1")
    path = os.pathsep.join([FOLDER, str(tmp_path)])
    assert run_python("import sitecustomize; print(sitecustomize.MINE)", PYTHONPATH=path) == "1"


def test_modules_of_a_framework_are_set_aside_and_come_back(shown: None) -> None:
    sys.modules["torch.no_such"] = module = type(sys)("torch.no_such")
    hide(hidden=True)
    assert "torch.no_such" not in sys.modules
    hide(hidden=False)
    assert sys.modules.pop("torch.no_such") is module


@pytest.mark.parametrize(
    ("path", "hidden"),
    [
        ("tests/cli/test_launch.py", True),
        ("tests/test_docs.py", True),
        ("tests/everywhere/test_examples.py", False),
        ("tests/stand_in/test_stand_in.py", False),
        ("plugins/unidev-torch-simulator/tests/test_mpirun.py", False),
        ("plugins/unidev-conformance/tests/test_conformance_report.py", True),
        ("plugins/unidev-conformance/src/unidev_conformance/checks/tensor/test_copy.py", False),
    ],
)
def test_the_cores_tests_are_those_that_see_nothing(path: str, hidden: bool) -> None:
    assert is_hidden_from(ROOT / path) == hidden
