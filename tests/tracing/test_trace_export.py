"""A trace as JSON, and as a file for Perfetto."""

from __future__ import annotations

import json
import os
import threading

import pytest

import unidev

OF_A_TRACE = {
    "schema", "unidev", "count", "left_out", "gpu_queries", "late_changes", "races", "exchanges",
    "total_bytes", "total_seconds", "is_seconds_real", "transfers", "lines", "blind_spots",
    "not_seen",
}  # fmt: skip


@pytest.fixture
def trace(two_gpus):
    x = unidev.ones(3, device="gpu:0")
    with unidev.trace_transfers() as trace:
        unidev.place({"a": unidev.ones(2), "b": unidev.ones(2)}, "gpu:1")
        x.tolist()
        for each in x:
            float(each)
    return trace


def written(transfer, trace):
    """What files have of a transfer, with text for what JSON lacks."""
    found = transfer._asdict()
    found["is_asked"] = found.pop("is_explicit")
    found |= {"source": str(transfer.source), "target": str(transfer.target), "backend": "numpy"}
    found |= {"line": transfer.line._asdict(), "start": transfer.start - trace.start}
    return json.loads(json.dumps(found))


def test_json_has_all_that_the_trace_has(trace, tmp_path):
    trace.to_json(tmp_path / "trace.json")
    document = json.loads(trace.to_json())
    assert json.loads((tmp_path / "trace.json").read_text()) == document
    assert document.keys() == OF_A_TRACE
    assert (document["schema"], document["total_bytes"]) == (1, 16 + 12 + 12)
    assert document["transfers"] == [written(each, trace) for each in trace.transfers]
    assert [each["operation"] for each in document["transfers"]] == [
        "place", "ndarray.tolist", *["ndarray.__float__"] * 3,
    ]  # fmt: skip
    first = trace.by_line()[0]
    assert document["lines"][0] == {
        "line": first.line._asdict(), "count": 3, "nbytes": 12, "seconds": first.seconds,
        "advice": first.advice,
    }  # fmt: skip
    assert document["blind_spots"].keys() == {"unidev", "numpy"}


def test_a_chrome_trace_has_an_event_for_each_transfer_and_a_track_for_each_route(trace, tmp_path):
    trace.to_chrome_trace(tmp_path / "trace.json")
    document = json.loads((tmp_path / "trace.json").read_text())
    # What Perfetto needs: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
    assert document["displayTimeUnit"] == "ms"
    metadata, events = ([e for e in document["traceEvents"] if e["ph"] == ph] for ph in "MX")
    assert {each["name"] for each in metadata} == {"process_name", "thread_name"}
    names = {each["tid"]: each["args"]["name"] for each in metadata}
    thread_name = threading.current_thread().name
    routes = [f"cpu:0 to gpu:1 ({thread_name})", *[f"gpu:0 to cpu:0 ({thread_name})"] * 4]
    for event, transfer, route in zip(events, trace.transfers, routes, strict=True):
        told = {**written(transfer, trace), "line": str(transfer.line)}
        assert (event["args"], names[event["tid"]], event["cat"]) == (told, route, "transfer")
        assert (event["name"], event["pid"]) == (transfer.operation, os.getpid())
        assert (event["ts"], event["dur"]) == (told["start"] * 1e6, told["seconds"] * 1e6)
    assert [each["ts"] for each in events] == sorted(each["ts"] for each in events)
    assert "simulated" in document["otherData"]["seconds"]
