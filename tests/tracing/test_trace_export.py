"""A trace as JSON, and as a file for Perfetto."""

import json
import threading

import jsonschema
import pytest

import unidev

TRANSFER = {
    "type": "object",
    "required": [
        "operation", "source", "target", "backend", "nbytes", "shape", "seconds", "thread",
        "line", "is_asked", "is_seconds_real", "start",
    ],
    "properties": {
        "operation": {"type": "string"},
        "source": {"pattern": "^[a-z]+:[0-9]+$"},
        "target": {"pattern": "^[a-z]+:[0-9]+$"},
        "nbytes": {"type": "integer", "minimum": 0},
        "shape": {"type": ["array", "null"], "items": {"type": "integer"}},
        "seconds": {"type": "number", "minimum": 0},
        "start": {"type": "number", "minimum": 0},
        "is_asked": {"type": "boolean"},
        "is_seconds_real": {"const": False},
    },
}  # fmt: skip
LINE = {
    "type": "object",
    "required": ["file", "number", "function", "source"],
    "properties": {"number": {"type": "integer", "minimum": 1}},
}
DOCUMENT = {
    "type": "object",
    "required": [
        "schema", "unidev", "count", "left_out", "gpu_queries", "late_changes", "exchanges",
        "total_bytes", "total_seconds", "is_seconds_real", "transfers",
        "lines", "blind_spots", "not_seen",
    ],
    "properties": {
        "schema": {"const": 1},
        "transfers": {
            "type": "array",
            "items": {**TRANSFER, "properties": {**TRANSFER["properties"], "line": LINE}},
        },
        "lines": {
            "items": {
                "required": ["line", "count", "nbytes", "seconds", "advice"],
                "properties": {"line": LINE},
            }
        },
        "blind_spots": {"additionalProperties": {"additionalProperties": {"type": "string"}}},
    },
}  # fmt: skip
# https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU: what Perfetto
# needs of a complete event and of metadata.
CHROME = {
    "type": "object",
    "required": ["traceEvents", "displayTimeUnit"],
    "properties": {
        "displayTimeUnit": {"enum": ["ms", "ns"]},
        "otherData": {"type": "object"},
        "traceEvents": {
            "items": {
                "type": "object",
                "required": ["name", "ph", "pid", "tid", "args"],
                "properties": {"pid": {"type": "integer"}, "tid": {"type": "integer"}},
                "oneOf": [
                    {
                        "properties": {
                            "ph": {"const": "X"},
                            "ts": {"type": "number", "minimum": 0},
                            "dur": {"type": "number", "minimum": 0},
                            "args": TRANSFER,
                        },
                        "required": ["ts", "dur", "cat"],
                    },
                    {
                        "properties": {
                            "ph": {"const": "M"},
                            "name": {"enum": ["process_name", "thread_name"]},
                            "args": {"required": ["name"]},
                        }
                    },
                ],
            }
        },
    },
}


@pytest.fixture
def trace(two_gpus):
    x = unidev.ones(3, device="gpu:0")
    with unidev.trace_transfers() as trace:
        unidev.place({"a": unidev.ones(2), "b": unidev.ones(2)}, "gpu:1")
        x.tolist()
        for each in x:
            float(each)
    return trace


def test_json_has_all_that_the_trace_has(trace, tmp_path):
    trace.to_json(tmp_path / "trace.json")
    document = json.loads(trace.to_json())
    assert json.loads((tmp_path / "trace.json").read_text()) == document
    jsonschema.validate(document, DOCUMENT)
    assert document.keys() == set(DOCUMENT["required"])
    assert document["total_bytes"] == 16 + 12 + 12
    assert [each["operation"] for each in document["transfers"]] == [
        "place", "ndarray.tolist", *["ndarray.__float__"] * 3,
    ]  # fmt: skip
    assert document["transfers"][0]["shape"] is None
    assert document["lines"][0]["count"] == 3
    assert document["blind_spots"].keys() == {"unidev", "numpy"}


def test_a_chrome_trace_has_an_event_for_each_transfer_and_a_track_for_each_route(trace, tmp_path):
    trace.to_chrome_trace(tmp_path / "trace.json")
    document = json.loads((tmp_path / "trace.json").read_text())
    jsonschema.validate(document, CHROME)
    events = [each for each in document["traceEvents"] if each["ph"] == "X"]
    names = {
        each["tid"]: each["args"]["name"]
        for each in document["traceEvents"]
        if each["name"] == "thread_name"
    }
    assert len(events) == len(trace.transfers)
    thread_name = threading.current_thread().name
    assert [names[each["tid"]] for each in events] == [
        f"cpu:0 to gpu:1 ({thread_name})", *[f"gpu:0 to cpu:0 ({thread_name})"] * 4,
    ]  # fmt: skip
    assert [each["ts"] for each in events] == sorted(each["ts"] for each in events)
    assert "simulated" in document["otherData"]["seconds"]
