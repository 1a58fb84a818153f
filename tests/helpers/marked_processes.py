"""Processes that inherit a variable of a test."""

from __future__ import annotations

import os
import time

import psutil

LIMIT_S = 90.0
"""Generous: the machine may be busy."""


def all_gone(value: str) -> bool:
    """Whether no marked process is left, at the latest after a while."""
    until, looks = time.monotonic() + LIMIT_S, 0
    while looks < 2 and time.monotonic() < until:
        looks = 0 if marked(value) else looks + 1
        time.sleep(0.05)
    return looks == 2  # twice: a process has no environment while it starts a program


def marked(value: str) -> list[str]:
    """The command lines of the other living processes with that mark; a zombie has none."""
    found = [each.info for each in psutil.process_iter(["pid", "environ", "cmdline"])]
    return [
        " ".join(each["cmdline"])
        for each in found
        if each["pid"] != os.getpid() and each["cmdline"]
        if value in (each["environ"] or {}).values()
    ]
