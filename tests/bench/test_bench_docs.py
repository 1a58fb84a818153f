"""docs/bench.md and docs/memory.md say what is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from bench_samples import trial
from click.testing import CliRunner

import unidev
from unidev.bench.report import DeviceReport
from unidev.cli.bench import command
from unidev.tensors.peak_memory import PeakMemory

DOCS = Path(__file__).parents[2] / "docs"


def block(document: str, name: str) -> str:
    text = (DOCS / document).read_text(encoding="utf-8")
    found = re.search(rf"<!-- {name} -->\n```text\n(.*?)```", text, re.DOTALL)
    assert found is not None
    return found[1]


def test_the_report_in_the_documents_is_what_is_printed(two_gpus: None) -> None:
    slow, fast = trial("cpu", 5e-6, 80e-6, 3e-6, 0.05), trial("gpu:0", 70e-6, 20e-6, 35e-6, 0.05)
    report = DeviceReport(trials=(slow, fast), left_out={})
    printed = str(report).replace(". gpu:0 computes", ".\ngpu:0 computes")
    assert block("bench.md", "report: made up") == printed.replace(": keep", ":\nkeep") + "\n"


def test_every_option_of_the_command_is_documented() -> None:
    help_text = CliRunner().invoke(command, ["--help"]).output
    options = set(re.findall(r"^  (--[a-z]+)", help_text, re.MULTILINE)) - {"--help"}
    documented = set(re.findall(r"^\| `(--[a-z]+)", (DOCS / "bench.md").read_text(), re.MULTILINE))
    assert options == documented == {"--backend", "--full", "--limit", "--output", "--json"}


@pytest.mark.parametrize(
    "name",
    [
        *(name for name, value in vars(PeakMemory).items() if isinstance(value, property)),
        *vars(unidev.OutOfDeviceMemoryError("no")),
    ],
)
def test_every_attribute_is_documented(name: str) -> None:
    assert f"`{name}`" in (DOCS / "memory.md").read_text(encoding="utf-8")
