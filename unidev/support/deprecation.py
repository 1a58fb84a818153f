"""Old spellings of public names, which work for one more release."""

from __future__ import annotations


def deprecated(old: str, new: str) -> None:
    """Warn that ``old`` is now spelled ``new``; the warning points at the line that uses it."""
    import warnings

    warnings.warn(
        f"{old} is deprecated and will be removed in unidev 0.2: use {new}.",
        DeprecationWarning,
        stacklevel=3,
    )
