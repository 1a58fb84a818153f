"""Asks each question in a fork of this process, in which torch has been imported.

One line of JSON on stdin has them all, ``[liar or null, question]``; each answer is one on stdout.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import traceback

import cuda_questions_of_training  # noqa: F401  adds its questions
from cuda_questions import QUESTIONS

# isort: split
from cuda_liars import LIARS

LIMIT_S = 240
gc.freeze()  # what is there is not looked through, and so not copied, in each fork


def answer(liar: str | None, name: str) -> str:
    """``right``; or the assertion that failed; or what else was raised."""
    if liar is not None:
        LIARS[liar][0]()
    try:
        QUESTIONS[name]()
    except AssertionError:
        return f"wrong: {traceback.format_exc()}"
    except Exception:  # noqa: BLE001  a question that breaks is an answer, too: not a right one
        return f"raised: {traceback.format_exc()}"
    return "right"


def in_a_fork(liar: str | None, name: str) -> str:
    """The answer of a copy of this process, or how that ended."""
    mine, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(mine)
        signal.alarm(LIMIT_S)
        os.write(theirs, answer(liar, name).encode()[-4000:])
        os._exit(0)
    os.close(theirs)
    with os.fdopen(mine, "rb") as pipe:
        said = pipe.read().decode(errors="replace")
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return said or f"raised: the process ended with {status}"


for liar, name in json.loads(sys.stdin.readline()):
    sys.stdout.write(json.dumps([liar, name, in_a_fork(liar, name)]) + "\n")
    sys.stdout.flush()  # the next fork would have it, too
