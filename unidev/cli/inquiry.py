"""What a child of ``unidev info`` does: asks one thing, and writes the answer to a file.

``python -m unidev.cli.inquiry overview FILE`` asks which plugins there are and what is chosen;
``… plugin FILE SOURCE`` loads one plugin and its framework. A file, since a framework may print
anything to stdout.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import traceback
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import unidev
from unidev.errors import UnidevError
from unidev.plugins import Plugin, backend_spec, find_plugins
from unidev.selection import backend_choice

if TYPE_CHECKING:
    from unidev.backend import BackendSpec

    Answer = dict[str, Any]


def overview() -> Answer:
    """Every plugin as it looks among the others, and the choice; imports no framework."""
    answer: Answer = {"plugins": [_plugin(each) for each in find_plugins()]}
    try:
        choice = backend_choice()
    except UnidevError as error:
        answer["choice"] = {"name": None, "reason": str(error), "problem": None}
        return answer
    problem = None
    try:
        backend_spec(choice.name)
    except UnidevError as error:
        problem = str(error)
    answer["choice"] = {"name": choice.name, "reason": choice.reason, "problem": problem}
    return answer


def ask_plugin(source: str) -> Answer:
    """What one plugin, its framework and its devices are like; imports the framework."""
    plugin = next(each for each in find_plugins() if each.source == source)
    answer = _plugin(plugin)
    if plugin.spec is not None:
        try:
            answer |= _ask_framework(plugin.spec)
        except Exception as error:  # noqa: BLE001  what a stranger's backend raises is the answer
            said = (
                str(error) if isinstance(error, UnidevError) else f"{type(error).__name__}: {error}"
            )
            answer |= {"state": "fails", "problem": said, "traceback": traceback.format_exc()}
    return answer


def _plugin(plugin: Plugin) -> Answer:
    state = "disabled" if plugin.is_disabled else "found" if plugin.spec else "broken"
    spec = plugin.spec
    return {
        "plugin": plugin.name,
        "source": plugin.source,
        "distribution": plugin.distribution,
        "state": state,
        "backend": spec.name if spec else None,
        "framework": spec.framework if spec else None,
        "install": spec.install if spec else None,
        "problem": plugin.failure,
        "traceback": plugin.traceback,
    }


def _ask_framework(spec: BackendSpec) -> Answer:
    if find_spec(spec.framework) is None:
        return {
            "state": "no framework",
            "problem": f"{spec.framework} is not installed. Install it with: {spec.install}",
        }
    unidev.set_backend(spec.name)
    unidev.list_devices()  # what follows keeps errors to itself; here they are the answer
    from unidev.conformance.subject import described

    session = described(unidev.active_backend(), "tensor", [])
    return {
        "state": "works",
        "framework_version": session.framework_version,
        "devices": [dataclasses.asdict(each) for each in session.devices],
        "capabilities": {
            name: dataclasses.asdict(each) for name, each in session.capabilities.items()
        },
    }


def main(arguments: list[str]) -> None:
    """Ask, and write the answer whole or not at all."""
    kind, file, *rest = arguments
    answer = overview() if kind == "overview" else ask_plugin(rest[0])
    part = Path(f"{file}.part")
    part.write_text(json.dumps(answer), encoding="utf-8")
    os.replace(part, file)


if __name__ == "__main__":
    main(sys.argv[1:])
