"""dtypes by name: portable ones, NumPy's, and the framework's own; arrays that no tensor holds."""

from __future__ import annotations

import sys

from unidev.errors import InvalidDataError, UnsupportedDtypeError
from unidev.system.wording import shown, type_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    import numpy as np

    from unidev.contract.backend import Backend


class Dtype:
    """A dtype whose name means the same on every framework that has it.

    Attributes:
        nbytes: the size of one element.
        kind: as NumPy abbreviates it: ``b``, ``i``, ``u``, ``f`` or ``c``.
        on_host: NumPy's dtype that holds the bits; the dtype itself unless NumPy lacks it.
        code: safetensors' name of it; None if files cannot hold it.
        largest: the largest finite number, where NumPy lacks the dtype.
    """

    __slots__ = ("code", "kind", "largest", "nbytes", "on_host")

    def __init__(
        self, nbytes: int, kind: str, on_host: str, code: str | None, largest: float | None = None
    ) -> None:
        self.nbytes = nbytes
        self.kind = kind
        self.on_host = on_host
        self.code = code
        self.largest = largest


DTYPES: Mapping[str, Dtype] = {
    "bool": Dtype(1, "b", "bool", "BOOL"),
    "int8": Dtype(1, "i", "int8", "I8"),
    "int16": Dtype(2, "i", "int16", "I16"),
    "int32": Dtype(4, "i", "int32", "I32"),
    "int64": Dtype(8, "i", "int64", "I64"),
    "uint8": Dtype(1, "u", "uint8", "U8"),
    "uint16": Dtype(2, "u", "uint16", "U16"),
    "uint32": Dtype(4, "u", "uint32", "U32"),
    "uint64": Dtype(8, "u", "uint64", "U64"),
    "float16": Dtype(2, "f", "float16", "F16"),
    "bfloat16": Dtype(2, "f", "uint16", "BF16", largest=float.fromhex("0x1.fep127")),
    "float32": Dtype(4, "f", "float32", "F32"),
    "float64": Dtype(8, "f", "float64", "F64"),
    "complex64": Dtype(8, "c", "complex64", "C64"),
    "complex128": Dtype(16, "c", "complex128", None),
}
"""By name: all portable dtypes. A new one takes a line here, and one in each backend with it."""


FINITE: Mapping[str, float] = {
    "float8_e4m3fn": 448.0, "float8_e4m3fnuz": 240.0, "float8_e4m3b11fnuz": 30.0,
    "float8_e5m2fnuz": 57344.0, "float6_e2m3fn": 7.5, "float6_e3m2fn": 28.0, "float4_e2m1fn": 6.0,
}  # fmt: skip
"""Those without infinities, and their largest number."""
_INFINITE = {"float8_e3m4": 15.5, "float8_e4m3": 240.0, "float8_e5m2": 57344.0}
_INTEGERS = {"int4": 7, "int2": 1, "uint4": 15, "uint2": 3}
NARROW: Mapping[str, Dtype] = {
    **{name: Dtype(1, "f", "uint8", None, most) for name, most in {**FINITE, **_INFINITE}.items()},
    **{name: Dtype(1, name[0], "uint8", None, most) for name, most in _INTEGERS.items()},
}
"""Dtypes that are not portable, but whose range is checked, by the names that ml_dtypes has.

The frameworks that have one call it so, too; a user means it by the framework's own object.
"""

_narrow_names: dict[Any, str | None] = {}


def name_of(dtype: Any, backend: Backend) -> str | None:
    """The portable name of a framework's dtype, or its name among ``NARROW``, or None."""
    return portable_name(dtype, backend) or narrow_name(dtype)


def narrow_name(dtype: Any) -> str | None:
    """The name among ``NARROW`` of a dtype of any framework: ``torch.float8_e5m2``; or None."""
    if dtype not in _narrow_names:
        words = str(dtype).replace("'", ".").replace(">", ".").split(".")
        _narrow_names[dtype] = next((word for word in words if word in NARROW), None)
    return _narrow_names[dtype]


def native_dtype(spec: object, backend: Backend) -> Any:
    """The framework's dtype for ``spec``: a name, a NumPy dtype, or the framework's own.

    Raises:
        UnsupportedDtypeError: the framework does not have it; lists those it has.
    """
    table = backend.dtypes
    found = table.get(spec) if isinstance(spec, str) else None
    if found is None:
        found = backend.parse_dtype(spec)
    if found is None:
        said = shown(spec) if isinstance(spec, str) else _numpy_name(spec) or shown(spec)
        raise UnsupportedDtypeError(
            f"the {backend.name} backend has no dtype {said}; it has {', '.join(table)}."
        )
    return found


def parsed(spec: object, table: Mapping[str, Any]) -> Any | None:
    """The dtype of ``table`` that ``spec`` names, or ``spec`` if it is one of that kind, or None.

    Of that kind, but not in the table: one that NumPy does not have, such as a float8.
    """
    for own in table.values():
        if own is spec:  # mostly: frameworks have one object for each dtype
            return spec
    name = spec if isinstance(spec, str) else _numpy_name(spec)
    if name is not None and name in table:
        return table[name]
    alike = [own for own in table.values() if type(spec) is type(own)]
    return spec if alike and (name is None or spec in alike) else None


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


def refuse_masked(cls: type) -> None:
    """Raise InvalidDataError for a class of masked arrays: NumPy would silently drop the mask."""
    # Not there before it is imported, nor while another thread imports it: no masked arrays, then.
    masked = getattr(sys.modules.get("numpy.ma"), "MaskedArray", None)
    if masked is not None and issubclass(cls, masked):
        raise InvalidDataError(
            f"this {type_name(cls)} has masked elements: pass x.filled(value), or x.data to use "
            "the values under the mask."
        )
