"""Runs a user's program in this process, as Python itself would."""

from __future__ import annotations

import builtins
import io
import sys
from importlib.machinery import SourceFileLoader
from types import ModuleType


def run_source(path: str) -> None:
    """Run like Python and unlike runpy: ``__file__`` is absolute, ``sys.argv[0]`` as given.

    The module also stays ``__main__`` for the program's exit handlers.
    """
    with io.open_code(path) as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)
    module = sys.modules["__main__"] = ModuleType("__main__")
    module.__dict__.update(__file__=path, __cached__=None, __builtins__=builtins)
    module.__loader__ = SourceFileLoader("__main__", path)
    exec(code, module.__dict__)  # noqa: S102  the user's program
