"""Extras of the distribution: a library that is missing is named with its extra before any work.

The core depends on what devices, tensors and models need. Other parts need more libraries, which an
extra brings.
"""

from __future__ import annotations

from importlib.util import find_spec

from unidev.errors import UnsupportedOperation

# Modules without which the extra's part does not run. nvidia-ml-py is not among those of
# `hardware`: without it, NVIDIA's driver is not queried, which the doctor says.
_MODULES = {
    "bench": ("jinja2", "matplotlib"),
    "cli": ("click", "rich", "psutil"),
    "distributed": ("psutil",),
    "hardware": ("psutil",),
}


def is_complete(extra: str) -> bool:
    """Whether all modules that ``extra`` brings are installed."""
    return not _missing(extra)


def lack(extra: str) -> str | None:
    """Which modules of ``extra`` are not installed, and the command that installs them."""
    missing = _missing(extra)
    if not missing:
        return None
    verb = "is" if len(missing) == 1 else "are"
    names = " and ".join(filter(None, [", ".join(missing[:-1]), missing[-1]]))
    return f"{names} {verb} not installed. In unidev's repository, run: pip install '.[{extra}]'"


def check_extra(extra: str, operation: str) -> None:
    """Check that the modules of ``extra`` are installed.

    Raises:
        UnsupportedOperation: one is not; gives the command that installs it.
    """
    reason = lack(extra)
    if reason is not None:
        raise UnsupportedOperation(operation, reason)


def _missing(extra: str) -> list[str]:
    return [each for each in _MODULES[extra] if find_spec(each) is None]
