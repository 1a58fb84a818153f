"""Exports a trace as JSON, and in the trace event format of Perfetto and ``chrome://tracing``.

https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from unidev.tracing.record import Record
    from unidev.tracing.transfer import Transfer

SCHEMA = 1
"""The version of the JSON schema; raised by changes that break readers."""


def json_pieces(trace: Record) -> Iterator[str]:
    """The trace as JSON; each transfer on a line of its own."""
    from unidev.system.version import __version__

    head = {
        "schema": SCHEMA,
        "unidev": __version__,
        "count": trace.count,
        "left_out": trace.left_out,
        "total_bytes": trace.total_bytes,
        "total_seconds": trace.total_seconds,
        "is_seconds_real": trace.is_seconds_real,
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
        "gpu_queries": trace.gpu_queries,
        "late_changes": trace.late_changes,
        "races": [asdict(each) for each in trace.races],
        "exchanges": [
            {**each._asdict(), "start": each.start - trace.start} for each in trace.exchanges
        ],
    }
    return _document(head, "transfers", (_transfer(each, trace.start) for each in trace.transfers))


def chrome_pieces(trace: Record) -> Iterator[str]:
    """One track for each route, such as ``gpu:0 to cpu:0``, and one event for each transfer."""
    seconds = "real" if trace.is_seconds_real else "of simulated devices, not of a real GPU"
    other = {"seconds": seconds, "left_out": trace.left_out}
    return _document({"displayTimeUnit": "ms", "otherData": other}, "traceEvents", _events(trace))


def _document(head: dict[str, Any], name: str, items: Iterable[object]) -> Iterator[str]:
    """An object that has the keys of ``head``, and a list called ``name``."""
    yield json.dumps(head, indent=1, ensure_ascii=False).removesuffix("\n}")
    yield f',\n "{name}": ['
    before = "\n  "
    for item in items:
        yield before + json.dumps(item, ensure_ascii=False)
        before = ",\n  "
    yield "\n ]\n}\n"


def _events(trace: Record) -> Iterator[dict[str, Any]]:
    process = os.getpid()
    tracks: dict[str, int] = {}
    yield _name("process_name", process, 0, "transfers between devices")
    for each in trace.transfers:
        route = f"{each.source} to {each.target} ({each.thread})"
        if route not in tracks:
            tracks[route] = len(tracks) + 1
            yield _name("thread_name", process, tracks[route], route)
        lasting = _lasting(each.start - trace.start, each.seconds, process, tracks[route])
        named = {"name": each.operation, "cat": "transfer"}
        yield named | lasting | {"args": {**_transfer(each, trace.start), "line": str(each.line)}}
    yield from _exchanges(trace, process, len(tracks) + 1)


def _exchanges(trace: Record, process: int, track: int) -> Iterator[dict[str, Any]]:
    """Two events for each exchange: while backward ran, and when it was waited for."""
    if trace.exchanges:
        yield _name("thread_name", process, track, "exchange of gradients with other workers")
    for each in trace.exchanges:
        for what, start, seconds in (
            ("while backward runs", each.start, each.hidden_s),
            ("waited for", each.start + each.hidden_s, each.seconds - each.hidden_s),
        ):
            if seconds:
                lasting = _lasting(start - trace.start, seconds, process, track)
                yield {"name": what, "cat": "exchange"} | lasting


def _lasting(start: float, seconds: float, process: int, track: int) -> dict[str, Any]:
    """An event with a beginning and an end, in microseconds."""
    return {"ph": "X", "ts": start * 1e6, "dur": seconds * 1e6, "pid": process, "tid": track}


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


def _name(kind: str, process: int, track: int, name: str) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "pid": process, "tid": track, "args": {"name": name}}
