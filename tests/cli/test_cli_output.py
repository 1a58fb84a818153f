from __future__ import annotations

import subprocess
import sys

import pytest
from progress_lines import without_progress


@pytest.mark.parametrize(
    ("redirection", "said"),
    [(">&-", "unidev: stdout is closed"), (">/dev/full", "No space left on device")],
)
@pytest.mark.parametrize("words", ["info", "info --json", "conform --list"])
def test_an_output_that_takes_nothing_is_one_clean_line(tmp_path, words, redirection, said) -> None:
    done = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m unidev {words} {redirection}"],
        cwd=tmp_path, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert len(without_progress(done.stderr)) == 1
    assert said in done.stderr


@pytest.mark.parametrize("seconds", ["nan", "inf"])
def test_a_timeout_that_is_no_number_of_seconds_is_wrong_usage(seconds) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "unidev", "info", "--timeout", seconds],
        stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, "not a finite number of seconds" in done.stderr) == (2, True)
