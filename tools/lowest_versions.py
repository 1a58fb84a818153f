"""The oldest versions that a ``pyproject.toml`` declares, as pip's constraints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packaging.requirements import Requirement

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def lowest_versions(project: Mapping[str, Any], extras: Iterable[str] = ()) -> list[str]:
    """``name==oldest`` for each dependency of the table ``project``, and of its ``extras``.

    Of a dependency that is declared twice, the higher minimum counts. Markers are kept.

    Raises:
        ValueError: a dependency has no minimum, or two.
        KeyError: there is no such extra.
    """
    declared = [
        *project.get("dependencies", ()),
        *(each for extra in extras for each in project["optional-dependencies"][extra]),
    ]
    found: dict[tuple[str, str], Any] = {}
    for requirement in map(Requirement, declared):
        key = (requirement.name, str(requirement.marker or ""))
        version = _minimum(requirement)
        found[key] = max(version, found.get(key, version))
    return [
        f"{name}=={version}" + (f"; {marker}" if marker else "")
        for (name, marker), version in found.items()
    ]


def _minimum(requirement: Requirement) -> Any:
    from packaging.version import Version

    bounds = [each for each in requirement.specifier if each.operator in (">=", "==", "~=")]
    if len(bounds) != 1:
        raise ValueError(f"{requirement}: one minimum is needed, as in {requirement.name}>=1.0")
    return Version(bounds[0].version)
