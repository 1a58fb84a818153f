"""Running a few lines in a fresh interpreter.

Imports, spawned processes and first uses cannot be observed in a process that has already
imported the framework.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from unidev.system.child_processes import ChildProcess, describe_exit
from unidev_conformance.judging.outcomes import InconclusiveError, NotApplicableError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from unidev.device import Device
    from unidev_conformance.kit.workbench import Workbench

TIMEOUT_S = 100
"""Shorter than the timeout of the suite's parent, so that the check reports what hung."""

_MARK = "unidev-answer:"
_PRELUDE = f"""
import gc, json, sys

def answer(value):
    sys.stdout.write("\\n{_MARK}" + json.dumps(value) + "\\n")
    sys.stdout.flush()
    gc.freeze()
"""
"""An answer is the last that is done: no collection at the end looks through a framework."""


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
    command = [sys.executable, "-c", _PRELUDE + code, *arguments]
    with (
        tempfile.TemporaryDirectory(prefix="unidev-fresh-", ignore_cleanup_errors=True) as folder,
        ChildProcess(command, Path(folder), environment=environment) as child,
    ):
        if not child.wait(TIMEOUT_S):
            raise AssertionError(f"a fresh interpreter gave no answer in {TIMEOUT_S} s")
        answers = [line for line in child.out.splitlines() if line.startswith(_MARK)]
        if child.exit_code or not answers:
            raise AssertionError(
                f"a fresh interpreter ended with {describe_exit(child.exit_code)} and "
                f"{'an' if answers else 'no'} answer: {child.err[-1500:].strip()}"
            )
        return json.loads(answers[-1].removeprefix(_MARK))


def check_fresh(
    bench: Workbench, function: Callable[[Workbench, Device], None], device: Device
) -> None:
    """Run a check of one device in a fresh interpreter; its outcome and evidence are as here.

    Args:
        bench: of the check that calls this.
        function: of the top level of a module; gets a workbench of that process.
        device: the device.

    Raises:
        AssertionError: the function did, or something else happened to the process.
        NotApplicableError: the function did.
        InconclusiveError: the function did.
    """
    named = (function.__module__, function.__name__, str(device))
    found = run_fresh(_CHECK, backend=bench.backend.name, arguments=named)
    for key, value in found["evidence"].items():
        bench.evidence.add(key, value)
    how, message = found["outcome"]
    if how != "pass":
        raise _OUTCOMES[how](message)


_OUTCOMES = {
    each.__name__: each for each in (AssertionError, NotApplicableError, InconclusiveError)
}
_CHECK = f"""
import importlib
import unidev
from unidev_conformance.judging.outcomes import InconclusiveError, NotApplicableError
from unidev_conformance.kit.workbench import Workbench

bench, outcome = Workbench(unidev.active_backend()), ("pass", "")
try:
    check = getattr(importlib.import_module(sys.argv[1]), sys.argv[2])
    check(bench, unidev.as_device(sys.argv[3]))
except ({", ".join(_OUTCOMES)}) as error:
    outcome = (type(error).__name__, str(error))
answer({{"outcome": outcome, "evidence": bench.evidence.as_dict()}})
"""
