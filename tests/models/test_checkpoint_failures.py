"""Checkpoints while something goes wrong, or takes long, or much memory."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from checkpoint_samples import sample, values

import unidev
from unidev.backends.loading import load_backend
from unidev.system.wording import bytes_text

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "model.safetensors"


# -- failures and interruptions --------------------------------------------------------------------


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize("position", [0, 1, 2])
def test_a_load_that_fails_or_is_interrupted_leaves_the_model_as_it_was(
    file: Path, monkeypatch, error, position: int
) -> None:
    unidev.save_parameters(sample(1), file)
    models = load_backend("numpy").models
    write, writes = models.write, iter(range(100))

    def fails(x: Any, given: Any) -> None:
        write(x, given)
        if (number := next(writes)) < position:
            return
        if error is KeyboardInterrupt:  # again and again, while the old values are put back
            signal.raise_signal(signal.SIGINT)
        elif number == position:
            raise error

    monkeypatch.setattr(models, "write", fails)
    model = sample(2)
    with pytest.raises(unidev.FrameworkError if error is RuntimeError else error):
        unidev.load_parameters(model, file)
    assert values(model) == values(sample(2))


def test_an_array_that_cannot_be_written_to_leaves_those_before_it_as_they_were(file: Path) -> None:
    np.save(file.with_suffix(".npy"), sample(2)["encoder"][1])
    model = sample(2)
    model["encoder"][1] = np.load(file.with_suffix(".npy"), mmap_mode="r")
    unidev.save_parameters(sample(1), file)
    with pytest.raises(unidev.FrameworkError, match=r"loading a dict.*read-only"):
        unidev.load_parameters(model, file)
    assert values(model) == values(sample(2))


def test_an_error_of_the_file_stays_an_oserror_where_the_framework_raises_some_too(
    file: Path, monkeypatch
) -> None:
    monkeypatch.setattr(load_backend("numpy"), "framework_errors", (OSError, RuntimeError))
    with pytest.raises(FileNotFoundError):
        unidev.load_parameters(sample(), file)
    with pytest.raises(FileNotFoundError):
        unidev.save_parameters(sample(), file / "missing" / "file")


# -- progress and memory ---------------------------------------------------------------------------


def test_what_is_quick_says_nothing_and_what_takes_long_says_what_it_does(
    file: Path, monkeypatch, capsys
) -> None:
    unidev.save_parameters(sample(1), file)
    unidev.load_parameters(sample(2), file)
    assert capsys.readouterr().err == ""
    models = load_backend("numpy").models

    def slow(x: Any) -> Any:
        import time

        time.sleep(0.05)
        return np.asarray(x)

    monkeypatch.setattr("unidev.system.progress.BEAT_S", 0.01)
    monkeypatch.setattr(models, "read", slow)
    unidev.save_parameters(sample(1), file)
    unidev.load_parameters(sample(2), file)
    said = capsys.readouterr().err
    assert f"unidev: saving 44 bytes to {file}: done in " in said
    assert f"unidev: loading {bytes_text(file.stat().st_size)} from {file}: done in " in said


PEAK = """
    import resource
    import sys
    import numpy as np
    import unidev

    def peak_mb():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    small = {"x": np.zeros(10, "float32")}
    unidev.save_parameters(small, "small")
    unidev.load_parameters(small, "small")
    model = {f"layer.{i}": np.full(5_000_000, i, "float32") for i in range(10)}
    before = peak_mb()
    unidev.save_parameters(model, "file")
    saving = peak_mb() - before
    for x in model.values():
        x[...] = -1
    unidev.load_parameters(model, "file")
    assert [x[-1] for x in model.values()] == list(range(10))
    print(saving, peak_mb() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in KiB on Linux alone")
def test_saving_holds_no_copy_of_the_model_and_loading_no_copy_of_the_file(run_python) -> None:
    saving_mb, loading_mb = map(float, run_python(PEAK).split())
    assert saving_mb < 10  # of 200: views of NumPy's own memory
    assert loading_mb < 200 + 20 + 10  # the old values, one tensor of the file
