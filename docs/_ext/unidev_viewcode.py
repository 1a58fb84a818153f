"""The links from a module's source back to the reference.

Sphinx takes all objects of a module for members of the one module that the first of them was
documented as: ``unidev.Recording`` for what the reference has as ``unidev.contract.Recording``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.application import Sphinx

_BACK = re.compile(r'<a class="viewcode-back" href="([^"#]*)#([^"]*)">.*?</a>')


def correct(
    app: Sphinx, page: str, _template: str, context: dict[str, Any], _tree: nodes.document | None
) -> None:
    """Correct the links on one page of source, and remove those of what has no entry."""
    if not page.startswith("_modules/") or "body" not in context:
        return
    objects = app.env.domains.python_domain.objects

    def corrected(link: re.Match[str]) -> str:
        address, anchor = link.groups()
        name = anchor.removeprefix("unidev.")
        known = (anchor, f"unidev.contract.{name}", f"unidev.errors.{name}")
        for each in known:
            if each in objects and f"{objects[each].docname}.html" in address:
                return link[0].replace(f"#{anchor}", f"#{objects[each].node_id}")
        return ""

    context["body"] = _BACK.sub(corrected, context["body"])


def setup(app: Sphinx) -> dict[str, bool]:
    """Correct each page before it is written."""
    app.connect("html-page-context", correct)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
