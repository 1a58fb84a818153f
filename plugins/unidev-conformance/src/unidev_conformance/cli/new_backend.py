"""``unidev new-backend``: the package of a backend, with the members to fill in, and its tests."""

from __future__ import annotations

import keyword
from pathlib import Path
from string import Template

import click

from unidev.cli.output import say

FILL = "fill in"
"""What the lines say that a vendor replaces."""

FILES = {
    "pyproject.toml": """\
[build-system]
requires = ["hatchling>=1.27"]
build-backend = "hatchling.build"

[project]
name = "$distribution"
version = "0.1"
description = "$framework for unidev"  # fill in
requires-python = ">=3.10"
dependencies = ["unidev-core"]

[project.entry-points.unidev]
$name = "$package"
""",
    "README.md": """\
# $framework for unidev

    pip install -e . $framework unidev-conformance
    unidev conform $name --quick      # while you write it: a tenth of the checks
    unidev conform $name              # the judgement
""",
    "$package/__init__.py": '''\
"""Registers the backend; the framework is imported when it is first needed."""

import unidev


@unidev.hookimpl
def unidev_register_backend() -> unidev.BackendSpec:
    return unidev.BackendSpec(
        name="$name",
        contract_version=3,
        framework="$framework",
        install="pip install $framework",  # fill in
        load="$package.backend:${title}Backend",
    )
''',
    "$package/backend.py": '''\
"""Adapts the framework to unidev: everything that the contract requires."""

import numpy as np

from $framework import Tensor  # fill in: the class of tensors
from unidev import Backend, Device, Extent, part


class ${title}Backend(Backend):
    tensor_types = (Tensor,)
    dtypes = {}  # fill in: the framework's dtypes by NumPy's names, "float32" and so on
    probe = part("$package.probe:${title}Probe")

    def device_count(self, kind: str) -> int:
        raise NotImplementedError  # fill in: of "cpu" and "gpu"; starts no GPU's runtime

    def native_device(self, kind: str, index: int) -> str:
        raise NotImplementedError  # fill in: the framework's device; starts no runtime

    def parse_native(self, spec: object) -> tuple[str, int] | None:
        raise NotImplementedError  # fill in: kind and index of the framework's spelling, or None

    def device_of(self, x: Tensor) -> Device:
        raise NotImplementedError  # fill in: self.device(kind, index); computes nothing

    def copy_to(self, x: Tensor, device: Device, non_blocking: bool) -> Tensor:
        raise NotImplementedError  # fill in: the same bits in new memory, also on the same device

    def from_numpy(self, values: np.ndarray, dtype: str, device: Device) -> Tensor:
        raise NotImplementedError  # fill in: in new memory: `values` is changed right afterwards

    def to_numpy(self, x: Tensor) -> np.ndarray:
        raise NotImplementedError  # fill in: a new, writable array

    def empty(self, shape: tuple[int, ...], dtype: str, device: Device) -> Tensor:
        return self.full(shape, 0, dtype, device)

    def full(self, shape: tuple[int, ...], value: float, dtype: str, device: Device) -> Tensor:
        raise NotImplementedError  # fill in: one number everywhere

    def synchronize(self, device: Device) -> None:
        raise NotImplementedError  # fill in: return once queued work is done

    def extents(self, x: Tensor) -> list[Extent]:
        raise NotImplementedError  # fill in: address and bytes of the storage; [] if it has none
''',
    "$package/probe.py": '''\
"""What the conformance suite needs, by the framework's own calls."""

import numpy as np

from $framework import Tensor  # fill in
from unidev import Device, Probe


class ${title}Probe(Probe):
    def make(self, values: np.ndarray, device: Device) -> Tensor:
        raise NotImplementedError  # fill in: in new memory: `values` is overwritten

    def read(self, x: Tensor) -> bytes:
        raise NotImplementedError  # fill in: of its elements in C order, of any view and dtype

    def same_memory(self, x: Tensor) -> Tensor:
        raise NotImplementedError  # fill in: another object on the same memory

    def views(self, x: Tensor) -> dict[str, Tensor]:
        raise NotImplementedError  # fill in: "transposed": x.T, "sliced": x[1:, ::2], "broadcast"

    def write(self, x: Tensor, value: float) -> None:
        raise NotImplementedError  # fill in: one number everywhere; leave it out if immutable

    def global_state(self) -> dict[str, object]:
        return {}  # fill in: the framework's defaults, which unidev must not change
''',
    "tests/test_conformance.py": '''\
"""The backend conforms: unidev's own suite says so."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("profile", ["tensor"])  # then "train", "multi" and "interop"
def test_it_conforms(profile: str) -> None:
    command = [sys.executable, "-m", "unidev", "conform", "$name", "--profile", profile]
    assert subprocess.run(command).returncode == 0
''',
}


@click.command(name="new-backend", short_help="Write the package of a new backend.")
@click.argument("name")
@click.option("--framework", metavar="MODULE", help="Its import name, if that is not NAME.")
@click.option("--package", metavar="MODULE", help="The plugin's, if that is not unidev_NAME.")
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    help="Where; unidev-NAME if not given. Not there yet.",
)
def command(name: str, framework: str | None, package: str | None, folder: Path | None) -> int:
    """Write the package of a backend NAME: pyproject, the members to fill in, and its tests.

    docs/writing-a-backend.md has what comes next, in ten steps.
    """
    framework, package = framework or name, package or f"unidev_{name}"
    for each in (name, *framework.split("."), package):
        if not each.isidentifier() or keyword.iskeyword(each):
            raise click.UsageError(f"{each!r} is not a name that Python can import.")
    folder = folder or Path(package.replace("_", "-"))
    if folder.exists():
        raise click.UsageError(f"{folder} is there already: give another --folder.")
    given = {
        "name": name, "framework": framework, "package": package,
        "distribution": package.replace("_", "-"),
        "title": name.title().replace("_", ""),
    }  # fmt: skip
    for path, text in FILES.items():
        file = folder / Template(path).substitute(given)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(Template(text).substitute(given), encoding="utf-8")
    members = sum(text.count("raise NotImplementedError") for text in FILES.values())
    say(f"{folder}: {members} members to fill in, where it says {FILL!r}. Then, in that folder:")
    say(f"  UNIDEV_PLUGINS={package} python -m unidev conform {name} --quick")
    return 0
