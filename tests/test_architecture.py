"""The house: which package stands on which, with imports in functions and for types counted."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = (ROOT / "unidev", *sorted(ROOT.glob("plugins/unidev-*/src/unidev_*")))
FILES = {
    ".".join(path.relative_to(source.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for source in SOURCES
    for path in sorted(source.rglob("*.py"))
}
"""The file of each module."""

MAP = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")


def storeys() -> dict[str, list[str]]:
    """What is in each package, lowest first, as the map has it; "" for the files not named."""
    found: dict[str, list[str]] = {"unidev": []}
    for package, text in re.findall(r"^\| `([\w/]+)(?:/|\.py)` \| (.*) \|$", MAP, re.MULTILINE):
        parts = [part.strip("*") for part in re.findall(r"`([\w*]+)(?:/|\.py)`", text)]
        house = package.replace("/", ".")
        if not house.startswith("unidev_"):
            found["unidev"].append(house.rpartition(".")[2])
            house = f"unidev.{house}"
        if parts:
            found[house] = parts
    return found


STOREYS = storeys()
PLUGINS = [source.name for source in SOURCES[1:] if source.name != "unidev_conformance"]
"""The suite uses the insides of unidev, whose version it has."""
MUTUAL = "unidev.contract.backend"
"""``Backend`` and its parts know each other: each circle goes through this file."""
FOR_PLUGINS = {"unidev", "unidev.contract", "unidev.errors"}
MOST_NEIGHBOURS = 12


def imported(text: str) -> set[str]:
    """The modules that ``text`` imports: at its top, inside functions, and for types alone."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.module and not node.level, f"line {node.lineno}: a relative import"  # noqa: PT018
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in FILES else node.module for name in names}
    return found


def place(house: str, module: str) -> str | None:
    """The part of ``house`` that ``module`` is in; None if it is not in it."""
    if not f"{module}.".startswith(f"{house}."):
        return None
    module = module.replace("unidev.backends.numpy_backend", "unidev.numpy_backend")
    name = module.removeprefix(house).removeprefix(".").partition(".")[0] or "__init__"
    return name if name in STOREYS[house] else ""


def upward(house: str, module: str, text: str) -> list[str]:
    """The modules of ``house`` that ``text`` imports and that are not below ``module``."""
    own, order = place(house, module), STOREYS[house]
    return [
        target
        for target in sorted(imported(text))
        if (there := place(house, target)) is not None
        and order.index(there) > order.index(own or "")
    ]


@pytest.mark.parametrize("house", STOREYS)
def test_imports_lead_down(house: str) -> None:
    modules = {name: path for name, path in FILES.items() if place(house, name) is not None}
    found = {
        name: wrong
        for name, path in modules.items()
        if (wrong := upward(house, name, path.read_text(encoding="utf-8")))
    }
    assert modules
    assert not found


@pytest.mark.parametrize("house", STOREYS)
def test_each_package_is_in_the_map(house: str) -> None:
    folder = FILES[house].parent
    packages = {path.parent.name for path in folder.glob("*/*.py")}
    files = {path.stem for path in folder.glob("*.py")}
    named = {*STOREYS[house]} - {"numpy_backend"}
    assert packages <= named <= packages | files | {""}
    assert "" in named or files - {"__init__"} <= named


def test_the_hall_is_small() -> None:
    assert len(list(ROOT.glob("unidev/*/__init__.py"))) <= 11


@pytest.mark.parametrize(
    ("house", "module", "text"),
    [
        ("unidev", "contract.tracer", "from unidev.backends.loading import load_backend"),
        ("unidev", "errors", "def f():\n    from unidev.tracing import trace"),
        ("unidev", "errors", "if TYPE_CHECKING:\n    from unidev.contract import PlannedTransfer"),
        ("unidev", "backends.observer", "if TYPE_CHECKING:\n    import unidev.tracing.recorder"),
        ("unidev", "tensors.devices", "class A:\n    def f(self):\n        import unidev.models"),
        ("unidev", "nn.functional", "from unidev.bench import tasks"),
        ("unidev", "models.placing", "from unidev import nn"),
        ("unidev", "bench.tasks", "def f():\n    import unidev"),
        ("unidev", "backends.loading", "import unidev.backends.numpy_backend.backend"),
        ("unidev.parallel", "worker", "from unidev.parallel.running.run import run"),
        ("unidev.system", "processes", "if TYPE_CHECKING:\n    import unidev.system.host.host"),
        ("unidev_conformance", "judging.verdict", "import unidev_conformance.reports.report"),
        ("unidev_conformance.kit", "oracle", "from unidev_conformance.kit.models import neural"),
        ("unidev_conformance.kit", "inputs", "from unidev_conformance.kit.oracle import shown"),
    ],
)
def test_an_arrow_that_is_turned_round_is_found(house: str, module: str, text: str) -> None:
    name = f"{house}.{module}"
    (turned,) = upward(house, name, text)
    assert not upward(house, turned, f"import {name}")


def in_circles(imports: dict[str, set[str]]) -> list[str]:
    """The modules that import themselves by way of others."""

    def reached(module: str) -> set[str]:
        seen: set[str] = set()
        left = [*imports[module]]
        while left:
            each = left.pop()
            if each not in seen:
                seen.add(each)
                left += imports.get(each, ())
        return seen

    return sorted(module for module in imports if module in reached(module))


@pytest.mark.parametrize("package", [source.name for source in SOURCES])
def test_files_import_each_other_in_no_circle(package: str) -> None:
    imports = {
        name: imported(path.read_text(encoding="utf-8")) - {name}
        for name, path in FILES.items()
        if name.partition(".")[0] == package and name != MUTUAL
    }
    assert in_circles(imports) == []


@pytest.mark.parametrize(
    ("imports", "expected"),
    [
        ({"a": "import b", "b": "def f():\n    import c", "c": "from a import x"}, "abc"),
        ({"a": "import b, c", "b": "from c import x", "c": "import json"}, ""),
        ({"a": "import b", "b": "if TYPE_CHECKING:\n    import a", "c": ""}, "ab"),
    ],
)
def test_a_circle_is_found(imports: dict[str, str], expected: str) -> None:
    assert in_circles({name: imported(text) for name, text in imports.items()}) == [*expected]


def test_a_package_of_a_plugin_has_no_more_modules_than_one_can_take_in() -> None:
    own = (path for name, path in FILES.items() if name.partition(".")[0] in PLUGINS)
    folders = Counter(path.parent for path in own)
    assert not {str(folder): n for folder, n in folders.items() if n > MOST_NEIGHBOURS}


def foreign_to_plugins(plugin: str, text: str) -> set[str]:
    """What ``plugin`` imports of unidev's distributions besides its own and the contract."""
    others = {name for name in imported(text) if name.startswith("unidev")}
    return {name for name in others if name.partition(".")[0] != plugin} - FOR_PLUGINS


@pytest.mark.parametrize("plugin", ["unidev", *PLUGINS])
def test_a_plugin_imports_the_contract_alone(plugin: str) -> None:
    found = {
        name: foreign_to_plugins(plugin, path.read_text(encoding="utf-8"))
        for name, path in FILES.items()
        if name.partition(".")[0] == plugin
    }
    assert found
    assert not {name: wrong for name, wrong in found.items() if wrong}


def test_numpys_backend_imports_what_a_plugin_may() -> None:
    own = "unidev.backends.numpy_backend"
    allowed = re.compile(rf"({own}|unidev\.contract|unidev\.errors)(\.|$)|unidev$|(?!unidev)")
    files = {name: path for name, path in FILES.items() if name.startswith(own)}
    assert files
    for name, path in files.items():
        assert not [each for each in imported(path.read_text()) if not allowed.match(each)], name


@pytest.mark.parametrize(
    "text",
    [
        "from unidev.backends.loading import load_backend",
        "def f():\n    from unidev.contract.optional import part",
        "if TYPE_CHECKING:\n    from unidev.system.wording import shown",
        "import unidev_paddle.backend",
    ],
)
def test_a_plugin_that_imports_more_is_found(text: str) -> None:
    assert foreign_to_plugins("unidev_torch", text)
