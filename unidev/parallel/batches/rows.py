"""The rows of what is not a loader: of arrays and tensors side by side, and of any sequence."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.backends.boundary import call, errors_of
from unidev.backends.loading import backend_of_namespace, backend_of_type
from unidev.contract.backend import Unsupported
from unidev.contract.data_loaders import Rows
from unidev.errors import InvalidDataError
from unidev.parallel.batches.prefetching import has_length
from unidev.system.wording import kind_of
from unidev.tensors.containers import Opened, replace_tensors
from unidev.tensors.kinds import rows_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from unidev.contract.backend import Backend

    Tensor = Any
    Array = np.ndarray[Any, Any]


_DTYPES: dict[type, Any] = {float: np.float32, complex: np.complex64}
"""Those of Python's numbers, as in ``unidev.array``; NumPy's own dtypes of all others."""


def rows_of_data(data: Any) -> Rows:
    """The rows of a loader, a data set, arrays, or a sequence."""
    backend = backend_of_namespace(type(data))
    if backend is not None and not isinstance(backend.loader, Unsupported):
        found: Rows | None = backend.loader.rows(data)
        if found is not None:
            return found
    if backend_of_type(type(data)) is not None or isinstance(data, (tuple, Mapping)):
        return _Columns(data)
    is_sequence = hasattr(type(data), "__getitem__") and has_length(data)
    if isinstance(data, (str, bytes)) or not is_sequence:
        raise InvalidDataError(
            "shard needs data that has a length and gives each row by its number: a loader or a "
            f"data set of the framework, arrays, or a sequence, not a {kind_of(data)}."
        )
    return _Sequence(data)


class _Columns(Rows):
    """Arrays or tensors that have the same number of rows; a batch has their structure."""

    def __init__(self, data: Any) -> None:
        counts: dict[int, None] = {}
        tree = Opened(data)
        tree.check_whole()
        for x, backend in tree.tensors:
            backend.check_memory(x)
            backend.collectives.check_dense([x], False)
            rows = rows_of(x)
            if rows is None:
                raise InvalidDataError(
                    "data to shard has a tensor without a dimension, so no rows."
                )
            counts[rows] = None
        if len(counts) != 1:
            raise InvalidDataError(
                "the tensors of data to shard must have the same number of rows, their first "
                f"dimension; found {', '.join(map(str, counts)) or 'no tensor'}. A list is treated "
                "as a sequence of rows."
            )
        (self._count,) = counts
        self._data = data

    def __len__(self) -> int:
        return self._count

    def read(self, batches: Sequence[Sequence[int]], size: int) -> Iterator[Any]:  # noqa: ARG002
        """In new memory, on the device of the data."""
        return map(self._batch, batches)

    def _batch(self, numbers: Sequence[int]) -> Any:
        return replace_tensors(partial(_taken, numbers), self._data)


def _taken(numbers: Sequence[int], x: Tensor, backend: Backend) -> Tensor:
    if type(x) is np.ndarray:
        return x[list(numbers)]
    use = backend.collectives
    with errors_of(backend, "taking rows of a tensor"):
        parts = [use.rows(x, start, stop) for start, stop in _stretches(numbers)]
        return use.concatenate(parts)


def _stretches(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """The numbers as ranges, as few as there are: a tensor's rows are read by stretches."""
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and found[-1][1] == number:
            found[-1] = (found[-1][0], number + 1)
        else:
            found.append((number, number + 1))
    return found


class _Sequence(Rows):
    """Any object with a length and rows by number; a batch stacks what is alike in them."""

    def __init__(self, data: Any) -> None:
        if isinstance(data, list) and data and all(backend_of_type(type(x)) for x in data):
            raise InvalidDataError(
                f"shard cannot tell whether a list of {len(data)} arrays has rows or columns: pass "
                "a tuple of columns, or one array with the rows stacked."
            )
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    def read(self, batches: Sequence[Sequence[int]], size: int) -> Iterator[Any]:  # noqa: ARG002
        """Rows are asked for one after the other, when their batch is."""
        return map(self._batch, batches)

    def _batch(self, numbers: Sequence[int]) -> Any:
        return _stacked([self._data[number] for number in numbers])


def _stacked(rows: list[Any]) -> Any:
    """One batch of rows of one structure: arrays of what is numbers, lists of the rest."""
    first = rows[0]
    if isinstance(first, (tuple, list, Mapping)):
        _check_alike(rows)
    if isinstance(first, Mapping):
        return {key: _stacked([row[key] for row in rows]) for key in first}
    if isinstance(first, (tuple, list)):
        parts = [_stacked(list(column)) for column in zip(*rows, strict=True)]
        return type(first)(*parts) if hasattr(first, "_fields") else type(first)(parts)
    backend = backend_of_type(type(first))
    if backend is None and not isinstance(first, (bool, int, float, complex, np.generic)):
        return rows
    if len({(type(row), tuple(getattr(row, "shape", ()))) for row in rows}) > 1:
        raise InvalidDataError(
            f"rows of one batch differ: {', '.join(sorted({_described(row) for row in rows}))}. "
            "Shard a loader of the framework, which pads or packs them."
        )
    if backend is None or type(first) is np.ndarray:
        dtype = _DTYPES.get(type(first))
        return np.stack([np.asarray(row, dtype) for row in rows])
    parts = [row[None] for row in rows]
    return call(backend, backend.collectives.concatenate, parts, doing="stacking rows")


def _check_alike(rows: list[Any]) -> None:
    first = rows[0]
    for row in rows:
        is_alike = type(row) is type(first) and len(row) == len(first)
        if not is_alike or (isinstance(first, Mapping) and set(row) != set(first)):
            raise InvalidDataError(
                f"the rows of a sequence differ: {_described(first)} and {_described(row)}."
            )


def _described(row: Any) -> str:
    shape = getattr(row, "shape", None)
    if shape is not None:
        return f"{kind_of(row)} of shape {tuple(shape)}"
    return f"{kind_of(row)} of {len(row)}" if hasattr(row, "__len__") else kind_of(row)
