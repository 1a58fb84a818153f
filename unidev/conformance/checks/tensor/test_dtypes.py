"""Dtypes: how they are spelt.

PYTEST_DONT_REWRITE
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import unidev
from unidev.conformance.kit.inputs import samples
from unidev.conformance.running.catalog import check

if TYPE_CHECKING:
    from unidev.conformance.kit.workbench import Workbench


@check(required=True)
def test_spellings(bench: Workbench) -> None:
    """A dtype may be its name, NumPy's dtype or type, or a spelling of the framework's own."""
    further = bench.probe.dtype_spellings()
    for name in bench.dtypes(bench.cpu):
        own = bench.backend.dtypes[name]
        spellings = [name, own, *further.get(name, ())]
        if samples.is_numpy_dtype(name):
            spellings += [np.dtype(name), np.dtype(name).type]
        for spelling in spellings:
            made = bench.works(unidev.zeros, 3, dtype=spelling)
            assert made.dtype == own, f"zeros of {spelling!r}: dtype {made.dtype}, not {own}"
        bench.evidence.add("spelt", f"{name}: {', '.join(map(repr, spellings[1:]))}")
