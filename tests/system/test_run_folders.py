"""A run's own folder is gone afterwards, and swept if its owner was killed: real processes."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from marked_processes import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM = """
from unidev.system.host.folders import own_folder
from unidev.parallel.launchers.processes import Processes

launcher = Processes(2, None)
with own_folder() as other:
    print(launcher.shared_folder())
    print(other, flush=True)
    input()
launcher.end()
"""


@pytest.fixture(autouse=True)
def _own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Since every start sweeps, also in another test at the same time."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))


@contextmanager
def owner() -> Iterator[tuple[subprocess.Popen[str], set[Path]]]:
    """A process with two folders."""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        cwd=Path(__file__).parents[2],
    ) as process:  # fmt: skip
        assert process.stdout is not None
        yield process, {Path(process.stdout.readline().strip()) for _ in range(2)}
        process.communicate("\n", timeout=LIMIT_S)


def test_folders_of_a_process_that_was_killed_are_swept_by_the_next_and_no_others(
    tmp_path: Path,
) -> None:
    with owner() as (living, kept), owner() as (killed, left):
        (min(left) / "part").mkdir()
        killed.send_signal(signal.SIGKILL)
        killed.wait(LIMIT_S)
        others = {tmp_path / "unidev-run-mine", tmp_path / f"unidev-other-{killed.pid}-x"}
        for folder in others:
            folder.mkdir()
        assert set(tmp_path.iterdir()) == kept | left | others
        with owner() as (_, new):
            assert set(tmp_path.iterdir()) == kept | new | others
        assert set(tmp_path.iterdir()) == kept | others
        assert living.poll() is None
    assert set(tmp_path.iterdir()) == others


def test_folders_of_another_user_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from unidev.system.host import folders

    left = tmp_path / f"unidev-run-{2**31 - 1}-left"
    left.mkdir()
    monkeypatch.setattr(folders.os, "getuid", lambda: left.stat().st_uid + 1)
    monkeypatch.setattr(folders.tempfile, "tempdir", str(tmp_path))
    folders.sweep()
    assert left.is_dir()
    monkeypatch.undo()
    monkeypatch.setattr(folders.tempfile, "tempdir", str(tmp_path))
    folders.sweep()
    assert not left.exists()
