"""An odd leaf, such as a key or a nested tensor, gets a result or an error of unidev's."""

import subprocess
import sys
from pathlib import Path

import pytest
from running_examples import HERE

PROGRAM = Path(__file__).parents[1] / "fuzz" / "odd_leaves.py"


@pytest.mark.slow
@pytest.mark.parametrize("backend", HERE)
def test_odd_leaves_in_each_parameter_of_every_public_function(backend: str) -> None:
    command = [sys.executable, "-W", "ignore", str(PROGRAM), backend]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
