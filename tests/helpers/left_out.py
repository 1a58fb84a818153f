"""A plugin of pytest: what was left out, and how to run it.

A file whose import fails for want of a tool is skipped, not an error of collection, unless the
session of nox has installed that tool (``needed.missing_tool``).
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest
from needed import missing_by, missing_tool

if TYPE_CHECKING:
    from collections.abc import Iterator

DESELECTED_BY_MARK = {"slow": "pytest -m slow"}
"""Marks whose tests a plain ``pytest`` deselects, and the command that runs them."""

_deselected: dict[str, int] = defaultdict(int)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Iterator[pytest.CollectReport | None]:
    """Skip a file that imports a tool which is not installed, or whose children do."""
    report: Any = yield
    if isinstance(collector, pytest.File):
        reason = missing_by(collector.nodeid)
        if reason is None and report.failed and report.call.excinfo is not None:
            reason = missing_tool(report.call.excinfo.value)
        if reason is not None:
            report.outcome, report.result = "skipped", []
            report.longrepr = (str(collector.path), 1, f"Skipped: {reason}")
            report.call.excinfo = None
    return report


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Count what a mark deselects."""
    for item in items:
        for mark in DESELECTED_BY_MARK:
            if item.get_closest_marker(mark) is not None:
                _deselected[mark] += 1


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand the counts of a worker of pytest-xdist to its controller."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["deselected_by_mark"] = dict(_deselected)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over a worker's counts; each worker deselects the same tests."""
    _deselected.update(getattr(node, "workeroutput", {}).get("deselected_by_mark", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line for each reason: how many tests or files, and where."""
    lines = [
        f"{count} marked {mark}: {DESELECTED_BY_MARK[mark]}"
        for mark, count in sorted(_deselected.items())
    ]
    tests: dict[str, set[str]] = defaultdict(set)
    for report in terminalreporter.stats.get("skipped", []):
        if isinstance(report.longrepr, tuple):
            reason = report.longrepr[2].removeprefix("Skipped: ")
            tests[reason].add(report.nodeid)
    for reason, nodes in sorted(tests.items()):
        lines.append(f"{_counted(nodes)}: {reason}")
    from running_examples import LEFT_OUT  # not at the start: it looks for the installed plugins

    lines += [f"tests/everywhere with {name}: {reason}" for name, reason in LEFT_OUT.items()]
    if lines:
        terminalreporter.section("left out")
        for line in lines:
            terminalreporter.write_line(line)


def _counted(nodes: set[str]) -> str:
    """``3 tests of tests/cli and 2 files of tests/data``; a node without ``::`` is a whole file."""
    files = {node for node in nodes if "::" not in node}
    tests = {node for node in nodes if node.partition("::")[0] not in files}
    owners = {node.partition("::")[0] for node in tests}
    parts = []
    if tests:
        parts.append(f"{len(tests)} test{'s' * (len(tests) > 1)} of {_where(owners)}")
    if len(files) == 1:
        parts.extend(files)
    elif files:
        parts.append(f"{len(files)} files of {_where(files)}")
    return " and ".join(parts)


def _where(files: set[str]) -> str:
    if len(files) == 1:
        return next(iter(files))
    folders = sorted({"/".join(file.split("/")[:-1][:2]) or "." for file in files})
    return ", ".join(folders[:4]) + ", …" * (len(folders) > 4)
