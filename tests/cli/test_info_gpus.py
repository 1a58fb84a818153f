"""The driver's GPUs in ``unidev info``, and watched in a terminal."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from fake_nvml import FakeNvml
from rich.console import Console

from unidev.cli import gpus
from unidev.cli.info_table import print_info
from unidev.system import gpu_memory

HELPERS = Path(__file__).parents[1] / "helpers"
SHARED = FakeNvml(broken={0: ("memory", 3)}, capability=(12, 1))
NO_ANSWER = 30
"""Seconds: a process that prints nothing for so long is one that hangs."""


@pytest.mark.parametrize(
    ("nvml", "rows"),
    [
        (
            SHARED,
            ["0 NVIDIA H200 7 GiB of 9 GiB free, shared with the host 35 % 76 W of 700 W 27 °C"],
        ),
        (
            FakeNvml(mig=1, broken={0: ("utilisation", 3)}),
            [
                "0 NVIDIA H200 7 bytes of 10 bytes free - 76 W of 700 W 27 °C",
                "0 NVIDIA H200 MIG 1g.18gb, part of GPU 0, NVIDIA H200 1 byte of 2 bytes free - - "
                "-",
            ],
        ),
    ],
)
def test_memory_load_power_and_temperature_are_shown_where_the_driver_reports_them(
    monkeypatch: pytest.MonkeyPatch, nvml: FakeNvml, rows: list[str]
) -> None:
    monkeypatch.setattr(gpu_memory, "free_and_total", lambda: (7 * 2**30, 9 * 2**30))
    monkeypatch.setattr(gpus, "import_nvml", lambda: nvml)
    told, file = gpus.gpus(), io.StringIO()
    document = {
        "unidev": "", "python": "", "platform": "", "plugins": [], "notices": [],
        "environment": {}, "choice": {"name": None, "reason": "", "problem": None}, "gpus": told,
    }  # fmt: skip
    print_info(document, Console(file=file, width=200), verbose=False)
    printed = [" ".join(line.split()) for line in file.getvalue().splitlines()]
    assert [line for line in printed if "H200" in line] == rows
    assert json.loads(json.dumps(told)) == told
    assert {"utilisation_percent", "power_w", "power_limit_w", "temperature_c"} <= told[0].keys()


PROGRAM = """
import sys
sys.path.insert(0, {helpers!r})
from types import SimpleNamespace
from fake_nvml import FakeNvml

class Busier(FakeNvml):
    looks = 0
    def nvmlDeviceGetUtilizationRates(self, handle):
        self.looks += 1
        return SimpleNamespace(gpu=40 + self.looks, memory=0)
    def nvmlDeviceGetCount(self):
        return 0 if self.looks == {last} else 1

sys.modules["pynvml"] = Busier()
from unidev.cli import gpus, main
gpus.BEAT_S = 0.1
main(["info", "--watch"])
"""


class Terminal:
    """A program that watches GPUs in a terminal."""

    def __init__(self, last: int = -1) -> None:
        self._leader, follower = pty.openpty()
        program = dedent(PROGRAM).format(helpers=str(HELPERS), last=last)
        self.process = subprocess.Popen(
            [sys.executable, "-c", program], stdin=follower, stdout=follower, stderr=follower,
            start_new_session=True,
            env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "120", "LINES": "30"},
        )  # fmt: skip
        os.close(follower)
        self.printed = ""

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._leader)

    def read_until(self, text: str | None) -> str:
        """All that has been printed, once ``text`` is in it; None: once the program has ended."""
        while text is None or text not in self.printed:
            try:
                piece = os.read(self._leader, 65536)
            except OSError:  # Linux's way to say that the other end is closed
                piece = b""
            if not piece:
                assert text is None, self.printed
                break
            self.printed += piece.decode()
        return self.printed


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_terminal_is_updated_until_a_signal_comes_and_is_left_as_it_was(
    number: int, code: int
) -> None:
    with Terminal() as terminal:
        terminal.read_until("43 %")  # the third look
        terminal.process.send_signal(number)
        printed = terminal.read_until(None)
        assert terminal.process.wait(NO_ANSWER) == code
    first = r"0 +NVIDIA H200 +7 bytes of 10 bytes free +41 % +76 W of 700 W +27 °C"
    assert re.search(first, printed)
    assert "Ctrl-C ends it" in printed
    assert "Traceback" not in printed
    assert "\x1b[1A" in printed  # one table, in place of the one before
    assert printed.rindex("\x1b[?25h") > printed.rindex("\x1b[?25l")  # the cursor


def test_a_gpu_that_goes_away_ends_it_with_the_reason() -> None:
    with Terminal(last=2) as terminal:
        printed = " ".join(terminal.read_until(None).split())
        assert terminal.process.wait(NO_ANSWER) == 1
    assert "NVIDIA's driver reports none here; `unidev doctor`" in printed
    assert "\x1b[?25h" in printed


@pytest.mark.parametrize(
    ("words", "said"),
    [("--watch", "--watch needs a terminal"), ("--watch --json", "--watch excludes --json")],
)
def test_in_a_pipe_it_is_an_error(unidev, words: str, said: str) -> None:
    done = unidev("info", *words.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert said in " ".join(done.stderr.split())
