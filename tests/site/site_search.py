"""The site's own search, its scripts run by V8 as a browser runs them."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BROWSER = """
var SPHINX_HIGHLIGHT_ENABLED = false;
var window = globalThis;
var document = {getElementById: () => null};
var _ready = (callback) => undefined;
var _ = (text) => text;
"""
"""What the scripts ask a browser for, and do not need to find pages."""
SCRIPTS = (
    "_static/base-stemmer.js", "_static/english-stemmer.js", "_static/searchtools.js",
    "_static/language_data.js", "searchindex.js",
)  # fmt: skip
"""In newer versions of Sphinx the stemmer has files of its own."""
FIND = "JSON.stringify(Search._performSearch(...Search._parseQuery({query})))"


class Found(NamedTuple):
    """A result as the site lists it."""

    page: str
    title: str
    score: float


class SiteSearch:
    """Searches a built site."""

    def __init__(self, context: Any) -> None:
        self._context = context

    def results(self, query: str) -> list[Found]:
        """From the best on, as they are shown."""
        made = self._context.eval(FIND.format(query=json.dumps(query)))
        rows = reversed(json.loads(str(made)))  # the page takes them from the end
        return [Found(page, title, score) for page, title, _, _, score, *_ in rows]


@contextmanager
def search_of(folder: Path) -> Iterator[SiteSearch]:
    """The search of the site in ``folder``; V8's threads end with the block."""
    from py_mini_racer import MiniRacer

    with MiniRacer() as context:
        context.eval(BROWSER)
        for name in SCRIPTS:
            if (folder / name).is_file():
                context.eval((folder / name).read_text(encoding="utf-8"))
        yield SiteSearch(context)
