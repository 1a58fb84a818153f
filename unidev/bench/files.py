"""The files of one bench, each written atomically."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from unidev.bench.findings import crossovers
from unidev.bench.page import to_html
from unidev.bench.picture import to_png
from unidev.bench.results import to_document
from unidev.support.atomic_file import write_whole
from unidev.support.child_processes import noticing_interruption

if TYPE_CHECKING:
    from pathlib import Path

    from unidev.bench.results import Bench
    from unidev.support.child_processes import Interruption

NAME = "bench"


def to_json(bench: Bench, findings: list[str]) -> str:
    """Everything that was measured, as JSON."""
    document = to_document(bench, findings, crossovers(bench))
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def contents(bench: Bench, findings: list[str], table: str) -> dict[str, bytes]:
    """The name and content of each file."""
    return {
        f"{NAME}.txt": table.encode(),
        f"{NAME}.json": to_json(bench, findings).encode(),
        f"{NAME}.html": to_html(bench, findings).encode(),
        f"{NAME}.png": to_png(bench),
    }


def write(folder: Path, made: dict[str, bytes]) -> Interruption:
    """Write all files; Ctrl-C is deferred and returned, so that no file is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    with noticing_interruption() as stop:
        for name, data in made.items():
            write_whole(folder / name, data)
    return stop
