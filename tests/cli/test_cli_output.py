from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest
from needed import TOOLS, need
from progress_lines import without_progress
from rich.table import Table
from rich.text import Text

from unidev.cli.output import console, say
from unidev.system.wording import plain


@pytest.fixture(autouse=True)
def suite(request: pytest.FixtureRequest) -> None:
    """For ``unidev conform``."""
    if "conform" in request.node.name:
        need("tools", "unidev_conformance", install=TOOLS["unidev_conformance"])


def shell(line, folder):
    return subprocess.run(line, shell=True, cwd=folder, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize(
    ("redirection", "said"),
    [(">&-", "unidev: stdout is closed"), (">/dev/full", "No space left on device")],
)
@pytest.mark.parametrize("words", ["info", "info --json", "conform --list"])
def test_an_output_that_takes_nothing_is_one_clean_line(tmp_path, words, redirection, said) -> None:
    done = shell(f"{sys.executable} -m unidev {words} {redirection}", tmp_path)
    assert done.returncode == 2
    assert len(without_progress(done.stderr)) == 1
    assert said in done.stderr


@pytest.mark.parametrize("words", ["--help", "info --json", "conform --list", "launch loud.py"])
def test_a_reader_that_has_had_enough_is_no_traceback(tmp_path, words) -> None:
    (tmp_path / "loud.py").write_text("print('a line')\n")
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "unidev", *words.split()], cwd=tmp_path, stdout=writing,
        stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    os.close(writing)
    assert done.returncode == 141  # as of a program that SIGPIPE ends
    assert without_progress(done.stderr) == []


@pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps a folder that is in use")
@pytest.mark.parametrize("words", ["info", "conform numpy", "trace {here}/program.py"])
def test_a_current_folder_that_is_gone_is_one_clean_line(tmp_path, words) -> None:
    (tmp_path / "program.py").write_text("")
    (tmp_path / "gone").mkdir()
    command = f"rmdir ../gone; {sys.executable} -m unidev {words.format(here=tmp_path)}"
    done = shell(command, tmp_path / "gone")
    assert done.returncode == 2
    assert without_progress(done.stderr) == [
        "unidev: the current folder has been deleted: change to another."
    ]


@pytest.mark.skipif(sys.platform == "win32", reason="limits are those of POSIX")
@pytest.mark.parametrize("words", ["info", "doctor", "conform numpy", "launch program.py"])
def test_no_temporary_folder_is_one_clean_line(tmp_path, words) -> None:
    (tmp_path / "program.py").write_text("")
    # As on a full disk: no file can be written.
    done = shell(f"ulimit -f 0; {sys.executable} -m unidev {words} | cat", tmp_path)
    (line,) = without_progress(done.stderr)
    assert line.startswith("unidev: No usable temporary directory found in")


@pytest.mark.parametrize("seconds", ["nan", "inf"])
def test_a_timeout_that_is_no_number_of_seconds_is_wrong_usage(unidev, seconds) -> None:
    done = unidev("info", "--timeout", seconds)
    assert (done.returncode, "a positive number of seconds" in done.stderr) == (2, True)


HOSTILE = "\x1b]0;title\x07\x1b[31m\x9b2J\u202e"
SHOWN = "\\u001b]0;title\\u0007\\u001b[31m\\u009b2J\\u202e"


def test_plain_json_means_the_same() -> None:
    text = plain(json.dumps([HOSTILE, "\U000e0001", "日本"], ensure_ascii=False))
    assert json.loads(text) == [HOSTILE, "\U000e0001", "日本"]
    assert text.isprintable()


def test_names_do_not_control_the_terminal(capsys, monkeypatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    out = console()
    table = Table(box=None)
    table.add_column("column")
    table.add_row(Text(HOSTILE, style="red"))
    for each in (HOSTILE, Text(HOSTILE, style="bold"), table):
        out.print(each)
    say(HOSTILE)
    printed = capsys.readouterr().out  # in a table, what is longer than the name is cut
    without_colours = re.sub(r"\x1b\[\d*m", "", printed)
    assert "\x1b[1m" in printed  # its own colours stay
    assert without_colours.isascii()
    assert plain(without_colours) == without_colours
    assert SHOWN in printed
    assert printed.count(SHOWN.replace("\\u0007", "")) == 2  # rich leaves out a bell by itself


def test_a_terminal_without_columns_shows_all(capsys, monkeypatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "0")
    console().print("some words")
    assert "some words" in capsys.readouterr().out


def test_neither_does_what_the_user_or_a_plugin_named(tmp_path) -> None:
    name = "a\x1b[31m\x9b"
    (tmp_path / f"{name}.py").write_text(
        "import unidev\n"
        "x = unidev.copy_to(unidev.ones(2), 'gpu')\n"
        f"@unidev.hookimpl\n"
        "def unidev_register_backend():\n"
        f"    return unidev.BackendSpec(name={name!r}, contract_version=3, framework={name!r},\n"
        f"                              install={name!r}, load={name!r})\n"
    )
    lines = (
        ["info", "--verbose"], ["info", "--json"], ["info", "--capabilities"], ["doctor", "--json"],
        ["doctor", "--backend", name], ["conform", name], ["conform", "numpy", "--only", name],
        ["bench", "--backend", name], ["trace", f"{name}.py"],
        ["trace", name], [name],
    )  # fmt: skip
    program = (
        "import contextlib, unidev.cli\n"
        f"for words in {lines!r}:\n"
        "    with contextlib.suppress(SystemExit):\n"
        "        unidev.cli.main(list(words))\n"
        "    print('printed', flush=True)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True,
        env={**os.environ, "UNIDEV_PLUGINS": name, "UNIDEV_SIMULATE": "1"},
    )  # fmt: skip
    assert done.stdout.count("printed\n") == len(lines)
    assert "a\\u001b[31m\\u009b" in done.stdout
    assert plain(done.stdout) == done.stdout
    assert plain(done.stderr) == done.stderr
