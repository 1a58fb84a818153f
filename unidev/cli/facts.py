"""What ``unidev info`` finds out, put together as one document."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from typing import TYPE_CHECKING, Any

import unidev
from unidev.registry.inquiry import ask_all

if TYPE_CHECKING:
    from unidev.support.child_processes import Interruption

    Answer = dict[str, Any]

VARIABLES = {
    "UNIDEV_BACKEND": "the backend that is used where nothing else says which",
    "UNIDEV_SIMULATE": "how many simulated GPUs there are",
    "UNIDEV_PLUGINS": "plugins that are not installed",
    "UNIDEV_DISABLED_PLUGINS": "plugins that are switched off",
    "UNIDEV_CACHE": "the folder of what simulators build",
}

_FOREIGN = "unidev"
"""A distribution of this name on PyPI is somebody else's; ours is ``unidev-core``."""


def gather(timeout_s: float, stop: Interruption) -> Answer:
    """Ask every plugin; what there is to know, as plain values."""
    overview, plugins = ask_all(timeout_s, stop)
    choice = overview.get("choice") or {
        "name": None,
        "reason": f"cannot be said: a plugin breaks the process ({overview.get('problem')})",
        "problem": None,
    }
    completed = [_completed(each, overview.get("plugins", [])) for each in plugins]
    return {
        "unidev": unidev.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "choice": {**choice, "problem": choice["problem"] or _problem_of(choice, completed)},
        "environment": environment(),
        "notices": notices(),
        "plugins": completed,
    }


def environment() -> dict[str, str]:
    """Variables of unidev's that are set, and their values."""
    return {
        name: value
        for name, value in sorted(os.environ.items())
        if name.startswith("UNIDEV_") and value
    }


def notices() -> list[str]:
    """What is wrong with the installation itself."""
    found = []
    try:
        version = importlib.metadata.version(_FOREIGN)
    except importlib.metadata.PackageNotFoundError:
        pass
    else:
        found.append(
            f"the distribution `{_FOREIGN}` {version} of PyPI is installed here. It is somebody "
            "else's, and has the same import name: one may have overwritten files of the other. "
            f"`pip uninstall {_FOREIGN}`, then install unidev-core again."
        )
    unknown = [name for name in environment() if name not in VARIABLES]
    if unknown:
        known = ", ".join(VARIABLES)
        found.append(f"not variables of unidev's own: {', '.join(unknown)} (those are {known})")
    return found


def _completed(answer: Answer, together: list[Answer]) -> Answer:
    """The plugin's own answer; what only shows beside the others, such as a name taken, wins."""
    answer = dict(answer)
    for other in together:
        if other["source"] == answer["source"]:
            for name in ("backend", "framework", "install"):  # a crash did not leave time for them
                answer[name] = answer[name] or other[name]
            if other["state"] in ("broken", "disabled"):
                told = ("state", "problem", "traceback")
                answer |= {name: other[name] for name in told}
    answer["remedy"] = _remedy(answer)
    return answer


def _problem_of(choice: Answer, plugins: list[Answer]) -> str | None:
    """Why the backend that is chosen cannot be used, as its plugin's own process told."""
    for each in plugins:
        if each["backend"] == choice["name"] is not None and each["state"] != "works":
            told = [each["problem"], each["remedy"]]
            return " ".join([f"{each['state']}:", *(said for said in told if said)])
    return None


def _remedy(answer: Answer) -> str | None:
    off = f"switch it off with UNIDEV_DISABLED_PLUGINS={answer['plugin']}"
    framework, install = answer["framework"], answer["install"]
    if answer["state"] in ("crashes", "hangs"):
        whole = f"see whether `python -c 'import {framework}'` works; " if framework else ""
        again = f"install it again ({install}); " if install else ""
        return f"{whole}{again}or {off}."
    if answer["state"] == "broken":
        return f"Reinstall or update {answer['distribution'] or answer['source']}, or {off}."
    if answer["state"] == "disabled":
        return "UNIDEV_DISABLED_PLUGINS names it; take it out of there to have it back."
    return None  # the problem's own message, unidev's, says what to do
