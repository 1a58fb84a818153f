"""Examples in docstrings print what they say."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SUITE = ROOT / "plugins" / "unidev-conformance" / "src"
WITH_EXAMPLES = [
    ".".join(path.relative_to(folder).with_suffix("").parts)
    for folder, package in ((ROOT, "unidev"), (SUITE, "unidev_conformance"))
    for path in sorted(folder.joinpath(package).rglob("*.py"))
    if re.search(r"^ *>>> ", path.read_text(encoding="utf-8"), re.MULTILINE)
]


@pytest.mark.parametrize("module", WITH_EXAMPLES)
def test_examples_of_a_module(module: str, nothing_loaded: None) -> None:
    found = doctest.testmod(importlib.import_module(module))
    assert found.attempted
    assert not found.failed  # what was printed instead stands above
