"""The child process of ``unidev info`` and ``unidev doctor``: writes one answer to a file.

``python -m unidev.backends.query_child overview FILE`` lists the plugins and the selected backend;
``… plugin FILE SOURCE`` loads one plugin and its framework; ``… installation FILE SOURCE`` reports
what that framework was built for. A file, because a framework may print anything to stdout.
"""

from __future__ import annotations

import dataclasses
import gc
import json
import sys
import traceback
from typing import TYPE_CHECKING, Any

from unidev.backends.description import capabilities, device_entries
from unidev.backends.discovery import Plugin, backend_spec, facts_of, find_plugins
from unidev.backends.known_frameworks import KnownFramework
from unidev.backends.loading import is_installed
from unidev.backends.selection import active_backend, backend_choice, set_backend
from unidev.backends.versions import framework_version
from unidev.contract.backend import Unsupported
from unidev.errors import UnidevError
from unidev.system.atomic_file import write_whole

if TYPE_CHECKING:
    from collections.abc import Callable

    from unidev.contract.backend import Backend

    Answer = dict[str, Any]


def overview() -> Answer:
    """Every plugin, judged beside the others, and the choice; imports no framework."""
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


def ask_plugin(source: str, ask: Callable[[Backend], Answer]) -> Answer:
    """The facts about one plugin, and what ``ask`` answers about its backend, which is loaded."""
    plugin = _found(source)
    answer, spec = _plugin(plugin), plugin.spec
    if spec is None:
        return answer
    try:
        if not is_installed(spec.framework):
            problem = f"{spec.framework} is not installed. Install it with: {spec.install}"
            return {**answer, "state": "no framework", "problem": problem}
        set_backend(spec.name)
        backend = active_backend()
        version = framework_version(backend)
        return {**answer, "state": "works", "framework_version": version, **ask(backend)}
    except Exception as error:  # noqa: BLE001  a backend may raise anything: that is the answer
        kind = "" if isinstance(error, UnidevError) else f"{type(error).__name__}: "
        failed = {"state": "fails", "problem": f"{kind}{error}"}
        return {**answer, **failed, "traceback": traceback.format_exc()}


def _found(source: str) -> Plugin:
    return next(each for each in find_plugins() if each.source == source)


def _plugin(plugin: Plugin) -> Answer:
    spec = plugin.spec
    state = (
        "disabled" if plugin.is_disabled
        else "refused" if plugin.refusal
        else "found" if spec
        else "works" if plugin.launcher  # there is no framework to load
        else "broken"
    )  # fmt: skip
    return {**facts_of(plugin), "state": state}


def _installation(backend: Backend) -> Answer:
    """The build of the framework, and the number of GPUs that it can use."""
    installation = backend.installation
    if isinstance(installation, Unsupported):
        return {"build": None, "gpus_seen": backend.device_count("gpu")}
    build = dataclasses.asdict(installation.build())
    return {"build": build, "gpus_seen": installation.usable_gpus()}


def _devices(backend: Backend) -> Answer:
    return {
        "devices": [dataclasses.asdict(each) for each in device_entries(backend)],
        "capabilities": {
            name: dataclasses.asdict(each) for name, each in capabilities(backend).items()
        },
    }


def main(arguments: list[str]) -> None:
    """Write the answer to the file, completely or not at all."""
    kind, file, *rest = arguments
    if kind == "overview":
        answer = overview()
    elif kind == "plugin":
        answer = ask_plugin(rest[0], _devices)
    else:
        answer = ask_plugin(rest[0], _installation)
        spec = _found(rest[0]).spec
        answer["known"] = None if spec is None else KnownFramework.of(spec)._asdict()
    write_whole(file, json.dumps(answer))
    gc.freeze()  # else the last collection looks through all that the framework has made


if __name__ == "__main__":
    main(sys.argv[1:])
