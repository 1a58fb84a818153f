"""The house: which package stands on which, and what may stand in the hall."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

import unidev

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
UNIDEV = ROOT / "unidev"
FACE = "unidev"
"""``unidev/__init__.py``: the public names."""

STOREYS = (
    ("errors",),
    ("support",),
    ("hardware",),
    ("worker_host",),
    ("contract",),
    ("registry",),
    ("doctor",),
    ("calls",),
    ("devices",),
    ("tensors",),
    ("models",),
    ("nn", "tracing", "numpy_backend"),
    ("data",),
    ("parallel",),
    ("distributed",),
    ("bench",),
    (FACE,),
    ("conformance", "cli"),
    ("__main__",),
)
"""The packages, lowest first: each imports only from those below it. Those that share a storey do
not import each other, but for the command line, which runs the suite."""
BESIDES = {("cli", "conformance")}
ROOMS = {
    "distributed": ("messages", "exchange", "workers", "launchers", "running"),
    "conformance": ("conformance", "judging", "kit", "reports", "running", "checks", "launching"),
    "conformance.kit": ("inputs", "kit", "machines", "models", "processes"),
}
"""The folders of a package, lowest first: each imports only from those below it.

The package's own name stands for the modules beside its folders.
"""
HALL = {"__init__.py", "__main__.py", "errors.py"}
FOR_PLUGINS = ("unidev", "unidev.contract", "unidev.errors")
MOST_NEIGHBOURS = 12


PUBLIC_BEFORE_THE_MOVE = """
    CONTRACT_VERSION AmbiguousBackendError Autograd AutogradProbe Backend BackendError
    BackendMismatchError BackendNotFoundError BackendSpec Build CheckpointError
    CircularContainerError ContainerError DeletedTensorError Device DeviceError
    DeviceMismatchError DeviceNotFoundError DeviceSpecError Extent FrameworkError
    FrameworkNotInstalledError Functions Installation InvalidDataError Layers Memory ModelError
    ModelProbe Models NotAModelError NotATensorError OutOfDeviceMemoryError PeakCounter
    PluginError Probe ScopeError SimulationError Simulator Stored TensorError Tracer
    TransferForbiddenError UnidevError UnsupportedContainerError UnsupportedDtypeError
    UnsupportedOperation Wheel active_backend arange array as_device as_in_device
    check_same_device copy_to cpu device_of empty empty_like fastest_device full gpu hookimpl
    list_backends list_devices load_parameters memory no_grad num_gpus ones ones_like parameters
    part place rand randn register_container same_device save_parameters seed set_backend sgd
    shares_memory simulate synchronize to_numpy trace_transfers track_memory transfer_guard
    try_all_gpus try_gpu unsupported use_backend value_and_grad zeros zeros_like
    nn __version__
"""


class Arrow(NamedTuple):
    """One import of one module by another."""

    file: str
    line: int
    source: str
    target: str


def package_of(module: str) -> str:
    _, _, rest = module.partition(".")
    return rest.partition(".")[0] or FACE


def is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def imports_in(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports of ``tree``, at its top and inside functions; not for types alone."""
    for node in ast.iter_child_nodes(tree):
        if is_for_types(node):
            continue
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        yield from imports_in(node)


def imported_by(tree: ast.AST) -> list[tuple[int, str]]:
    """The modules that ``tree`` imports, at its top and inside functions; not for types alone."""
    found: list[tuple[int, str]] = []
    for node in imports_in(tree):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        else:
            assert node.level == 0, f"line {node.lineno}: a relative import"
            found += [(node.lineno, name) for name in modules_named(node)]
    return found


def modules_named(node: ast.ImportFrom) -> list[str]:
    """``from unidev import nn`` names a module, ``from unidev import zeros`` the face."""
    module = node.module or ""
    if module != "unidev":
        return [module]
    return [
        f"unidev.{alias.name}"
        if (UNIDEV / alias.name).is_dir() or (UNIDEV / f"{alias.name}.py").is_file()
        else module
        for alias in node.names
    ]


def arrows(file: Path, source: str, text: str | None = None) -> list[Arrow]:
    tree = ast.parse(file.read_text(encoding="utf-8") if text is None else text)
    return [
        Arrow(file.name, line, source, package_of(target))
        for line, target in imported_by(tree)
        if target.partition(".")[0] == "unidev"
    ]


def upward(found: list[Arrow]) -> list[Arrow]:
    """Those that do not lead from a higher storey to a lower one."""
    storey = {name: number for number, names in enumerate(STOREYS) for name in names}
    return [
        arrow
        for arrow in found
        if arrow.source != arrow.target
        and (arrow.source, arrow.target) not in BESIDES
        and storey[arrow.target] >= storey[arrow.source]
    ]


def files_of_the_core() -> list[tuple[Path, str]]:
    files = [(path, path.relative_to(UNIDEV).parts) for path in sorted(UNIDEV.rglob("*.py"))]
    return [
        (path, FACE if parts == ("__init__.py",) else parts[0].removesuffix(".py"))
        for path, parts in files
    ]


def test_imports_lead_down() -> None:
    found = [arrow for path, package in files_of_the_core() for arrow in arrows(path, package)]
    assert len(found) > 300
    assert not upward(found), "\n".join(map(str, upward(found)))


@pytest.mark.parametrize(
    ("package", "text"),
    [
        ("contract", "from unidev.backends.loading import load_backend"),
        ("errors", "def f():\n    from unidev.backends.out_of_memory import out_of_memory"),
        ("devices", "class A:\n    def f(self):\n        import unidev.tensors.creating"),
        ("tracing", "from unidev.nn import functional"),
        ("models", "from unidev import nn"),
        ("bench", "def f():\n    import unidev"),
        ("conformance", "from unidev.cli import main"),
    ],
)
def test_an_arrow_that_is_turned_is_found(package: str, text: str) -> None:
    (arrow,) = upward(arrows(Path("made_up.py"), package, text))
    assert arrow.source == package


@pytest.mark.parametrize(
    ("package", "text"),
    [
        ("registry", "from unidev.contract.device import Device"),
        ("contract", "if TYPE_CHECKING:\n    from unidev.backends.loading import load_backend"),
        ("tensors", "from unidev.tensors import checks"),
        ("cli", "from unidev_conformance.judging import verdict"),
        ("conformance", "import unidev"),
    ],
)
def test_an_arrow_that_leads_down_is_let_be(package: str, text: str) -> None:
    assert arrows(Path("made_up.py"), package, text) or "TYPE_CHECKING" in text
    assert not upward(arrows(Path("made_up.py"), package, text))


def turned_inside(package: str, folder: str, text: str) -> list[str]:
    """The rooms above ``folder`` that ``text`` imports."""
    rooms, own = ROOMS[package], f"unidev.{package}."
    targets = [target for _, target in imported_by(ast.parse(text)) if target.startswith(own)]
    entered = [target.removeprefix(own).partition(".")[0] for target in targets]
    beside = package.rpartition(".")[2]
    names = [name if name in rooms else beside for name in entered]
    return [name for name in names if rooms.index(name) > rooms.index(folder)]


@pytest.mark.parametrize("package", ROOMS)
def test_rooms_of_a_package_stand_on_each_other(package: str) -> None:
    top = UNIDEV.joinpath(*package.split("."))
    files = [path for path in sorted(top.rglob("*.py")) if path != top / "__init__.py"]
    folders = {path: path.relative_to(top.parent).parent.parts[:2][-1] for path in files}
    assert set(folders.values()) == set(ROOMS[package])
    for path, folder in folders.items():
        found = turned_inside(package, folder, path.read_text(encoding="utf-8"))
        assert not found, f"{path} imports from {found}"


@pytest.mark.parametrize(
    ("package", "below", "above", "text"),
    [
        ("distributed", "workers", "running", "from unidev.parallel.running.run import run"),
        ("conformance", "judging", "reports", "from unidev_conformance.reports import report"),
        ("conformance.kit", "kit", "models", "from unidev_conformance.kit.models import neural"),
        ("conformance.kit", "inputs", "kit", "from unidev_conformance.kit.oracle import shown"),
    ],
)
def test_a_turned_import_between_rooms_is_found(
    package: str, below: str, above: str, text: str
) -> None:
    text = f"def f():\n    {text}"
    assert turned_inside(package, below, text) == [above]
    assert not turned_inside(package, above, text)


def module_of(file: Path, root: Path) -> str:
    return ".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


def imports_within(texts: dict[str, str]) -> dict[str, set[str]]:
    """For each module of ``texts`` the others of them that it imports, also inside functions."""
    found = {}
    for module, text in texts.items():
        names: set[str] = set()
        for node in imports_in(ast.parse(text)):
            for alias in node.names:
                within = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
                name = within + alias.name
                names.add(name if name in texts else within.removesuffix("."))
        found[module] = (names & texts.keys()) - {module}
    return found


def in_circles(imports: dict[str, set[str]]) -> list[str]:
    """The modules that import themselves by way of others."""

    def reached(module: str) -> set[str]:
        seen: set[str] = set()
        left = [*imports[module]]
        while left:
            each = left.pop()
            if each not in seen:
                seen.add(each)
                left += imports[each]
        return seen

    return sorted(module for module in imports if module in reached(module))


PACKAGES = {
    path.name: path
    for path in (*UNIDEV.iterdir(), *ROOT.glob("plugins/unidev-*/src/unidev_*"))
    if (path / "__init__.py").is_file()
}


@pytest.mark.parametrize("package", PACKAGES)
def test_files_of_a_package_import_each_other_in_no_circle(package: str) -> None:
    root = UNIDEV.parent if PACKAGES[package].parent == UNIDEV else PACKAGES[package].parent
    texts = {
        module_of(path, root): path.read_text(encoding="utf-8")
        for path in PACKAGES[package].rglob("*.py")
    }
    assert in_circles(imports_within(texts)) == []


@pytest.mark.parametrize(
    ("imports", "expected"),
    [
        (
            {"a": "from p import b", "b": "def f():\n    import p.c", "c": "from p.a import x"},
            "abc",
        ),
        ({"a": "from p import b, c", "b": "from p.c import x", "c": "import json"}, ""),
        ({"a": "import p.b", "b": "if TYPE_CHECKING:\n    import p.a", "c": ""}, ""),
        ({"a": "import p.b", "b": "import p.c", "c": "if x:\n    import p.b"}, "bc"),
    ],
)
def test_a_circle_is_found_also_through_functions(imports: dict[str, str], expected: str) -> None:
    texts = {f"p.{module}": text for module, text in imports.items()}
    assert in_circles(imports_within(texts)) == [f"p.{module}" for module in expected]


def test_the_hall_is_empty() -> None:
    assert {path.name for path in UNIDEV.glob("*.py")} == HALL
    rooms = {path.name for path in UNIDEV.iterdir() if (path / "__init__.py").is_file()}
    assert rooms == {name for storey in STOREYS for name in storey} - {FACE, "errors", "__main__"}


def test_a_package_has_no_more_modules_than_one_can_take_in() -> None:
    folders = Counter(path.parent for path in ROOT.glob("plugins/*/src/**/*.py"))
    assert len(folders) > 20
    assert not {str(folder): n for folder, n in folders.items() if n > MOST_NEIGHBOURS}


def foreign_to_plugins(text: str, own: str) -> set[str]:
    return {
        module
        for node in ast.walk(ast.parse(text))
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for module in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [a.name for a in node.names]
        )
        if module.partition(".")[0].startswith("unidev")
        and module.partition(".")[0] != own
        and module not in FOR_PLUGINS
    }


def test_a_plugin_imports_the_contract_alone() -> None:
    files = sorted(ROOT.glob("plugins/unidev-*/src/*/**/*.py"))
    assert len(files) > 80
    found = {
        str(path): foreign
        for path in files
        if (
            foreign := foreign_to_plugins(
                path.read_text(encoding="utf-8"),
                path.relative_to(ROOT / "plugins").parts[2],
            )
        )
    }
    assert not found


@pytest.mark.parametrize(
    "text",
    [
        "from unidev.backends.loading import load_backend",
        "def f():\n    from unidev.contract.device import Device",
        "if TYPE_CHECKING:\n    from unidev.system.wording import shown",
        "import unidev_paddle.backend",
    ],
)
def test_a_plugin_that_imports_more_is_found(text: str) -> None:
    assert foreign_to_plugins(text, "unidev_torch")


def test_every_public_name_there_was_is_there() -> None:
    for name in PUBLIC_BEFORE_THE_MOVE.split():
        assert getattr(unidev, name) is not None
