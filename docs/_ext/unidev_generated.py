"""Parts of pages that are made from the code, so that they cannot differ from it."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import click
from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.util import logging

import unidev
from unidev import errors
from unidev.cli import cli
from unidev.system.settings import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx

log = logging.getLogger(__name__)


def error_tree() -> str:
    """Each error with the builtin exception that it also is, below its parent."""
    rows = list(_below(errors.UnidevError, ""))
    width = max(len(drawn) for drawn, _ in rows)
    return "\n".join(f"{drawn:<{width}}  {builtin}".rstrip() for drawn, builtin in rows)


def _below(cls: type, indent: str, branch: str = "") -> Iterator[tuple[str, str]]:
    builtin = [each.__name__ for each in cls.__bases__ if each.__module__ == "builtins"]
    yield (
        indent + branch + cls.__name__,
        ", ".join(builtin) if cls.__name__ != "UnidevError" else "",
    )
    if branch:
        indent += "    " if branch.startswith("└") else "│   "
    children = [each for each in vars(errors).values() if _is_child(each, cls)]
    for child in children:
        yield from _below(child, indent, "└── " if child is children[-1] else "├── ")


def _is_child(each: object, parent: type) -> bool:
    return inspect.isclass(each) and parent in each.__bases__


class ErrorTree(Directive):
    """The tree of errors."""

    def run(self) -> list[nodes.Node]:
        """A literal block."""
        return [_text(error_tree())]


class Environment(Directive):
    """The environment variables."""

    def run(self) -> list[nodes.Node]:
        """A list of definitions."""
        found = nodes.definition_list()
        for name, variable in sorted(SETTINGS.items()):
            term = nodes.term("", "", nodes.literal("", name))
            meaning = nodes.paragraph("", f"{variable[:1].upper()}{variable[1:]}.")
            item = nodes.definition_list_item("", term, nodes.definition("", meaning))
            found += item
        return [found]


class CommandLine(Directive):
    """A section for each command, with its help."""

    def run(self) -> list[nodes.Node]:
        """What ``--help`` prints."""
        return [self._section(name) for name in cli.list_commands(click.Context(cli))]

    def _section(self, name: str) -> nodes.section:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        above: dict[str, Any] = cli.context_settings
        parent = click.Context(cli, info_name="unidev", **above)
        context = click.Context(command, parent, info_name=name, max_content_width=96)
        title = context.command_path
        section = nodes.section("", nodes.title("", title), _text(command.get_help(context)))
        section["names"].append(title)
        self.state.document.note_implicit_target(section, section)
        return section


def _text(text: str) -> nodes.literal_block:
    return nodes.literal_block(text, text, language="text")


def check_reference(_app: Sphinx, env: Any) -> None:
    """Warn, which is an error, unless the reference has every public name exactly once."""
    documented = [
        name for name, entry in env.domains.python_domain.objects.items() if not entry.aliased
    ]
    for name in unidev.__all__:
        if f"unidev.{name}" not in documented:
            log.warning("the reference lacks unidev.%s: name it in docs/reference", name)


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directives."""
    app.add_directive("unidev-errors", ErrorTree)
    app.add_directive("unidev-environment", Environment)
    app.add_directive("unidev-commands", CommandLine)
    app.connect("env-check-consistency", check_reference)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
