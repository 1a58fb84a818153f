"""Programs in processes that fork from one which has imported what they need.

Importing a framework takes 1 to 5 seconds of a processor, and what the tests then run in it mostly
a tenth of that. So, on Linux, the framework is imported once, and each program gets a copy of that
process as its own. It may not have computed: PyTorch and TensorFlow hang in copies of a process
that has. Elsewhere each program gets a fresh interpreter.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import re
import runpy
import select
import signal
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LIMIT_S = 840.0
"""A little less than each test has: the whole suite takes long beside a dozen busy processes."""
IMPORTED_LATER = ("paddle",)
"""Paddle looks for simulated devices while it is imported, so each program imports it by itself."""
EXAMPLES = (
    "rich.progress", "matplotlib.figure", "matplotlib.backends.backend_agg", "sklearn.datasets"
)  # fmt: skip
"""What the examples import besides, where it is installed."""
SUITE = ("conformance_warm",)
"""What imports all that the suite imports besides."""


def run_program(
    words: Sequence[str],
    *,
    backend: str,
    also: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
) -> subprocess.CompletedProcess[str]:
    """As ``subprocess.run([sys.executable, *words])``, in a copy of a warm process.

    Args:
        words: a script, ``-m`` and a module, or ``-c`` and a program, and its options; before them
            may stand ``-W`` and an action.
        backend: the backend whose framework is imported already.
        also: modules that are imported already, too.
        environment: of the program.
        folder: in which it runs.
    """
    if sys.platform != "linux":
        return run_fresh(words, environment=environment, folder=folder)
    with tempfile.TemporaryDirectory() as kept:
        out, err = Path(kept, "out"), Path(kept, "err")
        code = _warm(backend, *also).run(
            {"words": list(words), "environment": dict(environment), "folder": str(folder),
             "outputs": [str(out), str(err)]}
        )  # fmt: skip
        return subprocess.CompletedProcess(list(words), code, out.read_text(), err.read_text())


def run_fresh(
    words: Sequence[str], *, environment: Mapping[str, str], folder: Path
) -> subprocess.CompletedProcess[str]:
    """The same in a fresh interpreter, in which nothing is imported yet."""
    return subprocess.run(
        [sys.executable, *words], env=dict(environment), cwd=folder,
        capture_output=True, text=True, timeout=LIMIT_S,
    )  # fmt: skip


class Warm:
    """A process that waits for programs, and copies itself for each."""

    def __init__(self, backend: str, *also: str) -> None:
        own = {name: value for name, value in os.environ.items() if not name.startswith("UNIDEV_")}
        own["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))  # what is imported is there
        own["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        self._process = subprocess.Popen(
            [sys.executable, __file__, backend, *also], env=own, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True,
        )  # fmt: skip
        atexit.register(self.end)

    def run(self, order: Mapping[str, object]) -> int:
        """The exit status of that program, once it has ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(order), file=self._process.stdin, flush=True)
        if not select.select([self._process.stdout], [], [], LIMIT_S)[0]:
            os.killpg(self._process.pid, signal.SIGKILL)
            _warm.cache_clear()
            raise subprocess.TimeoutExpired(str(order["words"]), LIMIT_S)
        return int(self._process.stdout.readline())

    def end(self) -> None:
        """End the process, which has no more to do."""
        self._process.communicate(timeout=LIMIT_S)


_warm = functools.cache(Warm)


def import_all(backend: str, *also: str) -> None:
    """Import the framework and these modules, as far as they are here."""
    from unidev.backends.discovery import backend_specs
    from unidev.backends.loading import load_class

    spec = backend_specs().get(backend)
    if spec is not None and backend not in IMPORTED_LATER:
        load_class(spec)
    for name in also:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def become(order: dict[str, Any], nothing: int) -> None:
    """Be a process that was started with this order."""
    outputs = [os.open(path, os.O_WRONLY | os.O_CREAT) for path in order["outputs"]]
    for number, to in enumerate([nothing, *outputs]):
        os.dup2(to, number)
    os.environ.clear()
    os.environ.update(order["environment"])
    os.chdir(order["folder"])
    sys.argv = order["words"]
    atexit.register(gc.freeze)  # the last collection would look through all of the framework


def run(words: list[str]) -> None:
    """As ``python`` followed by ``words`` does."""
    if words[0] == "-W":
        action, _, message = words[1].partition(":")
        warnings.filterwarnings(action, re.escape(message))  # type: ignore[arg-type]
        run(words[2:])
    elif words[0] == "-c":
        sys.path[0] = ""
        sys.argv = ["-c", *words[2:]]
        exec(compile(words[1], "<string>", "exec"), {"__name__": "__main__"})
    elif words[0] == "-m":
        sys.path[0] = os.getcwd()
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(Path(words[0]).parent)
        runpy.run_path(words[0], run_name="__main__")


def main() -> None:
    """Take orders until there are no more; a copy runs one, and ends as a program does."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what an import prints is no answer
    nothing = os.open(os.devnull, os.O_RDONLY)
    import_all(*sys.argv[1:])
    gc.freeze()
    for line in sys.stdin:
        child = os.fork()
        if not child:
            answers.close()
            become(json.loads(line), nothing)
            run(sys.argv)
            return
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), file=answers, flush=True)


if __name__ == "__main__":
    main()
