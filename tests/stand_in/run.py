"""Run a program on PyTorch's CUDA build where there is no GPU.

``python tests/stand_in/run.py SCRIPT ARGUMENTS`` (or ``-m MODULE``, ``-c PROGRAM``) runs it with
the interpreter that runs this file, whose environment needs torch's CUDA build, unidev and
unidev-torch. README.md beside this file says what the stand-in does, and its settings.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from building import Unavailable, environment


def main(arguments: list[str]) -> NoReturn:
    """Replace this process by the program."""
    if not arguments:
        sys.exit(__doc__)
    try:
        added = environment()
    except Unavailable as error:
        sys.exit(f"the stand-in for CUDA does not run here: {error}")
    os.execve(sys.executable, [sys.executable, *arguments], {**os.environ, **added})


if __name__ == "__main__":
    main(sys.argv[1:])
