"""Simulated GPUs for the programs that ``unidev simulate`` starts, before their first line.

The command puts this folder first on PYTHONPATH, so each Python imports this file as it starts, and
children inherit it. It then hands on to the ``sitecustomize`` that this one hides, if there is any.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

_HERE = os.path.dirname(os.path.abspath(__file__))


def _activate() -> str | None:
    """Set up the simulated GPUs; returns why this Python must not go on, if so."""
    try:
        from unidev.backends.import_hook import activate

        activate()
    except (ImportError, SyntaxError) as error:
        # Another Python than that of the command, such as the system's in a shell script.
        reason = "unidev is not installed there"
        if getattr(error, "name", None) != "unidev":  # not whole there, or for a newer Python
            reason = f"unidev cannot be imported there ({error})"
        _say(f"no simulated GPUs in {sys.executable}: {reason}.")
    except Exception as error:  # noqa: BLE001  `site` would note it in half a line, and go on
        is_ours = type(error).__module__ == "unidev.errors"  # which may be half imported
        return str(error) if is_ours else f"{type(error).__name__}: {error}"
    return None


def _hand_on() -> None:
    """Run the next ``sitecustomize``, which ``sys.modules`` then has, as if this were not there."""
    path = [each for each in sys.path if os.path.abspath(each) != _HERE]
    spec = PathFinder.find_spec("sitecustomize", path)
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


def _say(text: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(f"unidev: {text}\n")
        sys.stderr.flush()


_failure = _activate()
try:
    _hand_on()
finally:
    if _failure is not None:
        _say(_failure)
        # An exception would not end the program: `site` notes it in half a line and goes on, and
        # of SystemExit, Python makes a fatal error with a traceback.
        os._exit(1)
