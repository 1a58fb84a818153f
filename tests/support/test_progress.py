"""Progress on stderr: only of what takes long, in whole lines, by a thread that ends."""

import io
import os
import pty
import re
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from unidev.support import progress as module
from unidev.support.progress import progress


@pytest.fixture
def quick_beat(monkeypatch):
    monkeypatch.setattr(module, "BEAT_S", 0.02)
    monkeypatch.setattr(module, "LINE_S", 0.02)


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


def test_a_log_gets_a_line_every_ten_seconds(monkeypatch, capsys):
    monkeypatch.setattr(module, "BEAT_S", 0.02)  # and LINE_S as it is
    with progress("saving x"):
        printed = wait_for(capsys.readouterr, "unidev: saving x: 0 s\n")
        time.sleep(0.3)
        printed += capsys.readouterr().err
    assert printed == "unidev: saving x: 0 s\n"


def test_a_terminal_has_one_line_that_is_updated_and_goes(tmp_path):
    program = """
        from unidev.support import progress as module
        import time
        module.BEAT_S = 0.05
        with module.progress("saving " + "x" * 200) as step:
            time.sleep(0.5)
            step("another")
            time.sleep(0.5)
        """
    leader, follower = pty.openpty()
    os.set_inheritable(follower, True)
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], stderr=follower, stdout=follower
    )
    os.close(follower)
    printed = b""
    while True:
        try:
            chunk = os.read(leader, 4096)
        except OSError:  # Linux's word for the end of a terminal
            break
        if not chunk:
            break
        printed += chunk
    os.close(leader)
    assert process.wait() == 0
    *updates, last = printed.decode().split("\r\x1b[K")[1:]
    assert last == ""
    assert updates[0].startswith("unidev: saving xxx")
    assert updates[0].endswith(": 0 s")
    assert "unidev: another: 1 s" in updates or "unidev: another: 0 s" in updates
    assert b"\n" not in printed
    assert max(map(len, updates)) < 200


def test_a_build_is_seen_past_pytests_capture(tmp_path):
    (tmp_path / "test_own.py").write_text(
        textwrap.dedent(
            """
            import time
            from unidev.support import progress

            def test_it(monkeypatch):
                monkeypatch.setattr(progress, "BEAT_S", 0.02)
                for seen in (True, False):
                    with progress.progress(f"building {seen}", beyond_capture=seen):
                        time.sleep(0.2)
            """
        )
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "unidev_pytest", "-q"],
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert done.stderr.startswith("unidev: building True: 0 s\n")
    assert "False" not in done.stderr
