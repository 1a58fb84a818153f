"""The names of ``torch._C`` on which torch's Python rests for CUDA are defined, or refused by name.

For the installed torch: ``nox -s newest_framework -- torch`` asks this of a new release.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

from unidev_torch_simulator.building import installed_torch

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
IN_C = re.compile(r"\b_C\b|cudart|_nvtx")
MODULES = ("_cudart", "_nvtx")
LEFT_OUT = ("testing", "_inductor/codegen/aoti_runtime", "utils/hipify")
"""Folders whose files no program imports."""
MISSING = """
import json, sys
import unidev, torch
from unidev_torch_simulator.cuda import refused
ours = {name for names in refused._REASONS for name in names.split()} | set(refused._CLASSES)
def is_there(name):
    owner = torch._C
    for part in name.split("."):
        owner = getattr(owner, part, None)
    return owner is not None
names = json.load(sys.stdin)
print(json.dumps([name for name in names if name not in ours and not is_there(name)]))
"""


def test_no_name_is_missing() -> None:
    used: dict[str, str] = {}
    folder = installed_torch().folder
    for path in sorted(folder.rglob("*.py")):
        relative = path.relative_to(folder).as_posix()
        text = path.read_text(encoding="utf-8")
        if relative.startswith(LEFT_OUT) or not IN_C.search(text):
            continue
        # A program asks for these first, or puts a dummy in their place.
        optional = {*re.findall(r"""(?:hasattr|getattr)\([\w.]+,\s*["'](\w+)["']""", text)}
        optional |= {*re.findall(r"""_dummy_type\(["'](\w+)["']""", text)}
        for name, line in mentions(ast.parse(text)):
            if name not in optional:
                used.setdefault(name, f"{relative}:{line}")
    assert used.keys() >= {"_cuda_init", "_cudart.cudaMemGetInfo"}
    found = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", MISSING], input=json.dumps([*used]), text=True,
        env={**os.environ, "UNIDEV_SIMULATE": "2", "UNIDEV_SIMULATE_AS": "cuda"},
        stdout=subprocess.PIPE, check=True,
    )  # fmt: skip
    assert not {name: used[name] for name in json.loads(found.stdout)}


def mentions(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """The names, and their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            module = (node.module or "").removeprefix("torch._C").removeprefix(".")
            if node.module == "torch._C":
                yield from ((a.name, node.lineno) for a in node.names if OF_CUDA.fullmatch(a.name))
            elif module in MODULES:
                yield from ((f"{module}.{alias.name}", node.lineno) for alias in node.names)
        elif isinstance(node, ast.Attribute):
            owner = last_name(node.value)
            if owner == "_C" and OF_CUDA.fullmatch(node.attr):
                yield node.attr, node.lineno
            elif owner in {*MODULES, "cudart()"} and not node.attr.startswith("__"):
                yield f"{'_cudart' if owner == 'cudart()' else owner}.{node.attr}", node.lineno


def last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Call):
        return f"{last_name(node.func)}()"
    return node.id if isinstance(node, ast.Name) else ""
