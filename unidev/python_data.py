"""Numbers and lists of them, as NumPy arrays of the dtype that unidev gives them."""

from __future__ import annotations

import math

from unidev.errors import InvalidDataError, NotATensorError, UnsupportedDtypeError

TYPE_CHECKING = False  # not typing's: importing that takes as long as all of unidev
if TYPE_CHECKING:
    from typing import Any

    import numpy as np

_NARROW = {"float64": "float32", "complex128": "complex64"}
"""What NumPy makes of Python's numbers, and what unidev does."""


def as_numpy(data: object, dtype: str | None) -> np.ndarray[Any, Any]:
    """``data`` in native byte order; shares memory with ``data`` where that is an array.

    ``dtype`` is the name that the values are going to have, if that is known: then lists are read
    as that, so that nothing is lost on the way.
    """
    import numpy as np

    if isinstance(data, (np.ndarray, np.generic)):
        values = np.asarray(data)
        _refuse_objects(values, data)
        return values.astype(values.dtype.newbyteorder("="), copy=False)
    return _from_python(data, dtype)


def default_dtype(value: object) -> str:
    """The dtype of one number: float32, int64, bool or complex64; a NumPy scalar keeps its own.

    Raises:
        InvalidDataError: it is no number.
    """
    import numpy as np

    if isinstance(value, np.generic) and value.dtype.kind in "biufc":
        return str(value.dtype.name)
    for cls, name in ((bool, "bool"), (int, "int64"), (float, "float32"), (complex, "complex64")):
        if isinstance(value, cls):
            return name
    raise InvalidDataError(f"a number is needed, not {value!r} of type {type(value).__name__}.")


def checked_number(value: Any, dtype: str | None) -> Any:
    """``value`` as a Python number that ``dtype`` holds.

    Raises:
        InvalidDataError: it is no number, or not one that ``dtype`` holds.
    """
    import numpy as np

    default_dtype(value)
    number = value.item() if isinstance(value, np.generic) else value
    if dtype is None or dtype == "bfloat16":
        return number
    kind = np.dtype(dtype).kind
    if kind in "iu":
        limits = np.iinfo(dtype)
        fits = isinstance(number, (int, float)) and number == number // 1
        fits = fits and limits.min <= number <= limits.max
        number = int(number) if fits else number
    elif kind == "f":
        fits = not isinstance(number, complex) and _holds(number, float(np.finfo(dtype).max))
    else:
        fits = kind == "c" or isinstance(number, bool) or number in (0, 1)
    if not fits:
        raise InvalidDataError(f"{dtype} cannot hold {value!r}.")
    return number


def _holds(number: float, largest: float) -> bool:
    return not math.isfinite(number) or abs(number) <= largest


def _from_python(data: object, dtype: str | None) -> np.ndarray[Any, Any]:
    import numpy as np

    if not isinstance(data, (list, tuple, bool, int, float, complex)):
        raise NotATensorError(
            "a tensor is made of numbers, nested lists of them, NumPy arrays and the framework's "
            f"own tensors, not of {type(data).__module__}.{type(data).__qualname__}."
        )
    _refuse_tensors(data)
    try:
        values = np.array(data)
        _refuse_objects(values, data)
        if dtype is not None and dtype != "bfloat16":
            return _exactly(values, np.array(data, dtype=dtype), dtype)
    except (ValueError, OverflowError, TypeError) as error:
        if isinstance(error, (UnsupportedDtypeError, InvalidDataError)):
            raise
        raise InvalidDataError(
            f"a tensor needs numbers in rows of equal length that fit its dtype: {error}"
        ) from error
    except RecursionError as error:
        raise InvalidDataError("the list contains itself, or is nested too deep.") from error
    narrow = _NARROW.get(str(values.dtype.name))
    if narrow is None or _holds_numpy(data):
        return values
    with np.errstate(over="ignore"):
        return _exactly(values, values.astype(narrow), narrow)


def _exactly(
    values: np.ndarray[Any, Any], converted: np.ndarray[Any, Any], dtype: str
) -> np.ndarray[Any, Any]:
    """``converted``, unless a finite value became infinite."""
    import numpy as np

    if values.dtype.kind in "fciu" and converted.dtype.kind in "fc":
        lost = np.isfinite(values) & ~np.isfinite(converted)
        if lost.any():
            raise InvalidDataError(
                f"{dtype} cannot hold {values[lost].flat[0]!r}; float64 reaches 1.8e308."
            )
    return converted


def _refuse_objects(values: np.ndarray[Any, Any], data: object) -> None:
    if values.dtype.kind not in "biufc" and str(values.dtype) != "bfloat16":
        raise UnsupportedDtypeError(
            f"{type(data).__name__} of {values.dtype} holds no numbers of a dtype that tensors "
            "have; rows of unequal length and numbers beyond int64 end here, too."
        )


def _refuse_tensors(data: object) -> None:
    from unidev.loading import backend_of_type

    for item in data if isinstance(data, (list, tuple)) else ():
        if isinstance(item, (list, tuple)):
            if item and not isinstance(item[0], (int, float)):
                _refuse_tensors(item)
        elif not isinstance(item, (int, float)):
            backend = backend_of_type(type(item))
            if backend is not None and backend.name != "numpy":
                raise NotATensorError(
                    f"a list of {backend.name} tensors is no tensor: stack them with the "
                    "framework's own call, or pass the list to copy_to."
                )


def _holds_numpy(data: object) -> bool:
    """Whether NumPy scalars or arrays are in the lists: those keep their dtype."""
    import numpy as np

    if isinstance(data, (list, tuple)):
        return any(_holds_numpy(item) for item in data)
    return isinstance(data, (np.ndarray, np.generic))
