"""A pytest plugin: each test's function runs in a pytest of its own, and ends with that process.

For tests that start workers by the program's own command line: the suite leaves them out where
others run in the same process.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pytest

from programs_of_others.counting import read_junit
from programs_of_others.running import LONGEST, run_in_group

LAST = 20_000
"""Characters of a failed test's output that its report keeps."""


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool:
    """Run the test in another process, and pass on its result; ``--timeout`` interrupts it."""
    name = pyfuncitem.nodeid.partition("::")[2]
    with tempfile.TemporaryDirectory() as folder:
        junit, log = Path(folder) / "one.xml", Path(folder) / "one.log"
        command = [
            sys.executable, "-m", "pytest", f"{pyfuncitem.path}::{name}", "-v", "--tb=short",
            "--color=no", "--capture=no",  # pytest's own is lost where a worker's end kills it
            "-p", "no:cacheprovider", "--junitxml", str(junit),
        ]  # fmt: skip
        code = run_in_group(
            command,
            log=log,
            about=name,
            limit=LONGEST,
            cwd=pyfuncitem.config.invocation_params.dir,
            variables=os.environ,
        )
        counts = read_junit(junit)
        output = log.read_text(errors="replace")[-LAST:]
    if counts is not None and counts.skips:
        pytest.skip(counts.skips[0])
    if code != 0 or counts is None or not counts.passed:
        pytest.fail(f"exit code {code}\n{output}", pytrace=False)
    return True
