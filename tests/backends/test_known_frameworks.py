"""Frameworks that are known without their plugins."""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import unidev
from unidev.backends.known_frameworks import KNOWN, OUR_PLUGINS, KnownFramework, with_described

if TYPE_CHECKING:
    from core_fixtures import RunPython

CORE = Path(unidev.__file__).parent
EXAMPLES = ("cli",)
"""Packages that name PyTorch where they show an example."""
NAMES = re.compile(
    r"\b(torch|pytorch|tensorflow|tf|keras|paddle|paddlepaddle|mxnet|mx|jax|jnp)\b", re.IGNORECASE
)
PLUGINS = Path(__file__).parents[2] / "plugins"
DESCRIBED = """
    import sys
    from unidev.backends.discovery import backend_specs, find_plugins
    from unidev.backends.known_frameworks import KNOWN, KnownFramework

    assert not [plugin.failure for plugin in find_plugins() if plugin.failure]
    known = {each.framework: each for each in KNOWN}
    specs = [spec for spec in backend_specs().values() if spec.framework != "numpy"]
    print(*sorted(spec.name for spec in specs))
    for spec in specs:
        assert KnownFramework.of(spec) == known[spec.framework], spec
        assert spec.framework not in sys.modules
"""


def test_what_is_known_of_a_framework_is_what_our_plugin_says(run_python: RunPython) -> None:
    sources = [PLUGINS / f"unidev-{name}/src" for name in OUR_PLUGINS]
    assert all(folder.is_dir() for folder in sources)
    path = os.pathsep.join([*map(str, sources), os.environ.get("PYTHONPATH", "")])
    modules = ",".join(f"unidev_{name}" for name in OUR_PLUGINS)
    assert run_python(DESCRIBED, PYTHONPATH=path, UNIDEV_PLUGINS=modules).split() == [*OUR_PLUGINS]


def test_what_a_plugin_says_comes_before_what_is_known() -> None:
    theirs = KnownFramework("strange", "Strange", "libstrange")
    another = KnownFramework("jax", "JAX, forked", "libfork")
    found = with_described([theirs, another])
    assert [each.framework for each in found] == [*(each.framework for each in KNOWN), "strange"]
    assert theirs in found
    assert another in found


def texts_of(path: Path) -> list[str]:
    """The strings in the code of a module, its documentation left out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    is_documentation = {
        id(each.value)
        for each in ast.walk(tree)
        if isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)
    }
    return [
        each.value
        for each in ast.walk(tree)
        if isinstance(each, ast.Constant)
        and isinstance(each.value, str)
        and id(each) not in is_documentation
    ]


def test_the_core_names_frameworks_in_one_table_only() -> None:
    naming = {
        path.relative_to(CORE).as_posix()
        for path in CORE.rglob("*.py")
        if path.relative_to(CORE).parts[0] not in EXAMPLES
        if any(NAMES.search(text) for text in texts_of(path))
    }
    assert naming == {"backends/known_frameworks.py"}
