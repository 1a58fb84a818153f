"""dtypes by name: portable ones, NumPy's, and the framework's own."""

from __future__ import annotations

from unidev.errors import UnsupportedDtypeError
from unidev.support.wording import shown

TYPE_CHECKING = False  # not typing's: importing that takes as long as all of unidev
if TYPE_CHECKING:
    from typing import Any

    import numpy as np

    from unidev.contract.backend import Backend

PORTABLE = (
    "bool", "int8", "int16", "int32", "int64", "uint8",
    "float16", "bfloat16", "float32", "float64", "complex64",
)  # fmt: skip
"""Names that mean the same on every framework that has the dtype."""


def native_dtype(spec: object, backend: Backend) -> Any:
    """The framework's dtype for ``spec``: a name, a NumPy dtype, or the framework's own.

    Raises:
        UnsupportedDtypeError: the framework does not have it; lists those it has.
    """
    table = backend.dtypes
    name = spec if isinstance(spec, str) else _numpy_name(spec)
    if name is not None and name in table:
        return table[name]
    if any(type(spec) is type(own) and spec == own for own in table.values()):
        return spec
    if name is None and any(type(spec) is type(own) for own in table.values()):
        return spec  # one of the framework's own that has no NumPy name
    raise UnsupportedDtypeError(
        f"the {backend.name} backend has no dtype {shown(spec)}; it has {', '.join(table)}."
    )


def portable_name(dtype: Any, backend: Backend) -> str | None:
    """The portable name of a framework's dtype, or None if it has none."""
    return next((name for name, own in backend.dtypes.items() if own == dtype), None)


_numpy_names: dict[np.dtype[Any], str] = {}


def numpy_name(dtype: np.dtype[Any]) -> str:
    """``dtype.name``, which NumPy composes anew each time, in 5 µs."""
    name = _numpy_names.get(dtype)
    if name is None:
        name = _numpy_names[dtype] = str(dtype.name)
    return name


def _numpy_name(spec: object) -> str | None:
    import numpy as np

    if isinstance(spec, np.dtype):
        return numpy_name(spec)
    if not (isinstance(spec, type) and issubclass(spec, np.generic)):
        return None
    several = (
        np.generic, np.number, np.integer, np.signedinteger, np.unsignedinteger, np.inexact,
        np.floating, np.complexfloating, np.flexible, np.character,
    )  # fmt: skip
    # For an abstract type, older NumPy picks one dtype, with a warning.
    return None if spec in several else str(np.dtype(spec).name)
