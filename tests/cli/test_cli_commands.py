"""Commands of other distributions: entry points of the group ``unidev.commands``."""

from __future__ import annotations

import importlib.metadata
import os
import re
import textwrap
from typing import TYPE_CHECKING

import pytest

from unidev import cli

if TYPE_CHECKING:
    from pathlib import Path

GREET = """
    import click

    @click.command(short_help="Say hello.")
    @click.argument("name")
    def command(name):
        print(f"hello {name}")
        return 7
"""


@pytest.fixture
def unidev(tmp_path: Path, unidev):
    """Runs ``unidev`` where the distribution ``acme`` adds the command ``name`` by ``module``."""

    def run(
        *words: str, name: str = "greet", module: str = GREET, target: str = "acme_cli:command"
    ):
        information = tmp_path / "acme-1.0.dist-info"
        information.mkdir()
        (information / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
        (information / "entry_points.txt").write_text(f"[unidev.commands]\n{name} = {target}\n")
        (tmp_path / "acme_cli.py").write_text(textwrap.dedent(module))
        path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
        return unidev(*words, PYTHONPATH=path)

    return run


def test_a_distribution_adds_a_command(unidev) -> None:
    done = unidev("greet", "you")
    assert (done.returncode, done.stdout, done.stderr) == (7, "hello you\n", "")


def test_it_is_listed_with_its_short_help_among_ours(unidev) -> None:
    listed = [line.split() for line in unidev("--help").stdout.splitlines()]
    assert ["greet", "Say", "hello."] in listed
    assert [line[0] for line in listed if line[:1] in (["doctor"], ["greet"], ["info"])] == [
        "doctor", "greet", "info"
    ]  # fmt: skip


def test_a_misspelt_one_is_named(unidev) -> None:
    assert "Did you mean 'greet'?" in unidev("great").stderr


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"module": "import no_such_library"},
            "ModuleNotFoundError: No module named 'no_such_library'",
        ),
        ({"module": "raise SystemExit('two\\nlines')"}, "SystemExit: two lines"),
        ({"target": "acme_cli:other"}, "AttributeError: module 'acme_cli' has no attribute"),
        ({"module": "command = print"}, "TypeError: it is a builtin_function_or_method, not a"),
    ],
)
@pytest.mark.parametrize("words", [["greet", "you"], ["--help"]])
def test_one_that_does_not_load_is_one_line(unidev, words, change, said) -> None:
    done = unidev(*words, **change)
    target = change.get("target", "acme_cli:command")
    if words == ["--help"]:
        assert (done.returncode, done.stderr) == (0, "")
        assert f"{target} of acme does not load: {said}" in " ".join(done.stdout.split())
        assert "Why is there no GPU" in done.stdout
    else:
        assert (done.returncode, done.stdout) == (2, "")
        (line,) = done.stderr.splitlines()
        assert line.startswith(f"Error: {target} of acme does not load: {said}")


@pytest.mark.parametrize("name", ["info", "conform"])
def test_it_does_not_take_the_name_of_one_of_ours(unidev, name: str) -> None:
    done = unidev(name, "--help", name=name)
    assert "hello" not in done.stdout + done.stderr
    assert f"Usage: unidev {name} [OPTIONS]" in done.stdout or "unidev-conformance" in done.stderr


def test_conform_is_listed_and_refused_without_the_suite(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "entry_points", lambda **_: importlib.metadata.EntryPoints())
    with pytest.raises(SystemExit) as ended:
        cli.main(["--help"])
    assert ended.value.code == 0
    assert re.search("conform +Judge a backend: does it keep", capsys.readouterr().out)
    for words in (["conform", "numpy"], ["conform", "--help"]):
        with pytest.raises(SystemExit) as ended:
            cli.main(words)
        assert ended.value.code == 2
        assert capsys.readouterr().err == (
            "Error: unidev conform needs unidev-conformance, which is not installed. In unidev's "
            "repository, run: pip install ./plugins/unidev-conformance\n"
        )
