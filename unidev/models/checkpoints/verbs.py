"""Checkpoints: ``save_parameters`` and ``load_parameters``."""

from __future__ import annotations

import os

from unidev.calls.boundary import call, errors_of, verb
from unidev.calls.transfers import into_tensor, of_tensor
from unidev.devices.finding import resolve_device
from unidev.models.placing import backend_of_model, place_on
from unidev.support.wording import bytes_text, kind_of

TYPE_CHECKING = False  # not typing's: importing that takes as long as all of unidev
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    import numpy as np

    from unidev.contract.backend import Backend
    from unidev.devices.finding import DeviceLike
    from unidev.models.checkpoints.format import Entry
    from unidev.models.checkpoints.matching import Slot
    from unidev.models.checkpoints.reading import CheckpointFile

    Array = np.ndarray[Any, Any]


def save_parameters(model: Any, /, path: str | os.PathLike[str]) -> None:
    """Write the parameters of ``model``, and the buffers saved with it, to a safetensors file.

    The file takes its name when all of it is on the disk: whatever happens meanwhile (an error,
    Ctrl-C, a crash), the old file is there, or the new one, whole. Tied weights are stored once, of
    a view no more than it shows. Waits until the file is on the disk. Besides the model there is
    one tensor at a time in the host's memory.

    Args:
        model: as for ``place``. It may be on any device; that is not stored.
        path: of the file. A symbolic link stays one; a file that is there is replaced, and keeps
            its permissions.

    Raises:
        NotAModelError: ``model`` is none.
        UnsupportedOperation: its parameters do not exist yet; says how they come into being.
        UnsupportedDtypeError: the file cannot hold a dtype. Nothing is written.
        OSError: the file cannot be written, as of ``open(path, "wb")``. The old one is as it was.

    Format: docs/checkpoints.md. Any program that reads safetensors reads it.

    >>> import os, tempfile, unidev
    >>> model = {"weight": unidev.ones((3, 2)), "bias": unidev.zeros(3)}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     unidev.save_parameters(model, os.path.join(folder, "model.safetensors"))
    ...     os.listdir(folder)
    ['model.safetensors']
    """
    verb("save_parameters", _save, model, os.fsdecode(path), backend_of_model(model))


def load_parameters(
    model: Any, /, path: str | os.PathLike[str], *, device: DeviceLike | None = None
) -> Any:
    """Put the values in a checkpoint into ``model``, in place; returns the same object.

    The parameter objects and their memory stay, so an optimizer made before still trains them.
    Where the model is does not matter, nor where, or of which framework, it was when it was saved:
    names, shapes and dtypes have to be the same, of each tensor, and no name may be left over.
    What is tied in the model stays tied. All is checked, the file's content too, before anything is
    changed; if writing then fails or is interrupted, the old values are put back, for which they
    are kept on the host until all is written. The file is read one tensor at a time.

    Args:
        model: as for ``place``.
        path: of a file that ``save_parameters`` wrote, or any other safetensors file that fits.
        device: where to ``place`` the model first, once the file is known to fit; None: it stays
            where it is.

    Returns:
        ``model``.

    Raises:
        NotAModelError: ``model`` is none.
        CheckpointError: the file is damaged, or does not fit; ``problems`` lists all that is wrong.
        UnsupportedOperation: the parameters do not exist yet; says how they come into being.
        DeviceError: ``device`` makes no sense, or is not there.
        OSError: the file cannot be read.

    >>> import os, tempfile, unidev
    >>> model = {"weight": unidev.ones((3, 2)), "bias": unidev.zeros(3)}
    >>> other = {"weight": unidev.zeros((3, 2)), "bias": unidev.zeros(3)}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = os.path.join(folder, "model.safetensors")
    ...     unidev.save_parameters(model, file)
    ...     unidev.load_parameters(other, file, device="cpu") is other
    True
    >>> other["weight"][0].tolist()
    [1.0, 1.0]
    """
    file = os.fsdecode(path)
    backend = backend_of_model(model)
    target = None if device is None else resolve_device(device, backend)
    verb("load_parameters", _load, model, file, backend, target)
    return model


def _save(model: Any, path: str, backend: Backend) -> None:
    import json

    from unidev.models.checkpoints.format import FORMAT, nbytes
    from unidev.models.checkpoints.matching import check_storable, merged, slots_of, values_of
    from unidev.models.checkpoints.writing import write_checkpoint
    from unidev.support.atomic_file import replacing
    from unidev.support.progress import progress
    from unidev.support.version import __version__

    saving = f"saving a {kind_of(model)}"
    with errors_of(backend, saving):
        found = slots_of(backend, model)
        check_storable(found)
        slots = {slot.names[0]: slot for slot in merged(found, backend)}
    ties = {name: slot.names[1:] for name, slot in slots.items() if slot.names[1:]}
    metadata = {
        "unidev.format": str(FORMAT),
        "unidev.version": __version__,
        "unidev.framework": backend.name,
        "unidev.ties": json.dumps(ties),
    }
    entries = [slot.entry for slot in slots.values()]
    size = bytes_text(sum(map(nbytes, entries)))

    def values(entry: Entry) -> Array:
        slot = slots[entry.name]
        return call(
            backend, values_of, slot, backend,
            doing=saving,
            operation="save_parameters",
            transfers=lambda: of_tensor(
                "save_parameters", slot.stored.tensor, backend.cpu, backend
            ),
        )  # fmt: skip

    with (
        progress(f"saving {size} to {path}"),
        replacing(path) as file,
    ):
        write_checkpoint(file, entries, values, metadata)


def _load(model: Any, path: str, backend: Backend, target: Any) -> None:
    from unidev.models.checkpoints.matching import fitted, slots_of
    from unidev.models.checkpoints.reading import opened_checkpoint
    from unidev.support.progress import progress

    with (
        opened_checkpoint(path) as file,
        progress(f"loading {bytes_text(file.nbytes)} from {path}"),
    ):
        file.check()
        with errors_of(backend, _loading(model)):
            slots = slots_of(backend, model)
        entries = fitted(slots, file, backend, model)
        if target is not None:
            place_on(target, model, None, backend, "load_parameters")
            slots = slots_of(backend, model)  # NumPy's are other arrays now
        _write(slots, entries, file, backend, model)


def _write(
    slots: Sequence[Slot],
    entries: Sequence[Entry],
    file: CheckpointFile,
    backend: Backend,
    model: Any,
) -> None:
    import numpy as np

    from unidev.models.checkpoints.format import nbytes
    from unidev.models.checkpoints.matching import check_written, model_layout

    doing = _loading(model)
    buffer = np.empty(max(map(nbytes, entries), default=0), np.uint8)
    before: list[tuple[Any, Array]] = []
    try:
        for slot, entry in zip(slots, entries, strict=True):
            x = slot.stored.tensor
            before.append((x, np.array(_read(x, backend, doing))))
            values = model_layout(slot, file.read(entry, buffer))
            _write_one(x, values, backend, doing)
        check_written(slots, entries, file, backend, model)
    except BaseException:
        _put_back(before, backend)
        raise


def _read(x: Any, backend: Backend, doing: str) -> Array:
    return call(
        backend, backend.models.read, x,
        doing=doing,
        operation="load_parameters",
        transfers=lambda: of_tensor("load_parameters", x, backend.cpu, backend),
    )  # fmt: skip


def _write_one(x: Any, values: Array, backend: Backend, doing: str) -> None:
    call(
        backend, backend.models.write, x, values,
        doing=doing,
        operation="load_parameters",
        transfers=lambda: into_tensor("load_parameters", x, backend),
    )  # fmt: skip


def _put_back(before: list[tuple[Any, Array]], backend: Backend) -> None:
    try:
        while before:  # the last one first, as some may share memory
            x, values = before[-1]
            _write_one(x, values, backend, "putting back the values that it had")
            before.pop()
    except KeyboardInterrupt:  # one has brought us here; another is no reason to stop half way
        _put_back(before, backend)


def _loading(model: Any) -> str:
    return f"loading a {kind_of(model)}; it has the values that it had"
