"""Matching a model's tensors with the entries of a checkpoint, and reporting every mismatch."""

from __future__ import annotations

from collections import Counter
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from unidev.contract.backend import Unsupported
from unidev.contract.dtypes import portable_name
from unidev.errors import (
    CheckpointError,
    InvalidDataError,
    PluginError,
    UnidevError,
    UnsupportedDtypeError,
    UnsupportedOperation,
)
from unidev.models import trees
from unidev.models.checkpoints.format import CODES, Entry, content_digest, nbytes, numpy_dtype
from unidev.system.wording import kind_of, one_line
from unidev.tensors.kinds import say_where, shape_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from unidev.contract.backend import Backend, Extent
    from unidev.contract.models import Stored
    from unidev.device import Device
    from unidev.models.checkpoints.reading import Checkpoint

    Array = np.ndarray[Any, Any]

_MOST_LISTED = 20
"""The most problems that a message lists; the error's ``problems`` has them all."""
_LONGEST_COMPARED = 200
"""Characters of the longest name to compare: that takes time in the product of the lengths."""


class Slot(NamedTuple):
    """One tensor of a model, with all of its names."""

    names: tuple[str, ...]
    stored: Stored
    entry: Entry
    """How the file stores it, under the first name."""


def slots_of(backend: Backend, model: Any, *, takes_empty: bool = False) -> list[Slot]:
    """The tensors of ``model``; a tied tensor appears once.

    ``takes_empty``: also those without memory.

    Raises:
        InvalidDataError: a tensor and a number have one name.
        UnsupportedOperation: a tensor cannot be stored; names it.
    """
    stored = trees.stored(model) if trees.is_tree(model, backend) else backend.models.stored(model)
    slots: dict[object, Slot] = {}
    for name, one in stored.items():  # a tensor stored in two layouts gets two entries
        key = (id(one.tensor), one.axes)
        known = slots.get(key) or _slot(name, one, backend, takes_empty=takes_empty)
        slots[key] = known._replace(names=(*known.names, name))
    both = stored.keys() & numbers_of(backend, model)
    if both:
        raise InvalidDataError(f"a tensor and a number have the name {min(both)!r}.")
    return [*slots.values()]


def _slot(name: str, stored: Stored, backend: Backend, *, takes_empty: bool) -> Slot:
    """A slot without names."""
    x, axes = stored
    reason = backend.models.unstorable(x)
    is_empty = backend.models.lacks_memory(x)
    if is_empty and not takes_empty:
        reason = "it has no values yet: unidev.load_parameters(model, file) loads some"
    if reason:
        raise UnsupportedOperation(f"a checkpoint with {name!r}", reason)
    try:
        if not is_empty:
            backend.check_memory(x)
        shape = tuple(map(int, shape_of(x)))
    except UnidevError as error:
        say_where(error, repr(name))
        raise
    if axes is not None:
        shape = tuple(shape[axis] for axis in axes)
    return Slot((), stored, Entry(name, _dtype_name(x.dtype, backend), shape))


def numbers_of(backend: Backend, model: Any) -> Mapping[str, Any]:
    """The numbers that are saved with ``model``, by name."""
    if trees.is_tree(model, backend):
        return trees.numbers(model)
    return backend.models.numbers(model)


def _dtype_name(dtype: Any, backend: Backend) -> str:
    if isinstance(dtype, np.dtype):  # in any byte order
        return str(dtype.name)
    return portable_name(dtype, backend) or str(dtype)


# -- to a file -------------------------------------------------------------------------------------


def check_storable(slots: Iterable[Slot]) -> None:
    """Raise if a checkpoint cannot store these; the error lists every unsupported dtype.

    Raises:
        UnsupportedDtypeError: the format has no code for a dtype.
        InvalidDataError: a name cannot be stored.
    """
    check_dtypes((slot.entry for slot in slots), CODES, "a checkpoint cannot store")
    for name in (name for slot in slots for name in slot.names):
        if name == "__metadata__" or name.encode(errors="replace").decode() != name:
            raise InvalidDataError(f"a tensor named {name!r} cannot be stored; rename it.")


def check_dtypes(entries: Iterable[Entry], known: Collection[str], lacks: str) -> None:
    """Raise ``UnsupportedDtypeError`` unless all are ``known``; the message lists the others."""
    refused = [f"{entry.name!r} is {entry.dtype}" for entry in entries if entry.dtype not in known]
    if refused:
        raise UnsupportedDtypeError(
            f"{lacks} these dtypes: {_shortened(refused, ', ')}. Possible are {', '.join(known)}."
        )


def merged(slots: Sequence[Slot], backend: Backend) -> list[Slot]:
    """``slots``, with those that share the same memory and values merged into one."""
    alike: dict[object, list[Slot]] = {}
    for slot, extents in zip(slots, extents_of(slots, backend), strict=True):
        alike.setdefault((extents, slot.entry.form) if extents else id(slot), []).append(slot)
    # Different views of one storage have equal extents, so the values are compared as well.
    return [
        same[0]._replace(names=tuple(name for slot in same for name in slot.names))
        for group in alike.values()
        for same in (_by_values(group, backend) if len(group) > 1 else [group])
    ]


def values_of(slot: Slot, backend: Backend) -> Array:
    """The values in the file's layout; a wrong shape is a ``PluginError``."""
    x, axes = slot.stored
    values = backend.models.read(x)
    if axes is not None:
        values = values.transpose(axes)
    if values.shape != slot.entry.shape:  # the header has already been written
        raise PluginError(
            f"the {backend.name} backend returned an array of shape {values.shape} for "
            f"{slot.entry.name!r}, which is {slot.entry}.",
            backend=backend.name,
        )
    return values


def extents_of(slots: Iterable[Slot], backend: Backend) -> list[tuple[Extent, ...]]:
    """The memory behind each slot; empty if the backend does not report extents."""

    def of(slot: Slot) -> tuple[Extent, ...]:
        try:
            found = backend.extents(slot.stored.tensor)
        except UnsupportedOperation:  # then only identical objects count as shared
            return ()
        return tuple(extent for extent in found if extent.nbytes)

    return [of(slot) for slot in slots]


def _by_values(slots: Sequence[Slot], backend: Backend) -> Iterable[list[Slot]]:
    found: dict[bytes, list[Slot]] = {}
    for slot in slots:
        found.setdefault(content_digest(values_of(slot, backend)), []).append(slot)
    return found.values()


# -- from a file -----------------------------------------------------------------------------------


def fitted(
    slots: Sequence[Slot], file: Checkpoint, backend: Backend, model: Any
) -> tuple[list[Entry], dict[str, Any]]:
    """The entry of ``file`` for each slot, and the value of each number.

    Raises:
        CheckpointError: the file does not match the model; ``problems`` lists every mismatch.
    """
    names = {name: file.entries[first] for name, first in file.ties.items()} | file.entries
    wanted = {name for slot in slots for name in slot.names}
    if names.keys() != wanted:
        names = _renamed(names, wanted, backend)
    recorded = file.numbers or {}
    for slot in slots:  # arrays now, which were numbers when they were saved
        for name in recorded.keys() & {*slot.names}:
            if _becomes(recorded[name], slot.entry):
                names[name] = slot.entry._replace(name=name)
    numbers, problems = _new_numbers(numbers_of(backend, model), names, file)
    wanted |= numbers.keys()
    unknown = [name for name in {**names, **recorded} if name not in wanted]
    entries = []
    for slot in slots:
        found = {names[name]: name for name in reversed(slot.names) if name in names}
        entries.extend(list(found)[:1])
        problems.extend(_problems(slot, found, unknown, file))
    problems += [
        f"{name}: {names.get(name) or kind_of(recorded.get(name))} in the file, not in the model"
        for name in unknown
    ]
    if problems:
        raise misfit(problems, file, backend, model)
    return entries, numbers


def _new_numbers(
    own: Mapping[str, Any], names: Mapping[str, Entry], file: Checkpoint
) -> tuple[dict[str, Any], list[str]]:
    """The value in the file of each number, its own where a file has none; and the problems."""
    new, recorded, problems = dict(own), file.numbers or {}, []
    for name, old in own.items():
        if name in recorded:
            new[name] = recorded[name]
        elif name in names:
            new[name] = _number(file, names[name], old)
            if new[name] is None:
                problems.append(f"{name}: {names[name]} in the file, {kind_of(old)} in the model")
        elif file.numbers is not None:
            problems.append(f"{name}: {kind_of(old)} in the model, not in the file")
        if (type(new[name]), repr(new[name])) == (type(old), repr(old)):
            new[name] = old
    return new, problems


def _becomes(number: Any, entry: Entry) -> bool:
    """Whether an array as in ``entry`` is what a framework makes of ``number``."""
    if entry.shape or entry.dtype not in CODES or entry.dtype == "bfloat16":
        return False
    if isinstance(number, np.generic):
        return str(number.dtype.name) == entry.dtype
    dtype = numpy_dtype(entry.dtype)
    if np.asarray(number).dtype.kind != ("i" if dtype.kind == "u" else dtype.kind):
        return False
    return dtype.kind not in "iu" or bool(np.iinfo(dtype).min <= number <= np.iinfo(dtype).max)


def _number(file: Checkpoint, entry: Entry, old: Any) -> Any:
    """The value of an array in the file as a number of the kind of ``old``, or None."""
    if entry.shape or entry.dtype not in CODES:
        return None
    values = file.read(entry, np.empty(nbytes(entry), np.uint8))
    if entry.dtype == "bfloat16":
        values = (values.astype(np.uint32) << 16).view(np.float32)
    if isinstance(old, np.generic):
        return values[()].astype(old.dtype) if entry.dtype == old.dtype.name else None
    return values.item()


def _renamed(names: Mapping[str, Entry], wanted: set[str], backend: Backend) -> dict[str, Entry]:
    """``names`` as in the model, where they differ only by what wrappers put before or between."""
    theirs, own = backend.models.bare_names(names), backend.models.bare_names(wanted)
    of_model = {bare: name for name, bare in own.items()}
    if len({*theirs.values()}) < len(theirs) or len(of_model) < len(own):
        return dict(names)
    return {of_model.get(bare, name): names[name] for name, bare in theirs.items()}


def misfit(
    problems: Sequence[str], file: Checkpoint, backend: Backend, model: Any
) -> CheckpointError:
    """The error for an intact file that does not match the model."""
    problems = [one_line(problem) for problem in problems]
    message = (
        f"{file.path!r} does not match this {kind_of(model)}; nothing was loaded:\n  "
        + _shortened(problems, "\n  ")
    )
    origin = one_line(file.metadata.get("unidev.framework", backend.name))
    if origin != backend.name:
        message += (
            f"\nIt was saved with {origin}, but this is a {backend.name} model. Only models built "
            "from unidev.nn layers use the same names with both."
        )
    return CheckpointError(message, problems=problems)


def _problems(
    slot: Slot, found: Mapping[Entry, str], unknown: Sequence[str], file: Checkpoint
) -> list[str]:
    name, wanted = " = ".join(slot.names), slot.entry
    if not found:
        near = [name for name in unknown[:100] if len(name) < _LONGEST_COMPARED]
        close = get_close_matches(slot.names[0], near, 1)
        hint = f" (which has {close[0]!r})" if close else ""
        return [f"{name}: {wanted} in the model, not in the file{hint}"]
    wrong = {entry: alias for entry, alias in found.items() if entry.form != wanted.form}
    if wrong:
        return [
            f"{alias}: {entry} in the file, {wanted} in the model" for entry, alias in wrong.items()
        ]
    if len(found) > 1 and len({file.digest_of(entry) for entry in found}) > 1:
        return [f"{name}: tied in the model, but their values differ in the file"]
    return []


def model_layout(slot: Slot, values: Array) -> Array:
    """``values``, converted from the file's layout to the model's."""
    axes = slot.stored.axes
    return values if axes is None else values.transpose(np.argsort(axes))


def bfloat16_of_bits(bits: Array, dtype: Any, device: Device, backend: Backend) -> Any:
    """A new tensor of ``dtype``, bfloat16, with these bits: converting may change NaN."""
    try:
        on_host = backend.to_numpy(backend.empty((), dtype, backend.cpu)).dtype
    except UnsupportedDtypeError:
        if isinstance(backend.models, Unsupported):  # which is no reason that helps
            raise
        x = backend.empty(bits.shape, dtype, device)
        backend.models.write(x, bits)
        return x
    return backend.from_numpy(bits.view(on_host), dtype, device)


def check_written(
    pairs: Sequence[tuple[Slot, Entry]], file: Checkpoint, backend: Backend, model: Any
) -> None:
    """Raise if a tensor that shares memory with another does not end up with the file's values."""
    extents = extents_of([slot for slot, _ in pairs], backend)
    shared = Counter(extents)
    problems = [
        f"{slot.entry.name}: shares memory with another tensor whose values differ in the file"
        for (slot, entry), memory in zip(pairs, extents, strict=True)
        if memory
        and shared[memory] > 1
        and content_digest(values_of(slot, backend)) != file.digest_of(entry)
    ]
    if problems:
        raise misfit(problems, file, backend, model)


def _shortened(problems: Sequence[str], between: str) -> str:
    listed = list(problems[:_MOST_LISTED])
    if len(problems) > _MOST_LISTED:
        listed.append(f"and {len(problems) - _MOST_LISTED} more")
    return between.join(listed)
