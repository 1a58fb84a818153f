"""Fixtures of the core's tests and the suite's: clean starts, simulated GPUs, interpreters."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, Protocol

import pytest

from unidev import device as device_module
from unidev.backends import discovery as plugins
from unidev.backends import loading, scopes, selection

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class RunPython(Protocol):
    """Runs a program in a fresh interpreter and gives what it printed."""

    def __call__(self, program: str, /, **environment: str) -> str: ...


class AddPlugin(Protocol):
    """Writes a module with a plugin, and its entry point where one is named."""

    def __call__(self, module: str, source: str, /, *, entry_point: str | None = None) -> None: ...


def pytest_configure() -> None:
    """Ctrl-C reaches children, though a shell lets what it starts with `&` ignore it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if given := os.environ.get("PYTHONPATH"):  # children are started in other folders
        os.environ["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, given.split(os.pathsep)))


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("UNIDEV_")}


@pytest.fixture(autouse=True)
def clean_start(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No variable of unidev's is set, nothing is selected; no scope is left behind."""
    for name in [name for name in os.environ if name.startswith("UNIDEV_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(selection, "_chosen", None)
    monkeypatch.setattr(selection, "_reason", "")
    yield
    left, scopes.stack.scopes = scopes.stack.scopes, ()
    scopes._thread.entered.clear()
    assert left == ()


@pytest.fixture
def nothing_loaded(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As in a process that has not used unidev yet; what was loaded comes back afterwards."""
    tables = (
        loading.loaded_backends, loading.backends_by_type, loading.device_getters, loading.copiers,
        loading.openers, loading.judges, loading.simulators,
    )  # fmt: skip
    before = [dict(table) for table in tables]
    for table in tables:
        table.clear()
    monkeypatch.setattr(loading, "_types_of_no_tensor", type(loading._types_of_no_tensor)())
    monkeypatch.setattr(loading, "_backends_by_model_type", type(loading._backends_by_model_type)())
    monkeypatch.setattr(device_module, "_devices", {})
    monkeypatch.setattr(plugins, "_found", None)
    yield
    for table, kept in zip(tables, before, strict=True):
        table.clear()
        table.update(kept)  # type: ignore[arg-type]


@pytest.fixture
def two_gpus(nothing_loaded: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy with two simulated GPUs."""
    monkeypatch.setenv("UNIDEV_SIMULATE", "2")
    monkeypatch.setenv("UNIDEV_BACKEND", "numpy")


@pytest.fixture
def toy(nothing_loaded: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The functional framework of ``examples/toy_backend``: immutable arrays, two devices."""
    monkeypatch.setenv("UNIDEV_PLUGINS", "toy_backend")
    monkeypatch.setenv("UNIDEV_BACKEND", "toy")


@pytest.fixture
def run_python(tmp_path: Path) -> RunPython:
    """A fresh interpreter, in an empty folder; modules in ``tmp_path`` can be imported."""

    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))

    def run(program: str, /, **environment: str) -> str:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", textwrap.dedent(program)],
            env={**_environment(), "PYTHONPATH": path, **environment},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return run


@pytest.fixture
def add_plugin(tmp_path: Path) -> AddPlugin:
    """Plugins that ``run_python`` finds: by an entry point, or by ``UNIDEV_PLUGINS``."""

    def add(module: str, source: str, /, *, entry_point: str | None = None) -> None:
        (tmp_path / f"{module}.py").write_text(textwrap.dedent(source))
        if entry_point is not None:
            folder = tmp_path / f"{module}-1.0.dist-info"
            folder.mkdir()
            (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0")
            (folder / "entry_points.txt").write_text(f"[unidev]\n{entry_point} = {module}\n")

    return add
