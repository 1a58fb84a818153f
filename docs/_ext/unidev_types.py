"""What autodoc needs to know of unidev: its short names of types, and what stands for "cannot"."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx import addnodes
from sphinx.util import logging
from sphinx.util.inspect import safe_getattr

from unidev.contract.optional import Unsupported

if TYPE_CHECKING:
    from sphinx.application import Sphinx

log = logging.getLogger(__name__)

TYPES_PAGE = "reference/types"
TYPES = {
    "Array", "Children", "CombineMoments", "Contained", "ContainerFunctions", "Copy", "DeviceLike",
    "Dtype", "Model", "Opt", "Optimizer", "Pair", "Part", "Shape", "Tensor",
}  # fmt: skip
"""Short names in signatures, which that page explains."""

GIVEN = {
    "unidev.Group", "unidev.bench.report.DeviceReport", "unidev.bench.report.Trial",
    "unidev.contract.memory.DriverMemory", "unidev.parallel.batches.prefetching.Prefetched",
    "unidev.parallel.batches.sharding.Shard",
    "unidev.tensors.peak_memory.PeakMemory", "unidev.tracing.transfer.Kind",
    "unidev.tracing.record.LineTotal", "unidev.tracing.trace.Trace",
}  # fmt: skip
"""Classes whose objects unidev makes, and users do not."""


class _Reason:
    """Stands for ``Unsupported``, whose attributes all raise, while autodoc looks at it."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def __repr__(self) -> str:
        return f"unsupported({self._reason!r})"


def attribute_of(holder: Any, name: str, *default: Any) -> Any:
    """``getattr`` for autodoc."""
    found = safe_getattr(holder, name, *default)
    return _Reason(found.reason) if type(found) is Unsupported else found


def resolve(app: Sphinx, env: Any, node: Any, content: nodes.Element) -> nodes.Node | None:
    """A link to the page of types, for its aliases."""
    if node.get("refdomain") != "py" or node["reftarget"] not in TYPES:
        return None
    target = app.builder.get_relative_uri(env.docname, TYPES_PAGE)
    link = nodes.reference("", "", internal=True, refuri=f"{target}#{node['reftarget'].lower()}")
    link += content
    return link


def keep_colons(kind: str, lines: list[str], kept: dict[int, list[str]]) -> None:
    """Napoleon takes an attribute's ``the size; None: not reported`` for a type and a text."""
    if kind in ("attribute", "property", "data") and not any(map(_is_heading, lines)):
        kept[id(lines)] = list(lines)


def _is_heading(line: str) -> bool:
    return line.rstrip() in ("Raises:", "Returns:", "Args:", "Example:")


def check_examples(_app: Sphinx, doctree: nodes.document) -> None:
    """Warn, which is an error, of a docstring whose indented example is read as a quotation."""
    for content in doctree.findall(addnodes.desc_content):
        for quotation in content.findall(nodes.block_quote):
            log.warning(
                "an example needs `::` before it: %s", quotation.astext()[:60], location=content
            )


def without_constructor(_app: Sphinx, what: str, name: str, *_rest: Any) -> tuple[str, None] | None:
    """No arguments for a class whose objects users are given."""
    return ("", None) if what == "class" and name in GIVEN else None


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect all of it."""
    kept: dict[int, list[str]] = {}

    def before(
        _app: Any, what: str, _name: str, _obj: Any, _options: Any, lines: list[str]
    ) -> None:
        keep_colons(what, lines, kept)

    def after(
        _app: Any, _what: str, _name: str, _obj: Any, _options: Any, lines: list[str]
    ) -> None:
        lines[:] = kept.pop(id(lines), lines)

    app.connect("autodoc-process-docstring", before, priority=400)  # napoleon: 500
    app.connect("autodoc-process-docstring", after, priority=600)
    app.connect("autodoc-process-signature", without_constructor)
    app.add_autodoc_attrgetter(type, attribute_of)
    app.connect("doctree-read", check_examples)
    app.connect("missing-reference", resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
