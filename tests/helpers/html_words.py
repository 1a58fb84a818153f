"""A piece of HTML as a reader sees it, and what it may contain."""

from __future__ import annotations

from html.parser import HTMLParser

TAGS = {"div", "table", "tr", "th", "td", "br"}
ATTRIBUTES = {"class", "style", "colspan"}


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS, tag
        assert {name for name, _ in attrs} <= ATTRIBUTES, attrs
        style = dict(attrs).get("style") or ""
        # The page's own colours, light or dark; borders in a grey that is seen on both.
        assert "color:" not in style, style
        assert "background" not in style, style
        assert "url(" not in style, style
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data.split()


def words_of(html: str) -> list[str]:
    """Its words in order, once it has been checked: whole, plain and self-contained."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == []
    return reader.words
