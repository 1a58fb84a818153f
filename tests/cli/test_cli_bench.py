"""`unidev bench` itself: its files, its options, Ctrl-C."""

from __future__ import annotations

import inspect
import json
import os
import re
import signal
import subprocess
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest
from bench_samples import ONLY_CPU, from_document
from click.testing import CliRunner, Result

from unidev.bench import files
from unidev.cli import bench as cli_bench
from unidev.cli.bench import command
from unidev.system import extras
from unidev.system.atomic_file import write_whole

if TYPE_CHECKING:
    from pathlib import Path

ALL = {"bench.txt", "bench.json", "bench.html", "bench.png"}


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder to be in, and a bench that is not measured but made up."""
    monkeypatch.setattr(cli_bench, "_measure", lambda backend, limit_s, is_full: ONLY_CPU)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def runner() -> CliRunner:
    """It keeps stderr apart, as click does by itself from 8.2 on."""
    is_older = "mix_stderr" in inspect.signature(CliRunner).parameters
    return CliRunner(mix_stderr=False) if is_older else CliRunner()


def run(*arguments: str) -> Result:
    return runner().invoke(command, arguments, standalone_mode=False)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_table_is_printed_and_four_files_are_written(given: Path) -> None:
    done = run()
    assert done.return_value == 0
    assert names(given / "unidev-bench") == ALL
    assert "There is no real GPU here" in done.stdout
    assert "x @ y" in done.stdout
    assert done.stderr.startswith("unidev: wrote unidev-bench/bench.txt, ")
    told = (given / "unidev-bench" / "bench.txt").read_text(encoding="utf-8")
    assert "There is no real GPU here" in told
    assert (given / "unidev-bench" / "bench.png").read_bytes()[:4] == b"\x89PNG"
    document = json.loads((given / "unidev-bench" / "bench.json").read_text(encoding="utf-8"))
    assert from_document(document) == ONLY_CPU


def test_json_is_printed_alone_and_files_are_written_only_if_asked_for(given: Path) -> None:
    done = run("--json")
    assert done.return_value == 0
    assert from_document(json.loads(done.stdout)) == ONLY_CPU
    assert names(given) == set()
    done = run("--json", "--output", "a/b")
    assert from_document(json.loads(done.stdout)) == ONLY_CPU
    assert names(given / "a" / "b") == ALL


def test_files_of_an_earlier_run_are_replaced(given: Path) -> None:
    run()
    (given / "unidev-bench" / "bench.html").write_text("old")
    run()
    assert (given / "unidev-bench" / "bench.html").read_text().startswith("<!doctype html>")
    assert names(given / "unidev-bench") == ALL


@pytest.mark.parametrize("missing", ["matplotlib", "jinja2"])
def test_what_files_need_is_named_before_anything_is_measured(
    given: Path, monkeypatch, missing
) -> None:
    real = find_spec
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name == missing else real(name))
    assert run("--json").return_value == 0
    monkeypatch.setattr(cli_bench, "_measure", lambda *_, **__: pytest.fail("it measured"))
    done = runner().invoke(command, [])
    assert done.exit_code == 2
    assert (
        f"{missing} is not installed. In unidev's repository, run: pip install '.[bench]'."
        in done.stderr
    )
    assert names(given) == set()


def test_a_folder_that_cannot_be_is_refused_before_anything_is_measured(
    given: Path, monkeypatch
) -> None:
    monkeypatch.setattr(cli_bench, "_measure", lambda *_, **__: pytest.fail("it measured"))
    (given / "file").write_text("")
    done = runner().invoke(command, ["--output", "file/below"])
    assert done.exit_code == 2
    assert "--output file/below: Not a directory." in done.stderr


def test_a_file_that_cannot_be_written_is_told_by_name(given: Path) -> None:
    (given / "unidev-bench" / "bench.json").mkdir(parents=True)
    done = run()
    assert done.return_value == 2
    assert "bench.json: Is a directory" in done.stderr


def test_ctrl_c_while_files_are_written_leaves_all_of_them_whole(given: Path, monkeypatch) -> None:
    def interrupted(path: Path, data: bytes) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        write_whole(path, data)

    monkeypatch.setattr(files, "write_whole", interrupted)
    done = run()
    assert done.return_value == 130
    assert names(given / "unidev-bench") == ALL
    assert "x @ y" not in done.stdout


def test_ctrl_c_while_it_measures_ends_with_130_and_writes_nothing(tmp_path: Path) -> None:
    own = {name: value for name, value in os.environ.items() if not name.startswith("UNIDEV_")}
    with subprocess.Popen(
        [sys.executable, "-m", "unidev", "bench", "--backend", "numpy", "--output", tmp_path],
        env=own, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        assert re.match(r"unidev: \d+ of \d+: ", process.stderr.readline())
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in err
    assert names(tmp_path) == set()


def test_a_backend_that_is_not_there_is_named(tmp_path: Path, unidev) -> None:
    done = unidev("bench", "--backend", "nobody")
    assert done.returncode == 1
    assert done.stderr.startswith("unidev: there is no backend 'nobody'")
    assert names(tmp_path) == set()
