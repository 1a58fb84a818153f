from __future__ import annotations

import numpy as np
import pytest

from unidev_conformance.events import (
    Alive,
    Capability,
    CheckEntry,
    DeviceEntry,
    End,
    EventError,
    EventReader,
    EventWriter,
    Finish,
    Problem,
    Refused,
    Session,
    Start,
    parse_event,
)

EVENTS = [
    Session(
        suite_version="1", unidev_version="0", backend="b", framework="f", framework_version="1",
        python="3", platform="p", profile="tensor", simulated=2,
        devices=(DeviceEntry(device="gpu:0", native="cuda:0", name="GPU", simulated=True),),
        capabilities={"memory": Capability(supported=False, reason="none", link=None)},
        checks=(CheckEntry(check="a.b", profile="tensor", required=True, needs=("probe.write",)),),
    ),
    Start(check="a.b"),
    Alive(),
    End(check="a.b", result="fail", seconds=0.5, message="é\n", devices=("cpu:0",)),
    Problem(message="expired"),
    Refused(refusal="backend", message="gone"),
    Finish(),
]  # fmt: skip


def test_events_come_back_as_they_were_written(tmp_path) -> None:
    writer = EventWriter(tmp_path / "events")
    for event in EVENTS:
        writer.write(event)
    assert EventReader(tmp_path / "events").read() == EVENTS


def test_a_reader_gives_each_event_once_and_waits_for_whole_lines(tmp_path) -> None:
    path = tmp_path / "events"
    reader = EventReader(path)
    assert reader.read() == []
    path.write_text('{"event": "finish"}\n{"event": "sta')
    assert reader.read() == [Finish()]
    assert reader.read() == []
    with path.open("a") as file:
        file.write('rt", "check": "a.b"}\n')
    assert reader.read() == [Start(check="a.b")]


def test_evidence_that_json_cannot_hold_is_spelt_out(tmp_path) -> None:
    evidence = {
        "nan": float("nan"),
        3: np.float32(2),
        "bytes": b"\x01\xff",
        "set": {1},
        "s": "\ud800",
    }
    writer = EventWriter(tmp_path / "events")
    writer.write(End(check="a.b", result="pass", seconds=0.0, evidence=evidence))
    (event,) = EventReader(tmp_path / "events").read()
    assert isinstance(event, End)
    assert event.evidence == {"nan": "nan", "3": "2.0", "bytes": "01ff", "set": [1], "s": "?"}


@pytest.mark.parametrize(
    "line",
    [
        "", "x", "[]", "null", "{}", '{"event": "nonsense"}', '{"event": "start"}',
        '{"event": "finish", "more": 1}', b"\xff\xfe",
        '{"event": "end", "check": "a.b", "result": "fine", "seconds": 1}',
        '{"event": "refused", "refusal": "mood", "message": ""}',
    ],
)  # fmt: skip
def test_a_line_that_is_no_event_is_an_error_that_shows_it(line) -> None:
    with pytest.raises(EventError, match=r"not an event|not a result|not a refusal"):
        parse_event(line)
