"""Cards that lack a dtype."""

from __future__ import annotations

from typing import Any

import numpy as np

from mutants.cards.hardware import cards_mutant, put_cards_into
from mutants.mutant import around, replace


def _take_float64_away(backend: Any) -> None:
    """Let the cards have no float64, and say so."""
    from mutants.cards.hardware import Card

    put_cards_into(backend)
    make, names = Card.empty, backend.dtypes_on

    @replace(Card)
    def empty(self: Any, shape: Any, dtype: Any) -> Any:
        if dtype == "float64":
            raise TypeError("the framework doesn't support float64. Please use float32 instead.")
        return make(self, shape, dtype)

    @replace(backend)
    def dtypes_on(self: Any, device: Any) -> Any:
        found = names(self, device)
        return found if device.kind == "cpu" else [name for name in found if name != "float64"]


@cards_mutant(
    "copy.values_bit_exact", "copy.disjoint_across_devices", "copy.float64_and_int64_not_narrowed",
    "create.on_each_device", "create.from_another_tensor",
    "create.each_dtype_on_each_device", "errors.unsupported_dtype", "errors.dtypes_of_devices",
    "values.tensors_convert_as_lists_do",
    result="pass",
)  # fmt: skip
def cards_without_float64(backend):
    """Nothing is broken: cards such as MPS, and some of XPU, which refuse a dtype."""
    _take_float64_away(backend)


@cards_mutant("errors.dtypes_of_devices")
def float64_is_narrowed_on_cards(backend):
    """What a device lacks is replaced by the next smaller: ``jax_enable_x64`` left off."""

    _take_float64_away(backend)

    @around(backend)
    def _on(put, self, array, device):
        wide = array.dtype == "float64" and device.kind == "gpu"
        return put(self, array.astype(np.float32) if wide else array, device)


@cards_mutant("errors.dtypes_of_devices")
def a_dtype_that_works_is_declared_missing(backend):
    """A suite that asks which dtypes there are is told of those that are easy."""
    put_cards_into(backend)

    @around(backend)
    def dtypes_on(names, self, device):
        return [name for name in names(self, device) if name != "float16"]
