"""What the documents say is so."""

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from page_examples import BLOCKS, PAGES, PROGRAMS, blocks_of

import unidev
from unidev import contract, nn
from unidev.system import settings

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted(
    path
    for folder in ("*", "docs/**/*", "examples/**/*", "plugins/*/README", ".github/*")
    for path in ROOT.glob(f"{folder}.md")
    if "_build" not in path.parts  # the site has each page as Markdown, too
)
ON_NUMPY = [
    pytest.param(program, id=f"{program.page}:{program.line}")
    for program in PROGRAMS
    if "numpy" in program.backends
]


@pytest.mark.parametrize("simulated", ["0", "2"])
@pytest.mark.parametrize("program", ON_NUMPY)
def test_a_program_on_a_page_runs_with_and_without_gpus(program, simulated, tmp_path):
    environment = {**os.environ, "UNIDEV_BACKEND": "numpy", "UNIDEV_SIMULATE": simulated}
    subprocess.run([sys.executable, "-c", program.code], check=True, env=environment, cwd=tmp_path)


def test_the_guides_have_programs():
    assert len(ON_NUMPY) > 20


def test_each_program_with_several_modules_is_run_where_they_are():
    """By tests/libraries/test_page_programs.py and plugins/together/test_page_programs.py."""
    found = {tuple(sorted(program.modules)) for program in PROGRAMS if program.modules}
    assert found == {("torch", "transformers"), ("tensorflow", "torch")}


def test_each_block_has_a_language():
    assert [f"{each.page}:{each.line}" for each in BLOCKS if not each.language] == []


@pytest.mark.parametrize("page", ["docs/index.md", "docs/learn/install.md"])
def test_code_on_a_page_for_beginners_is_not_cut_off(page):
    """The site's column has room for 88 characters; README's, and a phone's, for fewer."""
    lines = [line for block in BLOCKS if block.page == page for line in block.code.splitlines()]
    assert [line for line in lines if len(line) > 76] == []


def test_a_note_on_a_block_is_known():
    """A misspelt note would make a program of what cannot run, or hide it."""
    for page in PAGES:
        notes = re.findall(r"<!-- (.*?) -->(?=\n+ *```python)", page.read_text())
        known = [each.note for each in blocks_of(page) if each.language == "python" and each.note]
        assert notes == known


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_to_a_file_leads_somewhere(path):
    links = re.findall(r"\]\((?!https?://|#)([^)#]+)", path.read_text())
    assert [link for link in links if not (path.parent / link).exists()] == []


def test_the_readme_names_every_public_function():
    named = set(re.findall(r"`([a-z_]+)`", (ROOT / "README.md").read_text()))
    functions = {name for name in unidev.__all__ if name.islower()}
    selection = {"active_backend", "list_backends", "use_backend", "set_backend", "simulate"}
    for_plugins = {"hookimpl", "part", "unsupported"}
    assert functions - selection - for_plugins <= named


def test_the_page_of_examples_lists_each() -> None:
    page = (ROOT / "examples/README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| \[([\w.]+)\]\(\1\) \|", page, re.MULTILINE)
    programs = {path.name for path in (ROOT / "examples").glob("*.py")}
    folders = {path.parent.name for path in (ROOT / "examples").glob("*/*.md")}
    assert sorted(listed) == sorted(programs | folders)


def test_the_site_has_a_page_for_each_example() -> None:
    """It shows the program itself, so that no link from it leads elsewhere."""
    for path in (ROOT / "examples").glob("*.py"):
        page = (ROOT / f"docs/examples/{path.stem}.md").read_text(encoding="utf-8")
        assert f"{{literalinclude}} ../../examples/{path.name}\n" in page
        printed = path.with_suffix(".expected")
        assert (f"../../examples/{printed.name}\n" in page) == printed.is_file()


def test_the_site_explains_every_environment_variable():
    texts = [path.read_text(encoding="utf-8") for path in ROOT.glob("unidev/**/*.py")]
    named = {name for text in texts for name in re.findall(r"\bUNIDEV_[A-Z_]+\b", text)}
    assert named == {*settings.SETTINGS}
    for name in named:  # a table's row that nothing reads would be a promise
        word = re.compile(rf"\b{name.removeprefix('UNIDEV_')}\b")
        assert sum(bool(word.search(text)) for text in texts) > 1, name


def test_the_reference_has_every_public_name_once():
    pages = "".join(path.read_text() for path in (ROOT / "docs/reference").glob("*.md"))
    named = Counter(re.findall(r"^\.\. (?:auto|py:)\w+:: unidev\.(\w+)$", pages, re.MULTILINE))
    assert named == Counter(unidev.__all__)


def test_the_reference_has_every_name_of_the_contract_and_of_nn_once():
    page = (ROOT / "docs/reference/plugins.md").read_text()
    named = Counter(re.findall(r"^\.\. auto\w+:: unidev\.contract\.(\w+)$", page, re.MULTILINE))
    assert named == Counter(set(contract.HOMES) - set(unidev.__all__))
    page = (ROOT / "docs/reference/models.md").read_text()
    for module in (nn, nn.functional):
        name = re.escape(module.__name__)
        named = Counter(re.findall(rf"^\.\. auto\w+:: {name}\.(\w+)$", page, re.MULTILINE))
        assert named == Counter(set(module.__all__) - {"functional"})


def test_a_commit_is_checked_by_the_ruff_that_checks_all_tests() -> None:
    committed = re.search(r"rev: v(\S+)", (ROOT / ".pre-commit-config.yaml").read_text())
    tested = re.search(r'"ruff==(\S+)"', (ROOT / "pyproject.toml").read_text())
    assert committed is not None
    assert tested is not None
    assert committed[1] == tested[1]
