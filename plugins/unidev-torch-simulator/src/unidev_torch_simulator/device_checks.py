"""The operators of which CUDA checks the devices, as torch's list of operators has them.

torch ships the list from which its kernels' wrappers are generated. A wrapper for CUDA compares the
devices of all tensors, those without dimensions included, unless the operator has
``device_check: NoCheck``: its kernel then decides, mostly by TensorIterator, which reads one tensor
without dimensions of the CPU as a number.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from unidev.errors import SimulationError

if TYPE_CHECKING:
    from pathlib import Path

_LIST = "torchgen/packaged/ATen/native/native_functions.yaml"


def checked_operators(packages: Path) -> str:
    """``{"addmm", true, true},`` for each: a ``Rule`` in ``cpp/device_check.h``.

    Raises:
        SimulationError: ``packages``, where torch is, lacks the list.
    """
    # Not by PyYAML, which torch does not install. Comments may follow a value.
    kernel = r"^    [\w, ]*\b(Sparse|SparseCsr|NestedTensor)?(CPU|CUDA)\b[\w, ]*:"
    entries = {
        name: dict(re.findall(r"^  (\w+): ?([\w.]*)", each, re.MULTILINE))
        | {"kernels": re.search(kernel, each, re.MULTILINE)}
        for name, each in _entries(packages).items()
    }
    lines = []
    for name, entry in entries.items():
        primary = entries[entry.get("structured_delegate") or name]
        if primary["kernels"] and entry.get("device_check") != "NoCheck":
            is_structured = str("structured" in primary).lower()
            lines.append(f'{{"{name}", true, {is_structured}}},\n')
    return "".join(lines)


def _entries(packages: Path) -> dict[str, str]:
    try:
        text = (packages / _LIST).read_text(encoding="utf-8")
    except OSError as error:
        raise SimulationError(
            f"the list of operators that torch's wheels include cannot be read: {error}. Install "
            "torch again: pip install --force-reinstall torch."
        ) from error
    return {each.partition("(")[0]: each for each in text.split("\n- func: ")[1:]}
