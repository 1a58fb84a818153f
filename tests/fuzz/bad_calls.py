"""Drawn bad calls of every public function: no abort, no hang, no error that is not unidev's.

    python tests/fuzz/bad_calls.py torch --calls 2000 [--seed 0] [--simulate 2]
    python tests/fuzz/bad_calls.py torch --only 1234  # one call again, in this process

A child process makes the calls, one after another, and is started anew where it has died or hangs.
A call depends only on the seed and its number, so each can be made again on its own. Allowed are a
result, an ``UnidevError``, the ``TypeError`` of a wrong signature, and ``OfTheUser``, which the
functions among the arguments raise. What is drawn stands in ``bad_arguments.py``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bad_arguments import Arguments, OfTheUser, bad_things, drawn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HANGS_AFTER_S = 60.0
START_S = 300.0
ROOM_BYTES = 3 * 2**30
"""What a child may allocate besides what it has when the backend is loaded."""


class Finding(NamedTuple):
    """A call that did what no call may do."""

    number: int
    call: str
    outcome: str


# -- one call --------------------------------------------------------------------------------------


def outcome(call: Callable[[], Any]) -> str | None:
    """None if the call did what a call may do, else what it did."""
    from unidev.errors import UnidevError

    try:
        call()
    except (UnidevError, OfTheUser):
        return None
    except OSError as error:
        return None if error.filename is not None else _told(error)  # documented, for paths
    except TypeError as error:
        calls = error.__traceback__.tb_next if error.__traceback__ else None
        if calls is not None and calls.tb_next is None:  # raised by the call itself: its signature
            return None
        return _told(error)
    except Exception as error:  # noqa: BLE001  this is what is looked for
        return _told(error)
    return None


def _told(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)[-6:]
    where = " < ".join(f"{Path(each.filename).name}:{each.lineno}" for each in reversed(frames))
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  the frameworks' own may not let themselves be shown
        text = "?"
    return f"{type(error).__module__}.{type(error).__name__}: {text[:300]} [{where}]"


def make_calls(backend_name: str, seed: int, numbers: range, say: Callable[[str], None]) -> None:
    """Make these calls in this process, and say what happens: a line before and one after each."""
    import unidev
    from unidev.backends.loading import load_backend

    with tempfile.TemporaryDirectory() as folder:
        arguments = Arguments(load_backend(backend_name), Path(folder))
        bad_things()
        _limit_memory()
        say(json.dumps(["ready"]))
        for number in numbers:
            text, call = drawn(number, seed, arguments)
            say(json.dumps(["call", number, text]))
            with unidev.use_backend(backend_name):
                found = outcome(call)
            say(json.dumps(["done", number, found]))


def _limit_memory() -> None:
    # Else a size just below what the machine has would take it all.
    with contextlib.suppress(ImportError, OSError):
        import resource

        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + ROOM_BYTES,) * 2)


# -- the parent ------------------------------------------------------------------------------------


def findings(
    backend: str, calls: int, *, seed: int = 0, simulate: int = 2, first: int = 0
) -> Iterator[Finding]:
    """What went wrong in ``calls`` calls from number ``first`` on."""
    number, end = first, first + calls
    while number < end:
        command = [sys.executable, __file__, backend, "--child", "--seed", str(seed)]
        command += ["--first", str(number), "--calls", str(end - number)]
        environment = {**os.environ, "UNIDEV_BACKEND": backend, "UNIDEV_SIMULATE": str(simulate)}
        child = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        at, text = number, "the start"
        lines = _lines(child)
        try:
            wait = START_S
            while (line := lines.get(timeout=wait)) is not None:
                kind, *rest = json.loads(line)
                wait = HANGS_AFTER_S
                if kind == "call":
                    at, text = rest
                    number = at + 1
                elif kind == "done" and rest[1] is not None:
                    yield Finding(at, text, rest[1])
        except queue.Empty:
            yield Finding(at, text, f"no answer within {wait:g} s")
            number = max(number, at + 1)
        finally:
            child.kill()
            child.wait()
        if number < end and line is None:
            yield Finding(at, text, f"the process ended with {child.returncode}")
            if text == "the start":
                return


def _lines(child: subprocess.Popen[str]) -> queue.Queue[str | None]:
    found: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        assert child.stdout is not None
        with child.stdout:
            for line in child.stdout:
                found.put(line)
        child.wait()  # its exit status, before anything ends it
        found.put(None)

    threading.Thread(target=read, daemon=True).start()
    return found


def main() -> int:
    """The command at the top of this file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("backend")
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--simulate", type=int, default=2)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", type=int)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        out = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)  # what the frameworks print is no answer
        numbers = range(given.first, given.first + given.calls)
        make_calls(
            given.backend, given.seed, numbers, lambda line: print(line, file=out, flush=True)
        )
        return 0
    if given.only is not None:
        os.environ.update(UNIDEV_BACKEND=given.backend, UNIDEV_SIMULATE=str(given.simulate))
        make_calls(given.backend, given.seed, range(given.only, given.only + 1), print)
        return 0
    count = 0
    for found in findings(
        given.backend, given.calls, seed=given.seed, simulate=given.simulate, first=given.first
    ):
        count += 1
        print(f"{found.number}: {found.call}\n    {found.outcome}", flush=True)
    print(f"{given.backend}: {given.calls} calls, {count} of them did what none may do")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
