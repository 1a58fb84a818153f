"""``group().checkpoint`` and ``restore``, and ``run(retries=…)``."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
import training_samples

import unidev
from unidev.parallel.exchange import checkpoints
from unidev.parallel.running import run as run_module


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def write(folder: Path, step: int, value: float) -> None:
    backend = unidev.active_backend()
    checkpoints.write(folder, step, {"w": unidev.full(2, float(value))}, None, backend)


def newest(folder: Path) -> tuple[int, float]:
    step, files = checkpoints.newest(folder)
    model = {"w": unidev.zeros(2)}
    with tempfile.TemporaryDirectory() as place:
        for name, content in files.items():
            (Path(place) / name).write_bytes(content)
        checkpoints.load(Path(place), model, None, unidev.active_backend())
    return step, float(model["w"][0])


def test_retries_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(unidev.WorkerFailedError, match="ArithmeticError: as ever"):
        unidev.run(
            training_samples.always_failing, retries=2, checkpoints=tmp_path, backend="numpy"
        )
    assert capsys.readouterr().err.count("Trying again") == 2


def test_a_full_disk_is_an_error_on_every_worker_and_the_last_checkpoint_stays(
    tmp_path: Path,
) -> None:
    found = unidev.run(training_samples.on_a_full_disk, checkpoints=tmp_path, backend="numpy")
    assert found == ["File too large: 1 1.0"] * 2
    assert names(tmp_path) == ["last", "step-1"]


def test_a_checkpoint_of_another_model_is_an_error(tmp_path: Path) -> None:
    run = training_samples.of_another_model
    assert unidev.run(run, 3, checkpoints=tmp_path, backend="numpy") == ["", ""]
    for message in unidev.run(run, 0, checkpoints=tmp_path, backend="numpy"):
        assert "(3,)" in message
        assert "(4,)" in message


def test_workers_that_are_at_different_steps_are_named(tmp_path: Path) -> None:
    for message in unidev.run(
        training_samples.of_another_step, checkpoints=tmp_path, backend="numpy"
    ):
        assert "worker 0 calls checkpoint of step 1, but worker 1" in message


def test_a_folder_is_that_of_one_run_at_a_time(tmp_path: Path) -> None:
    def run() -> None:
        unidev.run(len, "", workers=1, checkpoints=tmp_path, backend="numpy")

    with run_module._alone_in(str(tmp_path)), pytest.raises(unidev.RunError, match="of its own"):
        run()
    run()


def test_a_run_without_a_folder_has_no_checkpoints() -> None:
    with pytest.raises(unidev.UnsupportedOperation, match="checkpoints=folder"):
        unidev.group().checkpoint({"w": unidev.ones(2)}, 1)
    with pytest.raises(unidev.InvalidDataError, match="step must be a positive integer"):
        unidev.group().checkpoint({"w": unidev.ones(2)}, 0)


def test_the_last_checkpoint_is_the_one_written_last_whatever_its_step(tmp_path: Path) -> None:
    write(tmp_path, 9, 1)
    write(tmp_path, 1, 2)
    assert newest(tmp_path) == (1, 2)
    assert names(tmp_path) == ["last", "step-1"]


@pytest.mark.parametrize("step", [1, 2, 3])
@pytest.mark.parametrize("fails", [(Path, "rename"), (os, "replace")])
@pytest.mark.parametrize("how", ["raises", "ends"])
def test_a_checkpoint_that_cannot_be_completed_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int, fails: tuple[Any, str], how: str
) -> None:
    write(tmp_path, 2, 1)

    real = getattr(*fails)

    def fail(path: Path | str, target: Path | str) -> Any:
        if Path(path).parent != tmp_path:  # of a file in the checkpoint
            return real(path, target)
        if how == "ends":
            os._exit(7)
        raise OSError("as on a full disk")

    if how == "ends":
        child = os.fork()
        if not child:
            setattr(*fails, fail)
            write(tmp_path, step, 5)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    else:
        with monkeypatch.context() as patched:
            patched.setattr(*fails, fail)
            with pytest.raises(OSError, match="full disk"):
                write(tmp_path, step, 5)
        assert names(tmp_path) == ["last", "step-2"]
    assert newest(tmp_path) == (2, 1)
    write(tmp_path, step, 3)
    assert newest(tmp_path) == (step, 3)
    assert len(names(tmp_path)) == 2
