"""The modules that a profile is about: those of a plugin, and those of the core."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CORE = {
    "tensor": ("unidev/tensors",),
    "train": ("unidev/models",),
    "multi": ("unidev/parallel/devices",),
    "interop": ("unidev/tensors/converting.py",),
}
"""Mutated where NumPy's or PyTorch's backend is the judge."""
CORE_JUDGES = ("numpy", "torch")

_PROFILES = {
    "autograd": "train", "models": "train", "nn": "train",
    "collectives": "multi", "group": "multi",
    "interop": "interop",
    # No profile judges these: the witness itself, builds and their locks, advice on installing.
    "probe": None, "simulator": None, "deep_copy": None,
    "installation": None, "importing": None,
}  # fmt: skip
"""By the name of a module or folder of a plugin; any other belongs to ``tensor``."""


def source_folder(backend: str) -> str:
    """The folder of the backend's plugin, from the root of the checkout."""
    if backend == "numpy":
        return "unidev/backends/numpy_backend"
    return f"plugins/unidev-{backend}/src/unidev_{backend}"


def modules(root: Path, backend: str, profile: str) -> list[Path]:
    """The modules to mutate, relative to ``root``, sorted."""
    own = root / source_folder(backend)
    found = [path for path in _python(own) if _profile_of(path.relative_to(own)) == profile]
    if backend in CORE_JUDGES:
        core = [path for place in CORE[profile] for path in _python(root / place)]
        # Each module has one profile.
        others = {
            root / place for key, places in CORE.items() if key != profile for place in places
        }
        found += [path for path in core if path not in others]
    return sorted(path.relative_to(root) for path in found)


def _profile_of(path: Path) -> str | None:
    # The last name that says it: `memory/interop.py` is about converting.
    names = [path.with_suffix("").name, *(parent.name for parent in path.parents)]
    if any(_PROFILES.get(name, "") is None for name in names):  # such as `probe/models.py`
        return None
    return next((_PROFILES[name] for name in names if name in _PROFILES), "tensor")


def _python(place: Path) -> Iterator[Path]:
    yield from place.rglob("*.py") if place.is_dir() else [place]
