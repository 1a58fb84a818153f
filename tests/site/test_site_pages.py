"""The pages of the documentation site, once ``nox -s docs`` has built it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from page_examples import GUIDES
from site_pages import ROOT, broken_links, built_site, page_at

import unidev

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(name="site", scope="module")
def _site() -> Path:
    return built_site()


def test_every_link_and_anchor_leads_somewhere(site: Path) -> None:
    assert broken_links(site) == []


def test_no_page_links_to_the_repository_elsewhere_or_shows_a_literal_backtick(site: Path) -> None:
    wrong = []
    for path in site.rglob("*.html"):
        page = page_at(path)
        wrong += [(path, link) for link in page.links if "/unidev-core/" in link]
        wrong += [(path, text) for text in page.in_tables if "`" in text]
    assert wrong == []


def test_each_page_is_there_as_markdown_and_listed_for_programs(site: Path) -> None:
    made = {path.relative_to(site).as_posix() for path in site.rglob("*.html.md")}
    docs = ROOT / "docs"
    assert made == {path.relative_to(docs).with_suffix(".html.md").as_posix() for path in GUIDES}
    text = (site / "llms.txt").read_text(encoding="utf-8")
    assert {*re.findall(r"\]\((\S+)\): \S", text)} == made - {"index.html.md"}


def test_each_notebook_is_there_with_what_it_printed(site: Path) -> None:
    for path in (ROOT / "docs" / "notebooks").glob("*.md"):
        made = json.loads((site / f"notebooks/{path.stem}.ipynb").read_text(encoding="utf-8"))
        assert any(cell.get("outputs") for cell in made["cells"])
        assert f"{path.stem}.ipynb" in page_at(site / f"notebooks/{path.stem}.html").links


def test_pages_as_markdown_link_to_one_another(site: Path) -> None:
    broken = [
        f"{path.relative_to(site)}: {link}"
        for path in site.rglob("*.html.md")
        for link in re.findall(r"\]\(([\w./-]+\.html\.md)", path.read_text(encoding="utf-8"))
        if not (path.parent / link).is_file()
    ]
    assert broken == []


def test_the_markdown_of_the_reference_has_the_docstrings(site: Path) -> None:
    text = (site / "reference" / "tensors.html.md").read_text(encoding="utf-8")
    assert "### copy_to(" in text
    first = (unidev.copy_to.__doc__ or "").splitlines()[0]
    assert first.replace("``", "`") in text


def test_the_site_shows_its_version(site: Path) -> None:
    assert f"unidev {unidev.__version__}" in (site / "index.html").read_text(encoding="utf-8")
