"""What the metadata of every distribution takes from this repository while it is built.

The version stands in ``unidev/system/version.py`` and the repository's address in its
``pyproject.toml``: the plugins get both from there, and ``unidev-core`` of the same version as a
dependency. The README becomes the description on the package index, where only links with a full
address lead somewhere.

An sdist of a plugin has no such file: its ``PKG-INFO`` has the results, and its ``hatch.toml``
(``plugins/sdist_hatch.toml``) no hook.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hatch_fancy_pypi_readme import hooks  # hatchling expects one hook among the names here
from hatchling.metadata.plugin.interface import MetadataHookInterface

if sys.version_info >= (3, 11):
    import tomllib
else:  # hatchling requires it there
    import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]

if TYPE_CHECKING:
    from typing import Any

ROOT = Path(__file__).resolve().parent


class Metadata(MetadataHookInterface):
    """Fills in what is dynamic: the description, and for a plugin what it shares with the core."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Change ``metadata``, the table ``project``, in place."""
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        folder = Path(self.root).resolve()
        # Not in each pyproject.toml, since the address stands in one.
        readme = description(folder / "README.md", project["urls"]["Repository"])
        hooks.FancyReadmeMetadataHook(self.root, readme).update(metadata)
        if folder != ROOT:
            metadata["urls"] = project["urls"]
            metadata["authors"] = project["authors"]
            version = metadata["version"]
            core = f"{project['name']}=={version}"
            metadata["dependencies"] = [*self.config.get("dependencies", ()), core]
            extras = self.config.get("optional-dependencies")
            if extras is not None:
                metadata["optional-dependencies"] = {
                    name: [each.format(version=version) for each in needed]
                    for name, needed in extras.items()
                }


def description(readme: Path, repository: str) -> dict[str, Any]:
    """The settings of hatch-fancy-pypi-readme: links lead to the tag of the version.

    A link starts at the repository's root, as ``docs/x.md`` in the core's README and
    ``../../docs/x.md`` in a plugin's. ``tests/distributions/test_metadata.py`` checks that each
    link of the result leads somewhere, and that no code has changed.
    """
    return {
        "content-type": "text/markdown",
        "fragments": [{"path": str(readme)}],
        "substitutions": [
            {
                "pattern": r"\]\((?!https://)(?:\.\./\.\./)?([^)]+)\)",
                "replacement": rf"]({repository}/blob/v$HFPR_VERSION/\1)",
            }
        ],
    }
