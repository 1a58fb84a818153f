"""What a command writes to stderr besides its progress, which a busy machine makes it report."""

from __future__ import annotations

import re


def without_progress(stderr: str) -> list[str]:
    """The lines of ``stderr``, but for those of ``unidev.system.progress``."""
    return [line for line in stderr.splitlines() if not re.fullmatch(r"unidev: .+: \d+ s", line)]
