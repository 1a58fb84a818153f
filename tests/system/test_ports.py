"""Ports for the frameworks' engines: free, and none that the system gives to others meanwhile."""

from __future__ import annotations

import random
import socket
from typing import TYPE_CHECKING

import pytest

from unidev.system.host import ports
from unidev.system.host.ports import LOOPBACK, free_ports

if TYPE_CHECKING:
    from pathlib import Path


def test_they_are_free_and_not_given_out_by_the_system() -> None:
    state = random.getstate()
    first, none, others = free_ports([1, 0, 3])
    assert (len(first), none, len(others)) == (1, [], 3)
    found = {*first, *others}
    assert len(found) == 4
    assert max(found) < ports._first_given_out()
    assert random.getstate() == state  # the user's own
    for port in found:
        with socket.socket() as listener:
            listener.bind((LOOPBACK, port))


def test_two_runs_draw_others() -> None:
    assert len({free_ports([1])[0][0] for _ in range(20)}) > 10


def test_a_taken_port_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    [[taken, free]] = free_ports([2])
    monkeypatch.setattr(ports, "_drawn", lambda: iter([taken, free]))
    with socket.socket() as listener:
        listener.bind((LOOPBACK, taken))
        assert free_ports([1]) == [[free]]
        monkeypatch.setattr(ports, "_drawn", lambda: iter([taken]))
        with pytest.raises(OSError, match="no port of the loopback interface is free"):
            free_ports([1])


def test_a_system_that_gives_out_nearly_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ports, "_RANGE", tmp_path / "range")
    assert ports._first_given_out() == ports._END
    ports._RANGE.write_text("1024\t65535\n")
    [[one, other]] = free_ports([2])
    assert one != other
