"""Progress on stderr: only of what takes long, in whole lines, by a thread that ends."""

import io
import re
import sys
import threading
import time

import pytest

from unidev.support import progress as module
from unidev.support.progress import progress


@pytest.fixture
def quick_beat(monkeypatch):
    monkeypatch.setattr(module, "BEAT_S", 0.02)


def wait_for(read, text):
    """What has been printed, once ``text`` is in it."""
    printed, until = "", time.monotonic() + 10
    while text not in printed and time.monotonic() < until:
        time.sleep(0.005)
        printed += read().err
    assert text in printed
    return printed


def threads():
    return [each.name for each in threading.enumerate() if each.name == "unidev-progress"]


def test_of_what_is_quick_nothing_is_printed(capsys):
    with progress("a step") as step:
        step("another")
        assert threads() == ["unidev-progress"]
    assert (capsys.readouterr().err, threads()) == ("", [])


def test_what_takes_long_is_reported_until_it_is_done(quick_beat, capsys):
    with progress("saving x"):
        printed = wait_for(capsys.readouterr, "unidev: saving x: 0 s\n")
    printed += capsys.readouterr().err
    assert re.fullmatch(
        r"(unidev: saving x: 0 s\n)+unidev: saving x: done in [\d.]+ m?s\n", printed
    )
    assert threads() == []


@pytest.mark.parametrize(
    ("error", "state"), [(ValueError, "failed"), (KeyboardInterrupt, "interrupted")]
)
def test_an_exception_passes_and_ends_the_thread(quick_beat, capsys, error, state):
    def fail():
        with progress("saving x"):
            wait_for(capsys.readouterr, "unidev: saving x: 0 s\n")
            raise error

    with pytest.raises(error):
        fail()
    assert capsys.readouterr().err.endswith(f"unidev: saving x: {state}\n")
    assert threads() == []


def test_steps_stand_in_place_of_the_title_and_their_end_is_not_reported(quick_beat, capsys):
    with progress("asking") as step:
        for name in ("one", "two"):
            step(name)
            wait_for(capsys.readouterr, f"unidev: {name}: 0 s\n")
    assert "done" not in capsys.readouterr().err


@pytest.mark.parametrize("closed", [True, False])
def test_work_goes_on_where_stderr_is_closed_or_missing(quick_beat, monkeypatch, closed):
    stderr = io.StringIO() if closed else None
    if stderr is not None:
        stderr.close()
    monkeypatch.setattr(sys, "stderr", stderr)
    with progress("saving x"):
        time.sleep(0.1)
    assert threads() == []
