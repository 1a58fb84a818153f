"""Numbers and lists of numbers, as NumPy arrays of the dtype that unidev gives them."""

from __future__ import annotations

import math

from unidev.contract.dtypes import DTYPES, FINITE, NARROW, numpy_name, refuse_masked
from unidev.errors import InvalidDataError, NotATensorError, UnsupportedDtypeError
from unidev.system.wording import kind_of, shown, type_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import numpy as np

    from unidev.contract.dtypes import Dtype

_NARROW = {"d": "float32", "D": "complex64"}
"""The dtypes of Python's numbers: NumPy's by ``char``, since its names take 5 µs, and unidev's."""

_NUMBERS = (bool, int, float, complex)
_DEEPEST = 64
"""NumPy's largest number of dimensions."""


def as_numpy(data: object, dtype: str | None, integer: str = "int64") -> np.ndarray[Any, Any]:
    """``data`` as an array in native byte order; shares memory with ``data`` if that is an array.

    ``dtype`` is the name of the final dtype, if known: lists are then read with it, so that no
    precision is lost. ``integer`` is the name of the one that Python's ints have otherwise.

    Raises:
        NotATensorError: ``data`` contains something other than numbers.
        UnsupportedDtypeError: an array of a dtype that tensors do not have.
        InvalidDataError: ragged or circular lists, or a value that ``dtype`` cannot hold.
    """
    import numpy as np

    if isinstance(data, (np.ndarray, np.generic)):
        refuse_masked(type(data))
        values = np.asarray(data)
        _refuse_objects(values, data)
        values = values.astype(values.dtype.newbyteorder("="), copy=False)
        check_fits(values, dtype)
        return values
    return _from_python(data, dtype, integer)


def default_dtype(value: object, integer: str = "int64") -> str:
    """The dtype of one number: float32, ``integer``, bool or complex64; a NumPy scalar's own.

    Raises:
        InvalidDataError: ``value`` is not a number.
    """
    import numpy as np

    if isinstance(value, np.generic) and value.dtype.kind in "biufc":
        return str(value.dtype.name)
    for cls, name in zip(_NUMBERS, ("bool", integer, "float32", "complex64"), strict=True):
        if isinstance(value, cls):
            return name
    raise InvalidDataError(f"a number is needed, not {shown(value)} of type {kind_of(value)}.")


def checked_number(value: Any, dtype: str | None) -> Any:
    """``value`` as a Python number that ``dtype`` can hold, else ``InvalidDataError``."""
    import numpy as np

    default_dtype(value)
    number = value.item() if isinstance(value, np.generic) else value
    if dtype is None:
        return number
    kind, least, largest = _range(dtype)
    if kind in "iu":
        fits = isinstance(number, (int, float)) and number == number // 1
        fits = fits and least <= number <= largest
        number = int(number) if fits else number
    elif kind in "fc":
        is_complex = isinstance(number, (complex, np.complexfloating))
        parts = (number.real, number.imag) if is_complex else (number,)
        held = [_nearest(part, largest, dtype) for part in parts]
        fits = (kind == "c" or not is_complex) and None not in held
        if fits:
            number = complex(*held) if is_complex else held[0]
        if fits and isinstance(number, int) and abs(number) >= 2**63:
            number = float(number)  # some frameworks read any int as one of 64 bits
    else:
        fits = isinstance(number, bool) or number in (0, 1)
    if not fits:
        raise InvalidDataError(f"{dtype} cannot hold {shown(value)}.")
    return number


def _nearest(number: Any, largest: float, dtype: str) -> Any:
    """``number``, or the largest of ``dtype`` where it is rounded to that; None beyond the range.

    Frameworks refuse what is larger than the largest, also where NumPy rounds it.
    """
    import numpy as np

    # An int may be larger than any float: comparing is exact where converting raises.
    is_infinite = abs(number) == math.inf and dtype not in FINITE
    if abs(number) <= largest or is_infinite or number != number:  # noqa: PLR0124  NaN
        return number
    if _lacking(dtype) is not None:
        return None
    exponent, bits = int(np.finfo(dtype).maxexp), int(np.finfo(dtype).nmant)
    beyond = (1 << exponent) - (1 << exponent - bits - 2)  # the first that is rounded to infinity
    return math.copysign(largest, number) if abs(number) < beyond else None


def always_fits(source: str, dtype: str) -> bool:
    """Whether a conversion from ``source`` to ``dtype`` corrupts no value (see ``check_fits``)."""
    (kind, lowest, highest), (wanted, least, largest) = _range(source), _range(dtype)
    if wanted == "b":
        return kind != "c"
    ranks = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}
    return ranks[kind] <= ranks[wanted] and least <= lowest and highest <= largest


def _lacking(dtype: str) -> Dtype | None:
    """What is known of a dtype that NumPy lacks; None for NumPy's own."""
    known = NARROW.get(dtype) or DTYPES.get(dtype)
    return None if known is None or known.largest is None else known


def _range(dtype: str) -> tuple[str, float, float]:
    """The kind of a dtype, as NumPy abbreviates it, and its least and largest finite number."""
    import numpy as np

    known = _lacking(dtype)
    if known is not None and known.largest is not None:
        least = {"i": -known.largest - 1, "u": 0}.get(known.kind, -known.largest)
        return known.kind, least, known.largest
    kind = np.dtype(dtype).kind
    if kind == "b":
        return kind, 0, 1
    if kind in "iu":
        integers = np.iinfo(dtype)
        return kind, integers.min, integers.max
    largest = float(np.finfo(dtype).max)
    return kind, -largest, largest


def _from_python(data: object, dtype: str | None, integer: str) -> np.ndarray[Any, Any]:
    import numpy as np

    types = {type(data)}
    if isinstance(data, (list, tuple)):
        types.clear()
        _collect_types(data, types, [])
    for cls in types:
        refuse_masked(cls)
    _check_types(types)
    is_int = int in types and types <= {bool, int}
    if dtype is None and is_int:
        dtype = integer  # by default, NumPy makes larger ones uint64 or float64
    try:
        values = np.array(data)
        if values.dtype.kind == "O" and is_int and _range(str(dtype))[0] in "fc":
            values = values.astype("float64")  # ints beyond 64 bits
        if dtype is None and not any(issubclass(cls, (np.ndarray, np.generic)) for cls in types):
            dtype = _NARROW.get(values.dtype.char)
        if values.dtype.kind != "O" or not is_int:
            _refuse_objects(values, data)
            check_fits(values, dtype)
        if dtype is None or _lacking(dtype) is not None:
            _refuse_objects(values, data)
            return values
        with np.errstate(all="ignore"):
            return np.array(data, dtype=dtype)
    except (ValueError, OverflowError, TypeError) as error:
        if isinstance(error, (UnsupportedDtypeError, InvalidDataError)):
            raise
        raise InvalidDataError(
            "a tensor needs rows of equal length, of numbers that its dtype"
            f"{f' ({dtype})' if dtype else ''} can hold: {error}"
        ) from None


def _collect_types(items: Any, found: set[type], around: list[int]) -> None:
    """Add the types of what is in nested lists and tuples; ``around`` has the lists' ids."""
    if id(items) in around:
        raise InvalidDataError(f"the {kind_of(items)} contains itself: {shown(items)}.")
    if len(around) == _DEEPEST:
        raise InvalidDataError(f"the lists are nested deeper than {_DEEPEST} levels.")
    types = set(map(type, items))
    nested = {cls for cls in types if issubclass(cls, (list, tuple))}
    found |= types - nested
    if nested:
        around.append(id(items))
        for item in items:
            if type(item) in nested:
                _collect_types(item, found, around)
        around.pop()


def _check_types(types: set[type]) -> None:
    import numpy as np

    from unidev.backends.loading import backend_of_type

    for cls in types:
        if issubclass(cls, _NUMBERS):
            continue
        module = str(getattr(cls, "__module__", ""))  # types made in C may have none
        is_numpy = module.partition(".")[0] == "numpy"  # excludes simulated arrays
        if is_numpy and issubclass(cls, (np.generic, np.ndarray)):
            continue
        backend = backend_of_type(cls)
        if backend is not None:
            raise NotATensorError(
                f"cannot make a tensor from a list of {backend.name} tensors: stack them with the "
                "framework's own function, or pass the list to copy_to."
            )
        raise NotATensorError(
            "a tensor is made from numbers, nested lists of numbers, NumPy arrays or the "
            f"framework's own tensors, not from {type_name(cls)}."
        )


def check_fits(values: np.ndarray[Any, Any], dtype: str | None) -> None:
    """Raise InvalidDataError if a conversion to ``dtype`` would silently corrupt a value.

    Floats may be rounded and truncated; a value beyond the range and an imaginary part may not.
    """
    if dtype is None or not values.size:
        return
    name = numpy_name(values.dtype)
    if dtype == name:
        return
    if _lacking(name) is not None:  # from ml_dtypes: NumPy does not count it as a number
        values = values.astype("float32")
    kind, least, largest = _range(dtype)
    if values.dtype.kind == "c" and kind != "c":
        raise InvalidDataError(f"{dtype} cannot hold complex numbers: pass their real parts.")
    if kind in "iu" and values.dtype.kind in "iuf":
        for extreme in (values.min().item(), values.max().item()):  # NaN, if there is one
            if not (math.isfinite(extreme) and least <= int(extreme) <= largest):
                own = f" {name} can." if values.dtype.kind in "iu" else ""
                raise InvalidDataError(
                    f"{dtype} cannot hold {extreme!r}: its range is {least} to {largest}.{own}"
                )
    elif kind in "fc":
        _check_floats(values, dtype, largest)


def _check_floats(values: Any, dtype: str, largest: float) -> None:
    import numpy as np

    is_of_numpy = _lacking(dtype) is None
    with np.errstate(all="ignore"):
        if is_of_numpy:
            lost = np.isfinite(values) & ~np.isfinite(values.astype(dtype))
        else:
            lost = (np.abs(values) > largest) & (np.isfinite(values) | (dtype in FINITE))
    if lost.any():
        remedy = "float64 goes up to 1.8e308" if is_of_numpy else f"it goes up to {largest:g}"
        raise InvalidDataError(f"{dtype} cannot hold {values[lost].flat[0]!r}; {remedy}.")


def _refuse_objects(values: np.ndarray[Any, Any], data: object) -> None:
    if values.dtype.kind not in "biufc" and _lacking(numpy_name(values.dtype)) is None:
        raise UnsupportedDtypeError(
            f"{kind_of(data)} of {values.dtype}: tensors have no such dtype. (Uneven rows and ints "
            "beyond int64 give this, too; |V2 of a file is bfloat16: x.view(ml_dtypes.bfloat16).)"
        )
