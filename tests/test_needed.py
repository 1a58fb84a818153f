"""A tool that is missing leaves tests out, but not in nox's sessions, where it is an error."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from needed import need

ROOT = Path(__file__).parents[1]
SESSIONS = (ROOT / "noxfile.py").read_text(encoding="utf-8")


def test_what_is_installed_is_used() -> None:
    need("tools", "pytest", "numpy.linalg", install="pip install numpy")


def test_what_is_missing_leaves_a_test_out_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOOLS_REQUIRED", raising=False)
    with pytest.raises(pytest.skip.Exception, match=r"not installed: no_such\.part \(run it\)"):
        need("tools", "pytest", "no_such.part", install="run it")


def test_what_is_missing_is_an_error_where_it_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLS_REQUIRED", "1")
    with pytest.raises(pytest.fail.Exception, match=r"not installed: no_such \(run it\)"):
        need("tools", "no_such", install="run it")


def test_nox_requires_each_group() -> None:
    files = [*ROOT.glob("tests/**/*.py"), *ROOT.glob("plugins/*/tests/**/*.py")]
    sources = [path.read_text(encoding="utf-8") for path in files]
    users = [text for text in sources if "\nfrom needed import need\n" in text]
    groups = {group for text in users for group in re.findall(r'\bneed\("(\w+)"', text)}
    required = set(re.findall(r'"(\w+_REQUIRED)": "1"', SESSIONS))
    assert {f"{group.upper()}_REQUIRED" for group in groups} == required
    in_all = SESSIONS.partition("\nIN_TESTS = {")[2].partition("\n}")[0]
    assert "TOOLS_REQUIRED" in in_all
    runs = re.findall(r"session\.run\([^)]*\bIN_TWO\b[^)]*\)", SESSIONS)
    assert runs
    assert [run for run in runs if "env=" not in run] == []


def test_no_test_leaves_itself_out_by_other_means() -> None:
    found = [
        str(path.relative_to(ROOT))
        for folder in ("tests", "plugins")
        for path in (ROOT / folder).rglob("*.py")
        if "import" + "orskip" in path.read_text(encoding="utf-8")
    ]
    assert found == []
