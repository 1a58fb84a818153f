"""The suite as a stranger has it: from a wheel, in a folder that is empty, or hostile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from unidev_conformance.running.catalog import all_checks

if TYPE_CHECKING:
    from distributions.conftest import Installed

pytestmark = pytest.mark.slow

MUTANTS = Path(__file__).parents[1]
"""The folder that has the package ``mutants``."""
HOSTILE = """\
[pytest]
addopts = -k x --no-such-option
python_files = nothing
"""


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder whose pytest configuration would deselect, or stop, everything."""
    (tmp_path / "pytest.ini").write_text(HOSTILE, encoding="utf-8")
    (tmp_path / "conftest.py").write_text("raise RuntimeError('not yours')\n", encoding="utf-8")
    (tmp_path / "test_x.py").write_text("def test_x():\n    assert False\n", encoding="utf-8")
    return tmp_path


def test_what_is_imported_is_what_the_wheel_installed(installed: Installed, tmp_path: Path) -> None:
    program = "import unidev_conformance.checks as checks; print(checks.__file__)"
    done = installed.run("-c", program, cwd=tmp_path)
    assert Path(done.stdout.strip()).is_relative_to(installed.site)


def test_the_wheel_holds_no_mutant(installed: Installed) -> None:
    package = installed.site / "unidev_conformance"
    names = [path.relative_to(package).as_posix() for path in package.rglob("*")]
    assert "checks/tensor/test_copy.py" in names
    assert not [name for name in names if "mutant" in name]
    texts = [path.read_text(encoding="utf-8") for path in package.rglob("*.py")]
    assert not [text for text in texts if "mutants.mutant" in text or "@mutant(" in text]


def test_conform_runs_every_check_beside_a_hostile_ini(installed: Installed, hostile: Path) -> None:
    report, groups = hostile / "report.json", ("smoke", "devices", "containers", "errors")
    installed.run(
        "-m", "unidev", "conform", "numpy", "--simulate", "2", "--no-host",
        "--only", ",".join(groups), "--report", report,
        cwd=hostile, PYTEST_ADDOPTS="-k x",
    )  # fmt: skip
    results = json.loads(report.read_text(encoding="utf-8"))["results"]
    expected = {check.id for check in all_checks() if check.id.partition(".")[0] in groups}
    assert {each["check"] for each in results} == expected
    assert {each["result"] for each in results} <= {"pass", "unsupported", "not-applicable"}


def test_a_mutant_is_caught_beside_a_hostile_ini(installed: Installed, hostile: Path) -> None:
    check = "copy.disjoint_on_the_same_device"
    report = hostile / "report.json"
    installed.run(
        "-m", "unidev", "conform", "mutant_copy_is_a_view",
        "--simulate", "0", "--only", check, "--report", report,
        cwd=hostile, expected=1, PYTHONPATH=str(MUTANTS), UNIDEV_PLUGINS="mutants:copy_is_a_view",
        UNIDEV_DISABLED_PLUGINS="numpy",
    )  # fmt: skip
    (result,) = json.loads(report.read_text(encoding="utf-8"))["results"]
    assert (result["check"], result["result"]) == (check, "fail")


def test_plain_pytest_finds_the_suite_in_an_empty_folder(
    installed: Installed, tmp_path: Path
) -> None:
    installed.run(
        "-m", "pytest", "-p", "no:cacheprovider", "--pyargs", "unidev_conformance",
        "--unidev-backend", "numpy", "--unidev-simulate", "1",
        "--unidev-only", "copy.zero_d,devices.unique",
        cwd=tmp_path,
    )  # fmt: skip
