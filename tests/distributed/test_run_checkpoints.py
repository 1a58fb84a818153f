"""``group().checkpoint`` and ``restore``, and ``run(retries=…)``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import training_samples

import unidev

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("undisturbed")
    runs = unidev.run(
        training_samples.train, str(folder), checkpoints=folder / "points", backend="numpy"
    )
    assert len(set(runs)) == 1
    assert [each.name for each in (folder / "points").iterdir()] == ["step-6"]
    return runs[0][1]


@pytest.mark.parametrize(
    ("failure", "begun"), [(("killed", 4), 2), (("killed", 2), 0), (("while writing", 4), 2)]
)
def test_a_run_whose_worker_was_killed_ends_with_the_bits_of_an_undisturbed_one(
    tmp_path: Path,
    undisturbed: bytes,
    failure: tuple[str, int],
    begun: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    how, step = failure
    runs = unidev.run(
        training_samples.train, str(tmp_path), step, how,
        retries=1, checkpoints=tmp_path / "points", backend="numpy",
    )  # fmt: skip
    assert runs == [(begun, undisturbed)] * 2
    assert [each.name for each in (tmp_path / "points").iterdir()] == ["step-6"]
    failed = 1 if how == "killed" else 0
    assert (
        f"worker {failed} on 127.0.0.1 was killed by SIGKILL. Trying again (1 of 1)."
        in capsys.readouterr().err
    )


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
    assert [each.name for each in tmp_path.iterdir()] == ["step-1"]


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


def test_a_run_without_a_folder_has_no_checkpoints() -> None:
    with pytest.raises(unidev.UnsupportedOperation, match="checkpoints=folder"):
        unidev.group().checkpoint({"w": unidev.ones(2)}, 1)
    with pytest.raises(unidev.InvalidDataError, match="step must be a positive integer"):
        unidev.group().checkpoint({"w": unidev.ones(2)}, 0)
