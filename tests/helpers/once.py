"""What a module of tests asks once, however many of pytest-xdist's processes share its tests."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, TypeVar

from filelock import FileLock

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

T = TypeVar("T")


def once(factory: pytest.TempPathFactory, name: str, ask: Callable[[Path], T]) -> T:
    """The JSON that ``ask`` returns, given a folder; the first process that comes asks."""
    folder = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # of this run, as each worker has its own folder in it
    answer = folder / f"{name}.json"
    with FileLock(f"{answer}.lock"):
        if not answer.exists():
            answer.write_text(json.dumps(ask(factory.mktemp(name))), encoding="utf-8")
    found: T = json.loads(answer.read_text(encoding="utf-8"))
    return found
