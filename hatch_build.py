"""What the metadata of every distribution takes from this repository while it is built.

The version stands in ``unidev/support/version.py`` and the repository's address in its
``pyproject.toml``: the plugins get both from there, and ``unidev-core`` of the same version as a
dependency. The README becomes the description on the package index, where only links with a full
address lead somewhere.

An sdist of a plugin has no such file: its ``PKG-INFO`` has the results, and its ``hatch.toml``
(``plugins/sdist_hatch.toml``) no hook.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hatchling.metadata.plugin.interface import MetadataHookInterface

if sys.version_info >= (3, 11):
    import tomllib
else:  # hatchling requires it there
    import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]

if TYPE_CHECKING:
    from typing import Any

ROOT = Path(__file__).resolve().parent
_CODE_OR_LINK = re.compile(
    r"^(?P<fence> *(?P<marks>`{3,}|~{3,})).*?^ *(?P=marks)"  # a fenced block
    r"|(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`)"
    r"|(?P<before>\]\(<?|^ {0,3}\[[^\]\n]+\]: *<?)(?P<target>[^\s)>]+)",
    re.DOTALL | re.MULTILINE,
)
_HAS_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")
_IMAGES = (".png", ".svg", ".gif", ".jpg", ".jpeg", ".webp")


class Metadata(MetadataHookInterface):
    """Fills in what is dynamic: the description, and for a plugin what it shares with the core."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Change ``metadata``, the table ``project``, in place."""
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        folder = Path(self.root).resolve()
        readme = folder / "README.md"
        text = with_full_addresses(
            readme.read_text(encoding="utf-8"),
            page=readme.relative_to(ROOT).as_posix(),
            repository=project["urls"]["Repository"],
            ref=f"v{metadata['version']}",
        )
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        if folder != ROOT:
            metadata["urls"] = project["urls"]
            metadata["authors"] = project["authors"]
            core = f"{project['name']}=={metadata['version']}"
            metadata["dependencies"] = [*self.config.get("dependencies", ()), core]


def with_full_addresses(text: str, *, page: str, repository: str, ref: str) -> str:
    """``text``, the Markdown of ``page``, with links into ``repository`` as of ``ref``.

    ``page`` is a path in the repository, to which the links in ``text`` are relative. Code, and
    links that have a full address already, stay as they are.

    Raises:
        ValueError: a link leaves the repository.
    """

    def replaced(match: re.Match[str]) -> str:
        target = match["target"]
        if target is None or _HAS_SCHEME.match(target):
            return match[0]
        path, mark, anchor = target.partition("#")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) if path else page
        if path.startswith(".."):
            raise ValueError(f"{page} links to {target}, which is not in the repository")
        kind = "raw" if path.endswith(_IMAGES) else "blob"
        return f"{match['before']}{repository}/{kind}/{ref}/{path}{mark}{anchor}"

    return _CODE_OR_LINK.sub(replaced, text)
