"""The text output of ``unidev info``."""

from __future__ import annotations

from itertools import groupby
from textwrap import indent
from typing import TYPE_CHECKING, Any

from rich.text import Text

from unidev.backends.description import abilities
from unidev.cli.capability_table import working
from unidev.cli.facts import variables
from unidev.cli.gpus import bare_table, gpu_table

if TYPE_CHECKING:
    from rich.console import Console

    Answer = dict[str, Any]

_COLOURS = {"works": "green", "no framework": "yellow", "disabled": "yellow", "refused": "yellow"}
_WORDS = {True: Text("yes", style="green"), False: Text("no", style="yellow")}


def print_info(document: Answer, console: Console, *, verbose: bool) -> None:
    """Print the table, the choice, problems and environment variables."""
    console.print(
        Text(f"unidev {document['unidev']}, Python {document['python']}, {document['platform']}")
    )
    console.print()
    _print_table(document, console)
    console.print()
    if document["gpus"]:
        console.print(Text("by NVIDIA's driver:"))
        console.print(gpu_table(document["gpus"]))
        console.print()
    choice = document["choice"]
    console.print(Text(f"chosen: {choice['name'] or 'none'} ({choice['reason']})"))
    if choice["problem"]:
        console.print(Text(f"  cannot be used: {choice['problem']}", style="red"))
    for each in document["plugins"]:
        if each["problem"] or each["state"] == "disabled":
            _print_problem(each, console, verbose=verbose)
    for notice in document["notices"]:
        console.print()
        console.print(Text(f"notice: {notice}", style="yellow"))
    _print_environment(document["environment"], variables(document["plugins"]), console)
    console.print()
    console.print(Text(f"next: {_next_step(document)}"))


def print_capabilities(document: Answer, console: Console) -> None:
    """Print what each backend supports, and below it the reasons for what it does not."""
    plugins = working(document)
    table = bare_table("ability", *(each["backend"] for each in plugins))
    reasons: list[str] = []
    for ability, label in abilities().items():
        shown = label.replace("`", "")  # Markdown's
        reported = [each["capabilities"].get(ability) for each in plugins]
        table.add_row(shown, *("?" if t is None else _WORDS[t["supported"]] for t in reported))
        reasons += [
            f"{each['backend']}, {shown}: {t['reason']}" + (f" ({t['link']})" if t["link"] else "")
            for each, t in zip(plugins, reported, strict=True)
            if t is not None and not t["supported"]
        ]
    console.print(table)
    console.print()
    for reason in reasons:
        console.print(Text(reason))


def devices_in_short(devices: list[Answer]) -> str:
    """``cpu:0, gpu:0 to gpu:3 (simulated, sim:0 to sim:3)``; real GPUs with their names."""
    parts = []
    for (_, name), group in groupby(devices, key=_described):
        same = list(group)
        span, native = (_span([each[field] for each in same]) for field in ("device", "native"))
        # NumPy has no name of its own for them.
        also = [native] if same[0]["simulated"] and native != span else []
        parts.append(f"{span} ({', '.join([name, *also])})" if name else span)
    return ", ".join(parts)


def _described(device: Answer) -> tuple[str, str]:
    kind = device["device"].partition(":")[0]
    if device["simulated"]:
        return kind, "simulated"
    return kind, "" if kind == "cpu" else device["name"]


def _span(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"


def _print_table(document: Answer, console: Console) -> None:
    table = bare_table("", "backend", "framework", "devices", "state", "plugin")
    for each in document["plugins"]:
        is_chosen = each["backend"] is not None and each["backend"] == document["choice"]["name"]
        table.add_row(
            "*" if is_chosen else "",
            Text(each["backend"] or ("-" if each["launcher"] else "?")),
            Text(_provided(each)),
            Text(devices_in_short(each["devices"])),
            Text(each["state"], style=_COLOURS.get(each["state"], "red")),
            Text(each["distribution"] or each["source"]),
        )
    console.print(table)


def _provided(answer: Answer) -> str:
    """The framework with its version, or the launcher of a plugin that has no backend."""
    if answer["backend"] is None and answer["launcher"]:
        return f"launcher {answer['launcher']}"
    return f"{answer['framework'] or '?'} {answer['framework_version'] or ''}".strip()


def _print_problem(answer: Answer, console: Console, *, verbose: bool) -> None:
    console.print()
    console.print(Text(f"{answer['plugin']} ({answer['source']}): {answer['state']}", style="bold"))
    for line in (answer["problem"], answer["remedy"]):
        if line:
            console.print(Text(indent(line, "  ")))
    if answer["traceback"]:
        if verbose:
            console.print(Text(indent(answer["traceback"].rstrip(), "    ")))
        else:
            console.print(Text("  For the traceback, run `unidev info --verbose`."))


def _print_environment(found: dict[str, str], meanings: dict[str, str], console: Console) -> None:
    console.print()
    if not found:
        console.print(Text("environment: no UNIDEV_ variables are set"))
    for name, value in found.items():
        meaning = meanings.get(name, "not used by unidev")
        console.print(Text(f"environment: {name}={value} ({meaning})"))


def _next_step(document: Answer) -> str:
    """What to type next, by what the chosen backend has."""
    choice = document["choice"]
    chosen = [each for each in document["plugins"] if each["backend"] == choice["name"] is not None]
    devices = [device for each in chosen for device in each["devices"]]
    gpus = [each for each in devices if not each["device"].startswith("cpu:")]
    if choice["problem"] or not devices:
        return "`unidev info --verbose` shows the tracebacks of what fails"
    if not gpus:
        return (
            "`unidev doctor` finds out why there is no GPU; UNIDEV_SIMULATE=2, set before Python "
            "starts, simulates two"
        )
    if gpus[0]["simulated"]:
        return "`unidev trace PROGRAM.py` shows what a program moves between these devices"
    return "`unidev bench` measures what the GPU is worth"
