"""Exports a trace as JSON, and in the trace event format of Perfetto and ``chrome://tracing``.

https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from unidev.support.atomic_file import write_whole

if TYPE_CHECKING:
    from unidev.tracing.trace import Trace, Transfer

SCHEMA = 1
"""The version of the JSON schema; raised by changes that break readers."""


def to_json(trace: Trace, path: str | os.PathLike[str] | None) -> str:
    """The trace as JSON; also written to ``path``."""
    from unidev.support.version import __version__

    text = json.dumps(
        {
            "schema": SCHEMA,
            "unidev": __version__,
            "total_bytes": trace.total_bytes,
            "total_seconds": trace.total_seconds,
            "is_seconds_real": trace.is_seconds_real,
            "transfers": [_transfer(each, trace.start) for each in trace.transfers],
            "lines": [
                {
                    "line": each.line._asdict(),
                    "count": each.count,
                    "nbytes": each.nbytes,
                    "seconds": each.seconds,
                    "advice": each.advice,
                }
                for each in trace.by_line()
            ],
            "blind_spots": {name: dict(spots) for name, spots in trace.blind_spots.items()},
            "not_seen": trace.not_seen,
        },
        indent=1,
        ensure_ascii=False,
    )
    if path is not None:
        write_whole(path, text + "\n")
    return text


def to_chrome_trace(trace: Trace, path: str | os.PathLike[str]) -> None:
    """One track for each route, such as ``gpu:0 to cpu:0``, and one event for each transfer."""
    process = os.getpid()
    tracks: dict[str, int] = {}
    events = []
    for each in trace.transfers:
        track = tracks.setdefault(_route(each), len(tracks) + 1)
        events.append(
            {
                "name": each.operation,
                "cat": "transfer",
                "ph": "X",
                "ts": (each.start - trace.start) * 1e6,
                "dur": each.seconds * 1e6,
                "pid": process,
                "tid": track,
                "args": {**_transfer(each, trace.start), "line": str(each.line)},
            }
        )
    seconds = "real" if trace.is_seconds_real else "of simulated devices, not of a real GPU"
    document = {
        "traceEvents": [
            _name("process_name", process, 0, "transfers between devices"),
            *(_name("thread_name", process, track, route) for route, track in tracks.items()),
            *events,
        ],
        "displayTimeUnit": "ms",
        "otherData": {"seconds": seconds},
    }
    write_whole(path, json.dumps(document, ensure_ascii=False))


def _transfer(transfer: Transfer, start: float) -> dict[str, Any]:
    fields = transfer._asdict()
    is_explicit = fields.pop("is_explicit")
    return {
        **fields,
        "is_asked": is_explicit,  # its name in the schema
        "source": str(transfer.source),
        "target": str(transfer.target),
        "backend": transfer.source.backend,
        "line": transfer.line._asdict(),
        "start": transfer.start - start,
    }


def _route(transfer: Transfer) -> str:
    return f"{transfer.source} to {transfer.target} ({transfer.thread})"


def _name(kind: str, process: int, track: int, name: str) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "pid": process, "tid": track, "args": {"name": name}}
