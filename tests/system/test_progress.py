"""Progress on stderr: only of what takes long, in whole lines, by a thread that ends."""

import contextlib
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

from unidev.system import progress as module
from unidev.system.progress import progress


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


def in_a_terminal(program, *arguments, until, **environment):
    """What ``program`` writes to 80 columns; each text of ``until`` is answered with a line."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program), *arguments],
        stdin=subprocess.PIPE, stdout=follower, stderr=follower,
        env={**os.environ, "COLUMNS": "80", **environment},
    )  # fmt: skip
    os.close(follower)
    printed = b""
    waiting = list(until)
    with contextlib.suppress(OSError):  # Linux's word for the end of a terminal
        while chunk := os.read(leader, 4096):
            printed += chunk
            if waiting and waiting[0].encode() in printed:
                waiting.pop(0)
                process.stdin.write(b"\n")
                process.stdin.flush()
    os.close(leader)
    process.stdin.close()
    assert process.wait() == 0
    return printed.decode()


IN_TWO_STEPS = """
    import sys
    if "without rich" in sys.argv:
        sys.modules["rich"] = None
    from unidev.system import progress as module
    module.BEAT_S = module.LINE_S = module.FRAME_S = 0.05
    with module.progress("saving " + "x" * 200) as step:
        sys.stdin.readline()
        step("another [bold]")
        sys.stdin.readline()
    """


def test_a_terminal_has_one_line_that_is_updated_and_goes():
    printed = in_a_terminal(IN_TWO_STEPS, until=["saving", "another"], TERM="xterm")
    plain = re.sub(r"\x1b\[[\d;]*m", "", printed)
    *updates, last = re.split(r"\r\x1b\[2K|\x1b\[\?25l", plain)[1:]
    assert re.fullmatch(r". unidev: saving x+… \d+ s", updates[0])
    assert re.match(r". unidev: another \[bold\] +\d+ s", last)
    assert max(map(len, updates)) <= 80
    assert "\n" not in "".join(updates)
    assert last.endswith("\r\n\x1b[?25h\r\x1b[1A\x1b[2K")  # the cursor is back, the line is empty


@pytest.mark.parametrize(("terminal", "arguments"), [("xterm", ["without rich"]), ("dumb", [])])
def test_a_terminal_without_rich_and_one_that_cannot_update_have_lines(terminal, arguments):
    printed = in_a_terminal(IN_TWO_STEPS, *arguments, until=["saving", "another"], TERM=terminal)
    assert re.fullmatch(
        r"(unidev: saving x+: \d+ s\r\n)+(unidev: another \[bold\]: \d+ s\r\n)+", printed
    )


def test_a_build_is_seen_past_pytests_capture(tmp_path):
    (tmp_path / "test_own.py").write_text(
        textwrap.dedent(
            """
            import time
            from unidev.system import progress

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
