"""GPUs that answer to ``cuda`` answer what programs ask."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from once import once

HERE = Path(__file__).parent
QUESTIONS = [
    name
    for file in ("cuda_questions.py", "cuda_questions_of_training.py")
    for name in re.findall(r"@question\ndef (\w+)", (HERE / file).read_text())
]
"""Read from the files: this process has a torch with devices called ``sim``."""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """By question."""
    return once(tmp_path_factory, "cuda_questions", _asked)


def _asked(_: Path) -> dict[str, str]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(HERE / "cuda_child.py")],
        env={
            **os.environ, "UNIDEV_SIMULATE": "4", "UNIDEV_SIMULATE_AS": "cuda",
            "UNIDEV_SIMULATE_MEMORY": "256MiB", "UNIDEV_SIMULATE_LIKE": "H100",
        },
        input=json.dumps(QUESTIONS), capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return dict(json.loads(line) for line in done.stdout.splitlines())


@pytest.mark.parametrize("name", QUESTIONS)
def test_it_is_answered(answers: dict[str, str], name: str) -> None:
    assert answers[name] == "right"
