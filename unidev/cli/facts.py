"""Gathers what ``unidev info`` shows, as one document."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from importlib import metadata
from typing import TYPE_CHECKING, Any

import unidev
from unidev.backends.queries import ask_all
from unidev.cli.gpus import gpus
from unidev.errors import UnidevError
from unidev.system.settings import SETTINGS, Setting

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unidev.system.child_processes import Interruption

    Answer = dict[str, Any]

_FOREIGN = "unidev"
"""The PyPI distribution of this name is an unrelated project; ours is ``unidev-core``."""


def gather(timeout_s: float, stop: Interruption) -> Answer:
    """Query every plugin; returns everything as plain values."""
    overview, plugins = ask_all(timeout_s, stop)
    choice = overview.get("choice") or {
        "name": None,
        "reason": f"unknown: a plugin breaks the process ({overview.get('problem')})",
        "problem": None,
    }
    completed = [_completed(each, overview.get("plugins", [])) for each in plugins]
    return {
        "unidev": unidev.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "gpus": gpus(),
        "choice": {**choice, "problem": choice["problem"] or _problem_of(choice, completed)},
        "environment": environment(),
        "notices": notices(variables(completed)),
        "plugins": completed,
    }


def variables(plugins: list[Answer]) -> dict[str, str]:
    """All variables and their meanings, those of launchers too."""
    return SETTINGS | {name: text for each in plugins for name, text in each["variables"].items()}


def environment() -> dict[str, str]:
    """The ``UNIDEV_`` variables that are set, and their values."""
    return {name: x for name, x in sorted(os.environ.items()) if name.startswith("UNIDEV_") and x}


def notices(meanings: Mapping[str, str]) -> list[str]:
    """Problems of the installation itself."""
    found = []
    with suppress(metadata.PackageNotFoundError):
        version = metadata.version(_FOREIGN)
        found.append(
            f"the PyPI distribution `{_FOREIGN}` {version} is installed here. It is an unrelated "
            "project with the same import name: one may have overwritten files of the other. Run "
            f"`pip uninstall {_FOREIGN}`, then reinstall unidev-core."
        )
    unknown = [name for name in environment() if name not in meanings]
    if unknown:
        known = ", ".join(meanings)
        found.append(f"unidev does not use these variables: {', '.join(unknown)} (it uses {known})")
    return [*found, *filter(None, map(_invalid, SETTINGS))]


def _invalid(variable: Setting) -> str | None:
    """The error that its value will be when it is read."""
    try:
        variable.value()
    except UnidevError as error:
        return str(error)
    return None


def _completed(answer: Answer, together: list[Answer]) -> Answer:
    """The plugin's own answer; problems that arise only among others, such as name clashes, win."""
    answer = dict(answer)
    for other in together:
        if other["source"] == answer["source"]:
            for name in ("backend", "framework", "install"):  # missing after a crash
                answer[name] = answer[name] or other[name]
            if other["state"] in ("broken", "disabled"):
                answer |= {name: other[name] for name in ("state", "problem", "traceback")}
    answer["remedy"] = _remedy(answer)
    return answer


def _problem_of(choice: Answer, plugins: list[Answer]) -> str | None:
    """Why the selected backend cannot be used, as its plugin's own process reported."""
    for each in plugins:
        if each["backend"] == choice["name"] is not None and each["state"] != "works":
            problem, remedy = each["problem"], each["remedy"]
            if problem and remedy:
                problem = f"{problem.rstrip('.')}."
            return " ".join([f"{each['state']}:", *filter(None, (problem, remedy))])
    return None


def _remedy(answer: Answer) -> str | None:
    off = f"disable it with UNIDEV_DISABLED_PLUGINS={answer['plugin']}"
    framework, install = answer["framework"], answer["install"]
    if answer["state"] in ("crashes", "hangs"):
        check = f"check whether `python -c 'import {framework}'` works; " if framework else ""
        again = f"reinstall it ({install}); " if install else ""
        steps = f"{check}{again}or {off}." if check or again else f"{off}."
        return steps[0].upper() + steps[1:]
    if answer["state"] == "broken":
        return f"Reinstall or update {answer['distribution'] or answer['source']}, or {off}."
    if answer["state"] == "disabled":
        return "UNIDEV_DISABLED_PLUGINS names it; remove it from there to enable it."
    return None  # unidev's own error message already includes the remedy
