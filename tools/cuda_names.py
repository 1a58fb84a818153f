"""The names of ``torch._C`` on which torch's Python rests for CUDA: defined, refused or MISSING.

``python tools/cuda_names.py [WHEEL or FOLDER ...]``: of each, or of the installed torch. Files
are read, and none is run, so a wheel for another system will do. Then the C++ of the
simulated GPUs is compiled against their headers, under both names. Exit code 1 if a name is missing
or the C++ does not compile.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

OF_CUDA = re.compile(
    r"_cuda_\w+|_cuda[A-Z]\w*|_Cuda\w+|_CUDA\w+|_MemPool|_nccl_\w+|_cudnn_\w+|_cudart|_nvtx"
    r"|_graph_pool_handle"
    r"|_broadcast\w*|_scatter\w*|_gather\w*|_host_emptyCache|_cufft\w+|_gds_\w+|_jiterator\w*"
    r"|_construct_\w*(?:storage|CUDA)\w*|_free_And_Remove_DeleterFn|_has_Standard_Deleter"
    r"|_storage_Use_Count|_tensors_data_ptrs_at_indices_equal|_set_cached_tensors_enabled"
    r"|_add_cached_tensor|_remove_cached_tensor|_is_cached_tensor|_map_Storage_Refs|_has_cuda"
    r"|_has_magma|_PinnedMemoryAllocator\w*",
    re.ASCII,
)
"""Of the names of ``torch._C``, those that belong to a build for CUDA."""
IN_MODULES = ("_cudart", "_nvtx")
LEFT_OUT = ("testing", "_inductor/codegen/aoti_runtime", "utils/hipify")
"""Folders whose files no program imports."""
ASK = """
import json, sys
import unidev, torch
from unidev_torch.simulator.cuda import refused
ours = {name for names in refused._REASONS for name in names.split()} | set(refused._CLASSES)
found = {}
for name in json.load(sys.stdin):
    owner = torch._C
    for part in name.split("."):
        owner = getattr(owner, part, None)
        if owner is None:
            break
    found[name] = "refused" if name in ours else "MISSING" if owner is None else "defined"
print(json.dumps(found))
"""


def main() -> int:
    """Print a line for each name, and one for each compilation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("torch", nargs="*", help="a wheel, or a folder that has a folder torch")
    parser.add_argument("--without-compiling", action="store_true", help="only the names")
    options = parser.parse_args()
    failures = 0
    with tempfile.TemporaryDirectory() as scratch:
        for given in options.torch or [None]:
            folder = _folder_of(given, Path(scratch))
            failures += _report_names(folder)
            if not options.without_compiling:
                failures += _report_compiling(folder, Path(scratch))
    return min(failures, 1)


def _folder_of(given: str | None, scratch: Path) -> Path:
    """The folder ``torch``: the installed one's, or that of a wheel, unpacked as far as is read."""
    if given is None:
        from unidev_torch.simulator.building import installed_torch

        folder: Path = installed_torch().folder
        return folder
    path = Path(given)
    if path.is_dir():
        return path / "torch"
    target = scratch / path.stem
    with zipfile.ZipFile(path) as wheel:
        wanted = [
            name
            for name in wheel.namelist()
            if name.startswith("torch/include/")
            or (name.startswith("torch/") and name.endswith(".py"))
        ]
        wheel.extractall(target, wanted)
    return target / "torch"


# -- names -----------------------------------------------------------------------------------------


def _report_names(folder: Path) -> int:
    version = _version(folder)
    used = names_in(folder)
    environment = {**os.environ, "UNIDEV_SIMULATE": "2", "UNIDEV_SIMULATE_AS": "cuda"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", ASK],
        input=json.dumps(sorted(used)), env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    found: dict[str, str] = json.loads(done.stdout)
    for name, answer in found.items():
        if answer == "MISSING" and used[name].is_optional:
            found[name] = "optional"
    counts = {each: list(found.values()).count(each) for each in sorted(set(found.values()))}
    print(f"torch {version}: " + ", ".join(f"{count} {each}" for each, count in counts.items()))
    for name, answer in found.items():
        place = "" if answer in {"defined", "refused"} else f"  ({used[name].place})"
        print(f"  {answer:8} {name}{place}")
    return counts.get("MISSING", 0)


class Use:
    """Where a name is first used, and whether each file asks first whether it is there."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.is_optional = True


def names_in(folder: Path) -> dict[str, Use]:
    """The names of ``torch._C`` for CUDA that the Python files in ``folder`` mention."""
    used: dict[str, Use] = {}
    for path in sorted(folder.rglob("*.py")):
        relative = path.relative_to(folder).as_posix()
        if relative.startswith(LEFT_OUT):
            continue
        text = path.read_text(encoding="utf-8")
        if "_C" not in text and "_cudart" not in text:
            continue
        tree = ast.parse(text)
        asked_for = set(re.findall(r"""(?:hasattr|getattr)\([\w.]+,\s*["'](\w+)["']""", text))
        # Replaced by a dummy where it is missing.
        asked_for |= set(re.findall(r"""_dummy_type\(["'](\w+)["']""", text))
        for name, line in _mentions(tree):
            use = used.setdefault(name, Use(f"{relative}:{line}"))
            if name not in asked_for and use.is_optional:
                use.is_optional, use.place = False, f"{relative}:{line}"
    return used


def _mentions(tree: ast.AST) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "torch._C":
            for alias in node.names:
                if OF_CUDA.fullmatch(alias.name):
                    yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom) and node.module in {
            f"torch._C.{each}" for each in IN_MODULES
        }:
            module = node.module.rpartition(".")[2]
            yield from ((f"{module}.{alias.name}", node.lineno) for alias in node.names)
        elif isinstance(node, ast.Attribute):
            owner = _last_name(node.value)
            if owner == "_C" and OF_CUDA.fullmatch(node.attr):
                yield node.attr, node.lineno
            elif owner in {*IN_MODULES, "cudart()"} and not node.attr.startswith("__"):
                yield f"{'_cudart' if owner == 'cudart()' else owner}.{node.attr}", node.lineno


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Call):
        return f"{_last_name(node.func)}()"
    return node.id if isinstance(node, ast.Name) else ""


# -- the C++ ---------------------------------------------------------------------------------------


def _report_compiling(folder: Path, scratch: Path) -> int:
    from unidev_torch.simulator import building

    torch = building.InstalledTorch(folder, _version(folder), None)
    work = scratch / "cpp"
    work.mkdir(exist_ok=True)
    for name, text in building._sources().items():
        (work / name).write_text(text)
    failures = 0
    for as_cuda in (False, True):
        flags = building._flags(torch, as_cuda=as_cuda)
        # Not linked: a wheel that is only unpacked, or is for another system, has no libraries.
        command = [*building._compiler(), *flags, "-fsyntax-only", "simulator.cpp"]
        done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
        failures += done.returncode != 0
        answer = "compiles" if done.returncode == 0 else f"does NOT compile:\n{done.stderr[:2000]}"
        print(f"torch {torch.version}: the C++ as {'cuda' if as_cuda else 'sim'} {answer}")
    return failures


def _version(folder: Path) -> str:
    text = (folder / "version.py").read_text(encoding="utf-8")
    found = re.search(r"^__version__ = '(.+)'", text, re.MULTILINE)
    assert found is not None, "torch/version.py has no __version__"
    return found[1]


if __name__ == "__main__":
    sys.exit(main())
