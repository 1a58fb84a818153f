"""A run of one worker, on every backend that is installed here."""

from __future__ import annotations

import pytest
import run_samples
from running_examples import HERE

import unidev


@pytest.mark.parametrize("backend", HERE)
def test_what_one_worker_exchanges_is_its_own(
    backend: str, capsys: pytest.CaptureFixture[str]
) -> None:
    [found] = unidev.run(run_samples.alone, workers=1, backend=backend)
    assert found.keys() == {"sum", "mean", "broadcast", "gathered", "rows"}
    assert all(x == [1.5, 2.5] for x in found.values()), found
    assert "listens" not in capsys.readouterr().err  # no engine, so none of its ports
