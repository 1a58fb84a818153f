"""Tensors that are drawn, not listed: sizes, dtypes, layouts, values and scopes.

A list is a hole: what stands between two of its entries is never seen. So each dtype of the backend
comes once with few bytes (or, on request, once in each layout) and once with many, some dtype above
each further limit, and the rest is drawn, from a seed: the same each time.
"""

from __future__ import annotations

import functools
import tempfile
import zlib
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import unidev
from unidev_conformance.kit.inputs import samples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from unidev.contract.backend import Backend
    from unidev.contract.probe import Probe
    from unidev.device import Device

    Array = np.ndarray[Any, Any]

KIB, MIB = 2**10, 2**20
OF_EACH_DTYPE = ((1, 8 * KIB), (8 * KIB, MIB))
"""Bytes, from and to: small ones, and what allocators and loops in parallel treat otherwise."""
OF_SOME_DTYPE = ((MIB, 16 * MIB), (17 * MIB, 20 * MIB))
CONTIGUOUS = "contiguous"
LAYOUTS = (CONTIGUOUS, CONTIGUOUS, "transposed", "sliced", "broadcast")
"""Layouts of a tensor, as ``Probe.views`` names them."""
MORE_LAYOUTS: Mapping[str, Callable[[Array], Array]] = {
    "rows": lambda x: x[1:-1],
    "reversed": lambda x: x[::-1],
    "mirrored": lambda x: x[..., ::-1],
    "permuted": lambda x: x.transpose(0, 3, 1, 2),
}
"""Those that ``Probe.more_views`` may have of four axes, and what they are of an array."""

HOST_LAYOUTS: Mapping[str, Callable[[Array], tuple[Array, Array]]] = {
    "in C order": lambda x: _both(x.copy(), ...),
    "in Fortran order": lambda x: _both(x.copy(order="F"), ...),
    "reversed": lambda x: _both(x[::-1].copy(), slice(None, None, -1)),
    "of every second element": lambda x: _both(np.repeat(x, 2, -1), (..., slice(None, None, 2))),
    "big-endian": lambda x: _both(x.astype(x.dtype.newbyteorder(">")), ...),
    "broadcast": lambda x: (once := x[:1].copy(), np.broadcast_to(once, x.shape)),
    "of a packed record": lambda x: _both(_packed(x), ...),
    "of a file": lambda x: _both(_mapped(x), ...),
}
"""Layouts of an array: the one that owns the memory, and the one with the layout."""


def _packed(values: Array) -> Array:
    records = np.zeros(values.shape, [("tag", "u1"), ("x", values.dtype)])
    records["x"] = values
    found: Array = records["x"]
    return found


def _mapped(values: Array) -> Array:
    with tempfile.TemporaryFile() as file:
        mapped = np.memmap(file, values.dtype, "w+", shape=values.shape)
    mapped[...] = values
    return mapped


def _both(owner: Array, index: Any) -> tuple[Array, Array]:
    return owner, owner[index]


@dataclass(frozen=True)
class Drawn:
    """A tensor to make, and the scope to use it in."""

    values: Array
    """bfloat16 as float32, which NumPy has."""
    dtype: str
    layout: str
    host_layout: str
    is_read_only: bool
    """Whether the array on the host is."""
    scope: Device | None

    def __str__(self) -> str:
        inside = f", inside `with {self.scope}`" if self.scope else ""
        return f"{self.dtype} {self.values.shape}, {self.layout}{inside}"

    @property
    def is_of_numpy(self) -> bool:
        """Whether NumPy has the dtype."""
        return samples.is_numpy_dtype(self.dtype)

    def make(self, probe: Probe, device: Device) -> Any:
        """A contiguous tensor of these values, by the probe if NumPy has the dtype."""
        if self.is_of_numpy:
            return probe.make(self.values, device)
        return unidev.array(self.values, dtype=self.dtype, device=device)

    def make_laid_out(self, probe: Probe, device: Device) -> Any:
        """The same in its layout."""
        return self.laid_out(probe, self.make(probe, device))

    def laid_out(self, probe: Probe, x: Any) -> Any:
        """``x``, which ``make`` has made, in its layout: a view, if it is not contiguous."""
        if self.layout in MORE_LAYOUTS:
            return probe.more_views(x)[self.layout]
        return x if self.layout == CONTIGUOUS else probe.views(x)[self.layout]

    def on_host(self) -> tuple[Array, Array]:
        """The array that owns the memory, and one of its layout, perhaps read-only."""
        owner, array = HOST_LAYOUTS[self.host_layout](self.values)
        array.flags.writeable = not self.is_read_only and array.flags.writeable
        return owner, array

    def entered(self) -> AbstractContextManager[Any]:
        """The scope to use it in."""
        return self.scope or nullcontext()


def layouts_of(backend: Backend) -> tuple[str, ...]:
    """The layouts that the backend's probe makes."""
    x = backend.probe.make(samples.counting((3, 2, 3, 4)), backend.cpu)
    return (*LAYOUTS, *backend.probe.more_views(x))


def drawn(  # noqa: PLR0913  one for each way to draw
    dtypes: Sequence[str],
    scopes: Sequence[Device],
    seed: str,
    *,
    layouts: Sequence[str] = LAYOUTS,
    in_each: bool = False,
    has_few_shapes: bool = False,
) -> Iterator[Drawn]:
    """Some of each dtype, with ``in_each`` in each of ``layouts``, and some that are large.

    ``has_few_shapes``: one for each number of axes and limits, for frameworks that compile.
    """
    rng = np.random.Generator(np.random.Philox(zlib.crc32(seed.encode())))
    small, medium = OF_EACH_DTYPE
    each = dict.fromkeys(layouts) if in_each else [""]
    plan = [(dtype, small, layout) for dtype in dtypes for layout in each]
    plan += [(dtype, medium, "") for dtype in dtypes]
    plan += [(str(rng.choice(dtypes)), limits, CONTIGUOUS) for limits in OF_SOME_DTYPE]
    places = [None, *scopes]
    for number, (dtype, limits, given) in enumerate(plan):
        layout = given or str(rng.choice(layouts))
        nbytes = int(np.exp2(rng.uniform(*np.log2(limits))))
        axes, count = _axes(layout, number), nbytes // _itemsize(dtype)
        shape = _shape(rng, count, axes)
        if has_few_shapes:
            count = int(np.sqrt(limits[0] * limits[1])) // 8
            shape = _shape(np.random.Generator(np.random.Philox(axes)), count, axes)
        yield Drawn(
            _values(rng, dtype, shape), dtype, layout, str(rng.choice(list(HOST_LAYOUTS))),
            bool(rng.integers(2)), places[rng.integers(len(places))],
        )  # fmt: skip


def _axes(layout: str, number: int) -> int:
    if layout in MORE_LAYOUTS:
        return 4
    return 1 + number % 5 if layout == CONTIGUOUS else 2


def _shape(rng: np.random.Generator, count: int, axes: int) -> tuple[int, ...]:
    """About ``count`` elements on so many axes, the last the longest, often around a power of two.

    Two of a matrix at least, and three of the first of four axes.
    """
    firsts = [int(size) for size in rng.integers(2, 5, axes - 1)]
    if axes == 4:
        firsts[0] += 1
    last = max(count // int(np.prod(firsts, dtype=int)), 2)
    if rng.integers(2):  # where kernels and allocators change over
        last = max(2 ** (last.bit_length() - 1) + int(rng.integers(-1, 2)), 2)
    return (*firsts, last)


def _values(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Array:
    """Any bits, among them all those that a careless copy changes."""
    count = int(np.prod(shape))
    nbytes = count * _itemsize(dtype)
    start = int(rng.integers(len(_bits()) - nbytes))
    bits = _bits()[start : start + nbytes].copy()
    if dtype == "bool":
        bits &= 1
    if not samples.is_numpy_dtype(dtype):  # bfloat16, whose NaNs a conversion may change
        values: Array = (bits.view("uint16").astype("uint32") << 16).view("float32")
        values[np.isnan(values)] = 1.5
        return values.reshape(shape)
    values = bits.view(dtype)
    special = samples.telling_bits(dtype)
    values[rng.integers(count, size=len(special))] = special
    reshaped: Array = values.reshape(shape)
    return reshaped


def _itemsize(dtype: str) -> int:
    return np.dtype(dtype).itemsize if samples.is_numpy_dtype(dtype) else 2


@functools.cache
def _bits() -> Array:
    return np.frombuffer(np.random.Generator(np.random.Philox(7)).bytes(21 * MIB), "uint8")
