"""Copies by every route, of every layout and dtype, from pinned memory or not, waiting or not."""

from __future__ import annotations

import importlib.util
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import unidev
from hardware_report.outcome import Findings, Outcome
from unidev.contract.backend import Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hardware_report.setting import Setting
    from unidev.contract.backend import Backend
    from unidev.contract.device import Device

    Array = np.ndarray[Any, Any]

SHAPES = ((3, 4), (257, 1031))
LARGE = (1024, 4099)
"""16 MiB of float32: above the staging buffers of copies from pageable memory."""
LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "contiguous": lambda a: a,
    "transposed": lambda a: a.T,
    "sliced": lambda a: a[1:, ::2],
    "broadcast": lambda a: np.broadcast_to(a, (3, *a.shape)),
}
"""What a probe's views have as values."""


class Case(NamedTuple):
    """One copy."""

    source: Device
    target: Device
    dtype: str
    layout: str
    memory: str
    """``pageable`` or ``pinned``."""
    waits: str
    """``blocking`` or ``non-blocking``."""


def to_gpu(setting: Setting) -> Outcome:
    """From the host to each GPU, also from pinned memory."""
    gpus = setting.gpus()
    return _judge(setting, ((unidev.cpu(), gpu) for gpu in gpus), LAYOUTS)


def to_host(setting: Setting) -> Outcome:
    """From each GPU to the host."""
    gpus = setting.gpus()
    return _judge(setting, ((gpu, unidev.cpu()) for gpu in gpus), ["contiguous"])


def within_gpu(setting: Setting) -> Outcome:
    """On each GPU, to new memory on itself."""
    return _judge(setting, ((gpu, gpu) for gpu in setting.gpus()), ["contiguous"])


def between_gpus(setting: Setting) -> Outcome:
    """From each GPU to each other."""
    gpus = setting.gpus(least=2)
    pairs = [(a, b) for a, b in product(gpus, gpus) if a is not b]
    return _judge(setting, pairs, ["contiguous"])


def views_on_gpu(setting: Setting) -> Outcome:
    """Views of tensors on a GPU, which the GPU itself must gather."""
    gpus = setting.gpus()
    targets = [unidev.cpu(), *gpus]
    pairs = [(gpu, target) for gpu in gpus for target in targets]
    return _judge(setting, pairs, [name for name in LAYOUTS if name != "contiguous"])


def _judge(
    setting: Setting, routes: Iterable[tuple[Device, Device]], layouts: Iterable[str]
) -> Outcome:
    found, backend = Findings(), setting.backend
    arrays, left_out = _arrays(backend, setting.is_short)
    rows = []
    for source, target in routes:
        for layout, memory, waits in product(layouts, _memories(backend, source, target), _WAITS):
            passed = []
            for dtype, array in arrays:
                case = Case(source, target, dtype, layout, memory, waits)
                problem = _problem(backend, case, array)
                if found.expect(problem is None, f"{_named(case, array)}: {problem}"):
                    passed.append(dtype)
            count = f"{len(passed)} of {len(arrays)}"
            rows.append((f"{source} to {target}", layout, memory, waits, count))
    found.table("Copies", ("route", "layout", "memory", "waits", "right to the bit"), rows)
    found.keep(dtypes=sorted({dtype for dtype, _ in arrays}), dtypes_left_out=left_out)
    if left_out:
        found.remark(f"dtypes that NumPy has no array of here: {', '.join(left_out)}")
    return found.outcome()


_WAITS = ("blocking", "non-blocking")


def _memories(backend: Backend, source: Device, target: Device) -> list[str]:
    if source.kind != "cpu" or target.kind == "cpu":
        return ["pageable"]
    return ["pageable"] if isinstance(backend.pinned, Unsupported) else ["pageable", "pinned"]


def _arrays(backend: Backend, is_short: bool) -> tuple[list[tuple[str, Array]], list[str]]:
    """An array of each dtype and shape, of random bits; and the dtypes that NumPy lacks."""
    generator = np.random.default_rng(11)
    found: list[tuple[str, Array]] = []
    left_out = []
    for name in backend.dtypes:
        dtype = _numpy_dtype(name)
        if dtype is None:
            left_out.append(name)
            continue
        shapes = SHAPES[:1] if is_short and name != "float32" else SHAPES
        found += [(name, _bits(generator, dtype, shape)) for shape in shapes]
    found.append(("float32", _bits(generator, np.dtype("float32"), LARGE)))
    return found, left_out


def _bits(generator: np.random.Generator, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    count = int(np.prod(shape)) * dtype.itemsize
    raw = generator.integers(0, 2 if dtype.kind == "b" else 256, count, dtype=np.uint8)
    return raw.view(dtype).reshape(shape)


def _numpy_dtype(name: str) -> np.dtype[Any] | None:
    if name.startswith(("bfloat", "float8")):
        if importlib.util.find_spec("ml_dtypes") is None:
            return None
        import ml_dtypes  # type: ignore[import-not-found, unused-ignore]

        return np.dtype(getattr(ml_dtypes, name)) if hasattr(ml_dtypes, name) else None
    try:
        return np.dtype(name)
    except TypeError:
        return None


def _problem(backend: Backend, case: Case, array: Array) -> str | None:
    """None if the copy has the values, to the bit, and is where it should be."""
    probe = backend.probe
    wanted = LAYOUTS[case.layout](array).tobytes()
    try:
        whole = probe.make(array, case.source)
        x = whole if case.layout == "contiguous" else probe.views(whole)[case.layout]
        if case.memory == "pinned":
            x = backend.pinned(x)
        copy = unidev.copy_to(x, case.target, non_blocking=case.waits == "non-blocking")
        unidev.synchronize(case.target)
        device, got, kept = unidev.device_of(copy), probe.read(copy), probe.read(x)
    except unidev.UnidevError as error:
        return f"{type(error).__name__}: {error}"
    if device is not case.target:
        return f"the copy is on {device}"
    if unidev.shares_memory(x, copy):
        return "the copy shares memory with its source"
    return _difference("the copy", got, wanted) or _difference("the source", kept, wanted)


def _difference(what: str, got: bytes, wanted: bytes) -> str | None:
    if got == wanted:
        return None
    if len(got) != len(wanted):
        return f"{what} has {len(got)} bytes instead of {len(wanted)}"
    places = np.flatnonzero(np.frombuffer(got, np.uint8) != np.frombuffer(wanted, np.uint8))
    return f"{what} differs in {places.size} of {len(wanted)} bytes, first in byte {places[0]}"


def _named(case: Case, array: Array) -> str:
    return (
        f"{case.waits} copy of {case.layout} {case.dtype}{array.shape} from {case.memory} memory, "
        f"{case.source} to {case.target}"
    )
