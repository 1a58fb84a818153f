"""NumPy's memory for other frameworks, and theirs in arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from unidev.contract.dtypes import refuse_masked
from unidev.contract.interop import HostInterop

Array = np.ndarray[Any, Any]


class NumpyInterop(HostInterop):
    """Arrays of the host, also those of subclasses, which give their plain values."""

    def array_of(self, x: Array) -> Array:
        """``x`` itself, or a view of its values."""
        if type(x) is np.ndarray:
            return x
        refuse_masked(type(x))
        return x.view(np.ndarray)

    def tensor_of(self, array: Array) -> Array:
        """The array."""
        return array
