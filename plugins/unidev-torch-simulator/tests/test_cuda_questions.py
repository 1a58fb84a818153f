"""GPUs that answer to ``cuda`` answer what programs ask, and a library that lies is found out."""

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
_LIARS = (HERE / "cuda_liars.py").read_text()
LIARS = {
    name: tuple(re.findall(r'"(\w+)"', questions))
    for questions, name in re.findall(r"@caught_by\(([^)]*)\)\ndef (\w+)", _LIARS)
}
LIARS |= {each: tuple(each.split()) for each in re.findall(r'^    \("([\w ]+)",', _LIARS, re.M)}
"""Read from the files: this process has a torch with devices called ``sim``."""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str | None, str], str]:
    """By liar and question; None where nobody lies."""
    found = once(tmp_path_factory, "cuda_questions", _asked)
    return {(liar, name): said for liar, name, said in found}


def _asked(_: Path) -> list[tuple[str | None, str, str]]:
    order: list[tuple[str | None, str]] = [(None, name) for name in QUESTIONS]
    order += [(liar, name) for liar, questions in LIARS.items() for name in questions]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(HERE / "cuda_child.py")],
        env={
            **os.environ, "UNIDEV_SIMULATE": "4", "UNIDEV_SIMULATE_AS": "cuda",
            "UNIDEV_SIMULATE_MEMORY": "256MiB", "UNIDEV_SIMULATE_LIKE": "H100",
        },
        input=json.dumps(order), capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_there_are_at_least_35_and_each_has_a_liar() -> None:
    assert len(QUESTIONS) >= 35
    assert {name for questions in LIARS.values() for name in questions} == set(QUESTIONS)


@pytest.mark.parametrize("name", QUESTIONS)
def test_it_is_answered(answers: dict[tuple[str | None, str], str], name: str) -> None:
    assert answers[None, name] == "right"


@pytest.mark.parametrize("liar", LIARS)
def test_a_liar_is_found_out(answers: dict[tuple[str | None, str], str], liar: str) -> None:
    for name in LIARS[liar]:
        assert answers[liar, name].startswith("wrong: "), answers[liar, name]
