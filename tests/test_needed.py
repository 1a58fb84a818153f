"""A tool that is missing leaves tests out, but not in nox's sessions, where it is an error."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest
from needed import NEEDED_BY, TOOLS, missing_by, missing_tool

pytest_plugins = ("pytester",)

ROOT = Path(__file__).parents[1]
SESSIONS = (ROOT / "noxfile.py").read_text(encoding="utf-8")


def test_a_tool_that_an_import_lacks_is_named_with_its_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("TOOLS_REQUIRED", raising=False)
    monkeypatch.setitem(TOOLS, "no_such", "run it")
    wrapped = ImportError("a file cannot be imported")
    wrapped.__cause__ = ModuleNotFoundError("no module", name="no_such.part")
    assert missing_tool(wrapped) == "not installed: no_such (run it)"


@pytest.mark.parametrize("name", ["unidev.not_there", "numpy.not_there", "no_tool"])
def test_what_is_no_tool_stays_an_error(name: str) -> None:
    assert missing_tool(ModuleNotFoundError("no module", name=name)) is None


def test_a_file_without_its_tool_is_left_out_and_the_summary_says_so(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TOOLS_REQUIRED", raising=False)
    monkeypatch.setitem(TOOLS, "no_such", "run it")
    pytester.makepyfile(test_one="import no_such", test_two="def test(): pass")
    pytester.mkdir("sub").joinpath("test_three.py").write_text(
        "import pytest\n"
        "@pytest.mark.parametrize('x', [1, 2])\n"
        "def test(x): pytest.skip('elsewhere')\n"
    )
    result = pytester.runpytest_inprocess("-p", "left_out")
    result.assert_outcomes(passed=1, skipped=3)
    result.stdout.fnmatch_lines(
        ["2 tests of sub/test_three.py: elsewhere",
         "test_one.py: not installed: no_such (run it)"], consecutive=True
    )  # fmt: skip
    monkeypatch.setenv("TOOLS_REQUIRED", "1")
    assert (
        pytester.runpytest_inprocess("-p", "left_out", "test_one.py").ret
        == pytest.ExitCode.INTERRUPTED
    )


def test_what_children_need_is_that_of_a_folder_or_a_file_of_tests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("TOOLS_REQUIRED", raising=False)
    assert [path for path in NEEDED_BY if not (ROOT / path).exists()] == []
    assert set().union(*NEEDED_BY.values()) <= TOOLS.keys()
    monkeypatch.setitem(TOOLS, "no_such", "run it")
    monkeypatch.setitem(NEEDED_BY, "tests/some", ("pytest", "no_such"))
    assert missing_by("tests/some/test_it.py") == "not installed: no_such (run it)"
    assert missing_by("tests/other/test_it.py") is None


def test_each_library_that_tests_import_has_a_command() -> None:
    def imported(tree: ast.AST) -> set[str]:
        names = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names.update(each.name for each in node.names)
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names.add(node.module or "")
        return {name.partition(".")[0] for name in names}

    folders = [*(ROOT / "tests").rglob("*.py"), *(ROOT / "tools").rglob("*.py")]
    ours = {path.stem for path in folders} | {path.parent.name for path in folders}
    ours |= {path.stem for path in (ROOT / "examples").rglob("*.py")} | {"noxfile", "toy_backend"}
    files = [
        path for path in (ROOT / "tests").rglob("*.py") if "mutants" not in path.parts
    ]  # which are written for each framework
    found = set().union(*(imported(ast.parse(path.read_bytes())) for path in files))
    of_core = {
        "filelock",
        "numpy",
        "optree",
        "packaging",
        "pytest",
        "safetensors",
        "unidev",
        "xxhash",
    }
    missing = found - set(sys.stdlib_module_names) - ours - of_core - TOOLS.keys()
    assert missing <= {
        "keras",
        "nox",
        "tomllib",
        "torch",
        "unidev_pytest",
        "unidev_torch",
        "typing_extensions",
    }, missing


def test_nox_requires_each_group() -> None:
    files = [*ROOT.glob("tests/**/*.py"), *ROOT.glob("plugins/*/tests/**/*.py")]
    sources = [path.read_text(encoding="utf-8") for path in files]
    users = [
        text for text in sources if re.search(r"^from needed import .*\bneed\b", text, re.MULTILINE)
    ]
    groups = {group for text in users for group in re.findall(r'\bneed\("(\w+)"', text)}
    required = set(re.findall(r'"(\w+_REQUIRED)": "1"', SESSIONS))
    groups.add("mutation")  # of `missing_tool`
    assert {f"{group.upper()}_REQUIRED" for group in groups} == required
    in_all = SESSIONS.partition("\nIN_TESTS = {")[2].partition("\n}")[0]
    assert "TOOLS_REQUIRED" in in_all
    runs = re.findall(r"session\.run\((?:[^()]|\([^()]*\))*\)", SESSIONS)
    assert runs
    assert [run for run in runs if "*PYTEST" in run and "env=" not in run] == []


def test_no_test_leaves_itself_out_by_other_means() -> None:
    found = [
        str(path.relative_to(ROOT))
        for folder in ("tests", "plugins")
        for path in (ROOT / folder).rglob("*.py")
        if "import" + "orskip" in path.read_text(encoding="utf-8")
    ]
    assert found == []
