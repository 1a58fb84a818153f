"""Each test runs in a process of its own, forked from one that has imported torch: a cold CUDA.

``python tests/stand_in/run.py -m pytest tests/stand_in``, or ``nox -s stand_in``.
"""

from __future__ import annotations

import os
import pickle
import traceback
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from runtime import Runtime


@pytest.fixture
def cuda() -> Runtime:
    """The stand-in of the test's own process."""
    from runtime import Runtime

    return Runtime()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Fork, run the test in the child, and raise here what it raised there."""
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        with os.fdopen(writing, "wb") as pipe:
            pickle.dump(_outcome(pyfuncitem.obj, arguments), pipe)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        sent = pipe.read()
    _, status = os.waitpid(child, 0)
    if not sent:
        pytest.fail(f"the test's process ended with status {status}", pytrace=False)
    kind, text = pickle.loads(sent)
    if kind == "skipped":
        pytest.skip(text)
    if kind == "failed":
        pytest.fail(text, pytrace=False)
    return True


def _outcome(function: Any, arguments: dict[str, Any]) -> tuple[str, str]:
    try:
        function(**arguments)
    except pytest.skip.Exception as skipped:
        return "skipped", str(skipped)
    except BaseException:  # noqa: BLE001  whatever it is, the parent raises it again
        return "failed", traceback.format_exc()
    return "passed", ""
