"""Checkpoints: ``save_parameters`` and ``load_parameters``."""

from __future__ import annotations

from unidev.backends.boundary import call, errors_of, verb
from unidev.backends.transfers import from_host, into_tensor, of_tensor
from unidev.models.placing import backend_of_model, place_on
from unidev.models.trees import is_tree, rebuilt
from unidev.system.arguments import checked_path
from unidev.system.wording import bytes_text, kind_of
from unidev.tensors.devices import resolve_device
from unidev.tensors.handles import model_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from typing import Any

    import numpy as np

    from unidev.contract.backend import Backend
    from unidev.device import Device
    from unidev.models.checkpoints.format import Entry
    from unidev.models.checkpoints.matching import Slot
    from unidev.models.checkpoints.shards import Checkpoint
    from unidev.tensors.devices import DeviceLike

    Array = np.ndarray[Any, Any]


def save_parameters(model: Any, /, path: str | os.PathLike[str]) -> None:
    """Write the parameters of ``model``, and the buffers saved with it, to a safetensors file.

    The write is atomic: after an error, Ctrl-C or a crash, ``path`` holds either the old file or
    the complete new one. Blocks until the data is on the disk. Tied weights are stored once; a view
    is stored without the rest of its storage. At most one tensor at a time is copied to the host.

    Args:
        model: as for ``place``. It may be on any device; the device is not stored.
        path: the file to write. An existing file is replaced and keeps its permissions; a symbolic
            link is followed.

    Raises:
        NotAModelError: ``model`` is not a model.
        UnsupportedOperation: the parameters do not exist yet; the message says how to create them.
        UnsupportedDtypeError: the file cannot store a dtype. Nothing is written.
        OSError: the file cannot be written, as with ``open(path, "wb")``. The old one is unchanged.

    Format: docs/checkpoints.md. Any safetensors reader can read the file.

    >>> import os, tempfile, unidev
    >>> model = {"weight": unidev.ones((3, 2)), "bias": unidev.zeros(3)}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     unidev.save_parameters(model, os.path.join(folder, "model.safetensors"))
    ...     os.listdir(folder)
    ['model.safetensors']
    """
    model = model_of(model)
    backend = backend_of_model(model, takes_trees=True)
    verb("save_parameters", _save, model, checked_path(path), backend)


def load_parameters(
    model: Any, /, path: str | os.PathLike[str], *, device: DeviceLike | None = None
) -> Any:
    """Load a checkpoint's values into ``model``, in place, or into a new one if it is a tree.

    Which models are trees, ``place`` says: a new one with the values is returned, on the device of
    the old one's tensors, which is not changed. Assigning the result works with every framework.

    Parameter objects keep their identity and their memory, so existing optimizers still train them.
    The model may be on any device, and the file may come from any device and framework: only the
    names, shapes and dtypes must match, with no name missing or left over. Names match too if only
    a wrapper makes them differ (``module.`` and ``_orig_mod.`` on PyTorch). Tied parameters stay
    tied. Everything, including the file's content, is checked before the model is changed. If
    writing then fails or is interrupted, the old values are restored; until then the host holds a
    copy of them. The file is read one tensor at a time.

    Args:
        model: as for ``place``.
        path: a file written by ``save_parameters``, or any other safetensors file that matches; or
            the index of several, ``model.safetensors.index.json``, as Hugging Face writes it.
        device: where to ``place`` the model, once the file is known to match; None: leave it where
            it is.

    Returns:
        ``model``, or a new tree.

    Raises:
        NotAModelError: ``model`` is not a model.
        CheckpointError: the file is damaged or does not match; ``problems`` lists every mismatch.
        UnsupportedOperation: the parameters do not exist yet; the message says how to create them.
        DeviceError: ``device`` is invalid or not available.
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
    file = checked_path(path)
    found = model_of(model)
    backend = backend_of_model(found, takes_trees=True)
    if device is not None:
        backend_of_model(model, takes_trees=True)  # a handle's model is where its replicas are
    target = None if device is None else resolve_device(device, backend)
    loaded = verb("load_parameters", _load, found, file, backend, target)
    return model if loaded is found else loaded


def _save(model: Any, path: str, backend: Backend) -> None:
    import json

    from unidev.models.checkpoints.format import FORMAT, nbytes
    from unidev.models.checkpoints.matching import check_storable, merged, slots_of, values_of
    from unidev.models.checkpoints.writing import write_checkpoint
    from unidev.system.atomic_file import replacing
    from unidev.system.progress import progress
    from unidev.system.version import __version__

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

    with progress(f"saving {size} to {path}"), replacing(path) as file:
        write_checkpoint(file, entries, values, metadata)


def _load(model: Any, path: str, backend: Backend, target: Device | None) -> Any:
    from unidev.models.checkpoints.matching import fitted, slots_of
    from unidev.models.checkpoints.shards import opened
    from unidev.system.progress import progress

    with opened(path) as file, progress(f"loading {bytes_text(file.nbytes)} from {path}"):
        file.check()
        with errors_of(backend, _loading(model)):
            slots = slots_of(backend, model)
        entries = fitted(slots, file, backend, model)
        if is_tree(model, backend):
            old = [slot.stored.tensor for slot in slots]
            return rebuilt(model, old, _made(slots, entries, file, backend, target))
        if target is not None:
            place_on(target, model, None, backend, "load_parameters")
            slots = slots_of(backend, model)  # NumPy's arrays have been replaced
        _write(slots, entries, file, backend, model)
        return model


def _made(
    slots: Sequence[Slot],
    entries: Sequence[Entry],
    file: Checkpoint,
    backend: Backend,
    target: Device | None,
) -> list[Any]:
    """New tensors of the file's values, each on ``target`` or where the slot's own is."""
    import numpy as np

    from unidev.models.checkpoints.format import nbytes
    from unidev.models.checkpoints.matching import bfloat16_of_bits, model_layout

    buffer = np.empty(max(map(nbytes, entries), default=0), np.uint8)
    made = []
    for slot, entry in zip(slots, entries, strict=True):
        x = slot.stored.tensor
        values = model_layout(slot, file.read(entry, buffer))
        if entry.dtype == "bfloat16":
            values = bfloat16_of_bits(values, x.dtype, backend)
        made.append(_one_made(values, x.dtype, target or backend.device_of(x), backend))
    return made


def _one_made(values: Array, dtype: Any, device: Device, backend: Backend) -> Any:
    return call(
        backend, backend.from_numpy, values, dtype, device,
        doing="loading a tree; the old one is unchanged",
        operation="load_parameters",
        transfers=lambda: from_host("load_parameters", values.shape, dtype, device, backend),
    )  # fmt: skip


def _write(
    slots: Sequence[Slot], entries: Sequence[Entry], file: Checkpoint, backend: Backend, model: Any
) -> None:
    import numpy as np

    from unidev.models.checkpoints.format import nbytes
    from unidev.models.checkpoints.matching import check_written, model_layout
    from unidev.system.interrupts import held_interrupts

    doing = _loading(model)
    buffer = np.empty(max(map(nbytes, entries), default=0), np.uint8)
    before: list[tuple[Any, Array]] = []
    with held_interrupts() as interrupts:
        try:
            for slot, entry in zip(slots, entries, strict=True):
                x = slot.stored.tensor
                before.append((x, np.array(_read(x, backend, doing))))
                values = model_layout(slot, file.read(entry, buffer))
                _write_one(x, values, backend, doing)
                interrupts.check()
            check_written(slots, entries, file, backend, model)
            interrupts.check()
        except BaseException:
            for x, values in reversed(before):  # since some may share memory
                _write_one(x, values, backend, "restoring the old values")
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


def _loading(model: Any) -> str:
    return f"loading a {kind_of(model)}; its values are unchanged"
