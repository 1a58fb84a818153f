"""Checkpoints: ``save_parameters``, ``load_parameters``, and an optimizer's state."""

from __future__ import annotations

from functools import partial

from unidev.backends.boundary import call, errors_of, verb
from unidev.backends.loading import load_backend
from unidev.backends.transfers import from_host, into_tensor, of_tensor
from unidev.errors import UnidevError
from unidev.models.placing import backend_of_model, place_on
from unidev.models.trees import is_tree, rebuilt, with_numbers
from unidev.system.arguments import checked_path
from unidev.system.wording import bytes_text, kind_of
from unidev.tensors.devices import default_device, resolve_device
from unidev.tensors.kinds import model_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence
    from typing import Any

    import numpy as np

    from unidev.contract.backend import Backend
    from unidev.device import Device
    from unidev.models.checkpoints.format import Entry
    from unidev.models.checkpoints.matching import Slot
    from unidev.models.checkpoints.reading import Checkpoint
    from unidev.tensors.devices import DeviceLike

    Array = np.ndarray[Any, Any]


def save_parameters(model: Any, /, path: str | os.PathLike[str]) -> None:
    """Write the parameters of ``model``, and the buffers saved with it, to a safetensors file.

    The write is atomic: after an error, Ctrl-C or a crash, ``path`` holds either the old file or
    the complete new one. Blocks until the data is on the disk. Tied weights are stored once; a view
    is stored without the rest of its storage. At most one tensor at a time is copied to the host.

    Args:
        model: as for ``place``. It may be on any device; the device is not stored.
        path: the file; an existing one is replaced and keeps its permissions, a link is followed.

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

    Parameter objects keep their identity and their memory, so existing optimizers still train them;
    tied parameters stay tied. Only names, shapes and dtypes must match, with no name missing or
    left over, whatever devices and frameworks the two are of. Everything, including the file's
    content, is checked before the model is changed. If writing then fails or is interrupted, the
    old values are restored; until then the host holds a copy of them.

    Args:
        model: as for ``place``.
        path: a file written by ``save_parameters``, or any other safetensors file that matches; or
            the index of several, ``model.safetensors.index.json``, as Hugging Face writes it.
        device: where to ``place`` the model, once the file is known to match; None: where it is.

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


def load_tensors(
    path: str | os.PathLike[str], /, device: DeviceLike | None = None
) -> dict[str, Any]:
    """Read a checkpoint without a model: its tensors by name, in new memory on ``device``.

    A tied tensor is one object. Numbers that the model had beside its tensors are among them.

    Args:
        path: as for ``load_parameters``: any safetensors file, or the index of several.
        device: where to put the tensors, of the framework that they are to be of; by default the
            innermost ``with device:``, else ``cpu:0`` of the selected backend.

    Raises:
        CheckpointError: the file is damaged.
        UnsupportedDtypeError: the framework does not have a dtype; names each such tensor.
        DeviceError: ``device`` is invalid or not available.
        OSError: the file cannot be read.

    >>> import os, tempfile, unidev
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = os.path.join(folder, "model.safetensors")
    ...     unidev.save_parameters({"weight": unidev.ones((3, 2)), "steps": 7}, file)
    ...     found = unidev.load_tensors(file, "cpu")
    >>> found["weight"].shape, found["steps"]
    ((3, 2), 7)
    """
    file = checked_path(path)
    target = default_device(device)
    return verb("load_tensors", _tensors, file, target, load_backend(target.backend))


def _save(model: Any, path: str, backend: Backend) -> None:
    from unidev.models.checkpoints.format import encoded, metadata, nbytes, write_checkpoint
    from unidev.models.checkpoints.matching import (
        check_storable,
        merged,
        numbers_of,
        slots_of,
        values_of,
    )
    from unidev.system.atomic_file import replacing
    from unidev.system.progress import progress

    saving = f"saving a {kind_of(model)}"
    with errors_of(backend, saving):
        found = slots_of(backend, model)
        check_storable(found)
        slots = {slot.names[0]: slot for slot in merged(found, backend)}
        numbers = {name: encoded(x) for name, x in numbers_of(backend, model).items()}
    ties = {name: slot.names[1:] for name, slot in slots.items() if slot.names[1:]}
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
        write_checkpoint(file, entries, values, metadata(backend.name, ties, numbers))


def _load(model: Any, path: str, backend: Backend, target: Device | None) -> Any:
    from unidev.models.checkpoints.matching import fitted, slots_of
    from unidev.models.checkpoints.reading import opened
    from unidev.system.progress import progress

    with opened(path) as file, progress(f"loading {bytes_text(file.nbytes)} from {path}"):
        file.check()
        with errors_of(backend, _loading(model)):
            slots = slots_of(backend, model, takes_empty=True)
        entries, numbers = fitted(slots, file, backend, model)
        if is_tree(model, backend):
            old = [slot.stored.tensor for slot in slots]
            wanted = [
                (entry, x.dtype, target or backend.device_of(x))
                for entry, x in zip(entries, old, strict=True)
            ]
            new = rebuilt(model, old, _made(wanted, file, backend))
            return with_numbers(new, numbers) if numbers else new
        allocated = backend.models.allocated(model, target or backend.cpu)
        with errors_of(backend, _loading(model)), allocated:
            if target is not None:
                place_on(target, model, None, backend, "load_parameters")
                slots = slots_of(backend, model)  # NumPy's arrays have been replaced
            return _write([*zip(slots, entries, strict=True)], numbers, file, backend, model)


def _tensors(path: str, target: Device, backend: Backend) -> dict[str, Any]:
    from unidev.models.checkpoints.format import CODES
    from unidev.models.checkpoints.matching import check_dtypes
    from unidev.models.checkpoints.reading import opened
    from unidev.system.progress import progress

    with opened(path) as file, progress(f"loading {bytes_text(file.nbytes)} from {path}"):
        file.check()
        entries = file.entries
        known = [name for name in CODES if name in backend.dtypes]
        check_dtypes(entries.values(), known, f"the {backend.name} backend does not have")
        wanted = [(entry, backend.dtypes[entry.dtype], target) for entry in entries.values()]
        found = dict(zip(entries, _made(wanted, file, backend, "load_tensors"), strict=True))
        found |= {name: found[first] for name, first in file.ties.items()}
        return found | (file.numbers or {})


def _made(
    wanted: Sequence[tuple[Entry, Any, Device]],
    file: Checkpoint,
    backend: Backend,
    operation: str = "load_parameters",
) -> list[Any]:
    """New tensors of the file's values, each of its dtype and on its device."""
    import numpy as np

    from unidev.models.checkpoints.format import nbytes
    from unidev.models.checkpoints.matching import bfloat16_of_bits

    buffer = np.empty(max((nbytes(entry) for entry, *_ in wanted), default=0), np.uint8)
    made = []
    for entry, dtype, device in wanted:
        values = file.read(entry, buffer)
        made_of = backend.from_numpy
        if entry.dtype == "bfloat16":
            made_of = partial(bfloat16_of_bits, backend=backend)
        made.append(call(
            backend, made_of, values, dtype, device,
            doing="making a tensor of a checkpoint; nothing was changed",
            operation=operation,
            transfers=partial(from_host, operation, values.shape, dtype, device, backend),
        ))  # fmt: skip
    return made


def _write(
    pairs: Sequence[tuple[Slot, Entry]],
    numbers: Mapping[str, Any],
    file: Checkpoint,
    backend: Backend,
    model: Any,
) -> Any:
    import numpy as np

    from unidev.models.checkpoints.format import nbytes
    from unidev.models.checkpoints.matching import check_written, model_layout
    from unidev.system.interrupts import held_interrupts

    doing = _loading(model)
    buffer = np.empty(max((nbytes(entry) for _, entry in pairs), default=0), np.uint8)
    before: list[tuple[Any, Array]] = []
    with held_interrupts() as interrupts:
        try:
            for slot, entry in pairs:
                x = slot.stored.tensor
                before.append((x, np.array(_read(x, backend, doing))))
                values = model_layout(slot, file.read(entry, buffer))
                _write_one(x, values, backend, doing)
                interrupts.check()
            check_written(pairs, file, backend, model)
            interrupts.check()
            with errors_of(backend, doing):
                return backend.models.with_numbers(model, numbers) if numbers else model
        except BaseException as error:
            failed = _restored(before, backend, doing)
            if failed:
                raise failed[0] from error
            raise


def _restored(before: list[tuple[Any, Array]], backend: Backend, doing: str) -> list[UnidevError]:
    """Write all old values back; why one cannot be, unless it was never replaced."""
    failed = []
    for x, values in reversed(before):  # since some may share memory
        try:
            _write_one(x, values, backend, "restoring the old values")
        except UnidevError as error:  # noqa: PERF203
            if _read(x, backend, doing).tobytes() != values.tobytes():
                failed.append(error)
    return failed


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


def save_optimizer(optimizer: Any, path: str, backend: Backend) -> None:
    """Write what the optimizer needs to go on, completely or not at all.

    Raises:
        UnsupportedOperation: its state cannot be read.
        OSError: the file cannot be written.
    """
    import numpy as np

    from unidev.models.checkpoints.format import Entry, metadata, write_checkpoint
    from unidev.system.atomic_file import replacing

    state = call(
        backend, backend.models.optimizer_state, optimizer,
        doing=f"reading the state of a {kind_of(optimizer)}",
    )  # fmt: skip
    arrays = {name: np.asarray(values, order="C") for name, values in state.items()}
    entries = [Entry(name, str(x.dtype.name), x.shape) for name, x in arrays.items()]
    with replacing(path) as file:
        write_checkpoint(
            file, entries, lambda entry: arrays[entry.name], metadata(backend.name, {}, {})
        )


def load_optimizer(model: Any, optimizer: Any, path: str, backend: Backend) -> None:
    """Give the optimizer of ``model`` the state in a file that ``save_optimizer`` has written.

    Raises:
        CheckpointError: the file is damaged, or that of another optimizer, which is unchanged.
        UnsupportedOperation: its state cannot be written.
    """
    import numpy as np

    from unidev.models.checkpoints.format import nbytes
    from unidev.models.checkpoints.reading import opened_checkpoint

    with opened_checkpoint(path) as file:
        file.check()
        state = {
            name: file.read(entry, np.empty(nbytes(entry), np.uint8))
            for name, entry in file.entries.items()
        }
    with errors_of(backend, f"loading a {kind_of(optimizer)}"):
        backend.models.load_optimizer_state(model, optimizer, state)
