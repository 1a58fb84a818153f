"""Queries all plugins at once, each in its own process, which may crash or hang."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unidev.backends.discovery import EMBEDDED, Plugin, distribution_of, facts_of, plugin_points
from unidev.system.child_processes import LOOK_S, ChildProcess, describe_exit
from unidev.system.progress import progress
from unidev.system.settings import DISABLED_PLUGINS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from importlib.metadata import EntryPoint

    from unidev.system.child_processes import Interruption

    Answer = dict[str, Any]
    _Question = tuple[str, Sequence[str], Mapping[str, str]]
    """A name, the kind of question and the plugin's source, and variables of the child."""

_EXIT_LIMIT_S = 5.0
"""How long a process may take to end after it has answered."""


class _Query:
    """One child process that is being queried."""

    def __init__(
        self, name: str, words: Sequence[str], environment: Mapping[str, str], folder: Path
    ) -> None:
        self.name = name
        self.file = folder / "answer.json"
        self.answered: float | None = None
        kind, *rest = words
        command = [sys.executable, "-X", "faulthandler", "-m", "unidev.backends.query_child", kind]
        self.child = ChildProcess(
            [*command, str(self.file), *rest], folder, environment={**os.environ, **environment}
        )

    def is_over(self) -> bool:
        if not self.child.is_running():
            return True
        if self.answered is None and self.file.exists():
            self.answered = time.monotonic()
        return self.answered is not None and time.monotonic() - self.answered > _EXIT_LIMIT_S

    def answer(self, timeout_s: float) -> Answer:
        """Its answer; if it gave none, how it ended."""
        was_alive = self.child.is_running()
        self.child.end()
        if self.file.exists():
            found: Answer = json.loads(self.file.read_text(encoding="utf-8"))
            return found
        lines = self.child.tail()
        if was_alive:
            how = f"no answer within {timeout_s:g} s"
            return {"state": "hangs", "problem": f"{how}; see --timeout", "traceback": lines}
        how = describe_exit(self.child.exit_code)
        return {"state": "crashes", "problem": f"its process ended: {how}", "traceback": lines}


def ask_all(timeout_s: float, stop: Interruption) -> tuple[Answer, list[Answer]]:
    """The overview, and the answer of each plugin, in order."""
    points = list(plugin_points())
    questions = [_question(point, points, "plugin", {}) for point in points]
    overview: _Question = ("overview", ("overview",), {})
    (about_all, _), *rest = _asked([overview, *questions], timeout_s, stop)
    return about_all, [
        {**_unasked(point), **answer} for point, (answer, _) in zip(points, rest, strict=True)
    ]


def ask_plugins(
    kind: str,
    points: Sequence[EntryPoint],
    timeout_s: float,
    stop: Interruption,
    environment: Mapping[str, str],
) -> list[Answer]:
    """Each plugin's answer to one kind of question, with what it printed, in order."""
    every = list(plugin_points())
    questions = [_question(point, every, kind, environment) for point in points]
    return [
        {**_unasked(point), **answer, "said": lines}
        for point, (answer, lines) in zip(points, _asked(questions, timeout_s, stop), strict=True)
    ]


def _question(
    point: EntryPoint, points: list[EntryPoint], kind: str, environment: Mapping[str, str]
) -> _Question:
    # The others are disabled there, so one that crashes on import does not affect them.
    others = {each.name for each in points} - {point.name, EMBEDDED}
    given = os.environ.get(DISABLED_PLUGINS, "")
    disabled = ",".join([given, *sorted(others)])
    environment = {**environment, DISABLED_PLUGINS: disabled}
    return point.name, (kind, point.value), environment


def _asked(
    questions: Sequence[_Question], timeout_s: float, stop: Interruption
) -> list[tuple[Answer, str]]:
    """The answer to each question, and what its process printed."""
    with tempfile.TemporaryDirectory(prefix="unidev-info-", ignore_cleanup_errors=True) as top:
        queries: list[_Query] = []
        try:
            for number, question in enumerate(questions):
                queries.append(_Query(*question, Path(top) / str(number)))
            _wait(queries, timeout_s, stop)
        finally:
            answers = [each.answer(timeout_s) for each in queries]
        return [(answer, each.child.tail()) for each, answer in zip(queries, answers, strict=True)]


def _wait(queries: list[_Query], timeout_s: float, stop: Interruption) -> None:
    began = time.monotonic()
    waiting = queries
    with progress("asking the plugins") as step:
        while waiting and not stop and time.monotonic() - began < timeout_s:
            step(f"asking {', '.join(each.name for each in waiting)}")
            time.sleep(LOOK_S)
            waiting = [each for each in waiting if not each.is_over()]


def _unasked(point: EntryPoint) -> Answer:
    """The facts about a plugin that are known without importing it."""
    known = facts_of(Plugin(point.name, point.value, distribution_of(point)))
    return {**known, "framework_version": None, "devices": [], "capabilities": {}}
