"""Running a few lines in a fresh interpreter.

Imports, spawned processes and first uses cannot be observed in a process that has already
imported the framework.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TIMEOUT_S = 100
"""Shorter than the timeout of the suite's parent, so that the check reports what hung."""

_MARK = "unidev-answer:"
_PRELUDE = f"""
import json, sys

def answer(value):
    sys.stdout.write("\\n{_MARK}" + json.dumps(value) + "\\n")
    sys.stdout.flush()
"""


def run_fresh(
    code: str,
    *,
    backend: str,
    arguments: Sequence[str] = (),
    variables: Mapping[str, str] = MappingProxyType({}),
) -> Any:
    """The argument that ``code`` passed to ``answer(...)``, decoded from JSON.

    Args:
        code: the code to run.
        backend: sets ``UNIDEV_BACKEND``.
        arguments: sets ``sys.argv[1:]``.
        variables: additional environment; the rest is inherited, ``UNIDEV_PLUGINS`` too.

    Raises:
        AssertionError: it failed, hung, or did not answer; with the end of its output.
    """
    environment = {**os.environ, "UNIDEV_BACKEND": backend, **variables}
    # Whatever this process can import, such as a backend beside the tests, the child can, too.
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    try:
        done = subprocess.run(  # noqa: S603  our own interpreter and code
            [sys.executable, "-c", _PRELUDE + code, *arguments],
            env=environment, capture_output=True, text=True, errors="replace",
            timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise AssertionError(f"a fresh interpreter gave no answer in {TIMEOUT_S} s") from error
    answers = [line for line in done.stdout.splitlines() if line.startswith(_MARK)]
    if done.returncode or not answers:
        raise AssertionError(
            f"a fresh interpreter ended with status {done.returncode} and "
            f"{'an' if answers else 'no'} answer: {done.stderr[-1500:].strip()}"
        )
    return json.loads(answers[-1].removeprefix(_MARK))
