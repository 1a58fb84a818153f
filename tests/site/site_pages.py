"""The pages of the built documentation site, as a browser sees them."""

from __future__ import annotations

import os
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parents[2]
_OF_NO_TEXT = {"script", "style", "code", "pre", "unidev"}
_WITHOUT_END = {"area", "br", "col", "hr", "img", "input", "link", "meta", "source", "wbr"}


class Page(HTMLParser):
    """The anchors, the links and the words in tables of one page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.in_tables: list[str] = []  # but code, and what unidev shows in notebooks
        self._open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attrs if value is not None}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        self.links += [given[name] for name in ("href", "src") if name in given]
        if tag not in _WITHOUT_END:
            self._open.append("unidev" if given.get("class") == "unidev" else tag)

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() not in (tag, "unidev"):
            pass

    def handle_data(self, data: str) -> None:
        if "table" in self._open and _OF_NO_TEXT.isdisjoint(self._open):
            self.in_tables.append(data)


@cache
def page_at(path: Path) -> Page:
    return Page(path.read_text(encoding="utf-8"))


def built_site() -> Path:
    """The folder of the site, ``BUILT_SITE``; skip the test where none was built for it."""
    if "BUILT_SITE" not in os.environ:
        pytest.skip("no site was built for this test: nox -s docs")
    folder = Path(os.environ["BUILT_SITE"])
    assert (folder / "index.html").is_file()
    return folder


def broken_links(folder: Path) -> list[str]:
    """Links within the site that lead to no page or no place on it, as ``page: link``."""
    found = []
    for path in sorted(folder.rglob("*.html")):
        for link in page_at(path).links:
            if ":" in link.partition("/")[0]:  # https:, mailto:, data:
                continue
            target, _, anchor = unquote(link).partition("#")
            target = target.partition("?")[0]
            other = Path(os.path.normpath(path.parent / target)) if target else path
            if other.is_dir():
                other /= "index.html"
            is_there = other.is_file() and (
                not anchor or other.suffix != ".html" or anchor in page_at(other).anchors
            )
            if not is_there:
                found.append(f"{path.relative_to(folder).as_posix()}: {link}")
    return found
