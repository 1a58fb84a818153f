"""Checkpoints when the disk, the file or the model is at fault. PYTEST_DONT_REWRITE."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

import unidev
from unidev_conformance.kit.models.sample_models import Sample
from unidev_conformance.kit.models.stored_models import a_path, check_values, entries, values_of
from unidev_conformance.kit.spying import Calls, failing_at
from unidev_conformance.running.catalog import check

if TYPE_CHECKING:
    from pathlib import Path

    from unidev.device import Device
    from unidev_conformance.kit.workbench import Workbench

_BOTH = ("models", "probe.models")


@check(required=True, needs=_BOTH, over="devices")
def test_old_file_stays(bench: Workbench, device: Device) -> None:
    """If saving fails, the old file is intact, and no other file is left beside it."""
    first, second = Sample.trained_on(bench, device), Sample.trained_on(bench, device, steps=2)
    with a_path() as path:
        unidev.save_parameters(first.model, path)
        content = path.read_bytes()
        with Calls(bench.backend.models, "read") as reads:
            unidev.save_parameters(second.model, path)
        assert path.read_bytes() != content, f"on {device}: the new file equals the old one"
        path.write_bytes(content)
        numbers, models = sorted({1, 2, reads.count}), bench.backend.models
        failures: list[tuple[object, str, int, BaseException]] = [
            *((models, "read", n, MemoryError("no memory left (injected)")) for n in numbers),
            *((models, "read", n, KeyboardInterrupt()) for n in numbers),
            (os, "fsync", 1, OSError("no space left on the device (injected)")),
            (os, "replace", 1, OSError("no permission to rename (injected)")),
            (os, "replace", 1, KeyboardInterrupt()),
        ]
        for owner, name, number, error in failures:
            where = f"on {device}, {type(error).__name__} in `{name}`, call {number}"
            with Calls(owner, name, failing_at(number, error)) as calls:
                _check_passed_on(second.model, path, error, where)
            assert calls.count >= number, f"{where}: it was not called, so nothing is proved"
            assert path.read_bytes() == content, f"{where}: the old file has changed"
            beside = sorted(each.name for each in path.parent.iterdir())
            assert beside == [path.name], f"{where}: left in the folder: {beside}"
        bench.works(unidev.load_parameters, second.model, path)
        check_values(bench, second.model, values_of(bench, first.model), f"on {device}")
        if os.name == "posix":
            _check_replaced(bench, first.model, path)


def _check_replaced(bench: Workbench, model: Any, path: Path) -> None:
    """A file that is replaced keeps its permissions, and a link to it stays a link."""
    link = path.with_name("link")
    link.symlink_to(path.name)
    path.chmod(0o640)
    bench.works(unidev.save_parameters, model, link)
    found = link.is_symlink(), oct(path.stat().st_mode)[-3:]
    assert found == (True, "640"), f"whether a link is one still, and its file's mode: {found}"


def _check_passed_on(model: Any, path: Path, error: BaseException, where: str) -> None:
    try:
        unidev.save_parameters(model, path)
    except BaseException as found:  # an interrupt is not an Exception
        if not isinstance(found, type(error)):
            raise AssertionError(f"{where}: it raises {type(found).__name__}: {found}") from found
    else:
        raise AssertionError(f"{where}: save_parameters raises nothing")


@check(required=True, needs=_BOTH, over="devices")
def test_all_problems_in_one_error(bench: Workbench, device: Device) -> None:
    """Missing or unknown names, wrong shapes and dtypes: one error lists all, nothing is loaded."""
    from safetensors.numpy import save_file

    saved, other = Sample.trained_on(bench, device, steps=2), Sample.trained_on(bench, device)
    before = values_of(bench, other.model)
    with a_path() as path:
        unidev.save_parameters(saved.model, path)
        wrong = entries(path)
        names = sorted(n for n, x in wrong.items() if x.dtype == np.float32)
        gone, wider, reshaped = names[:3]
        del wrong[gone]
        wrong[wider] = wrong[wider].astype("float64")
        wrong[reshaped] = np.zeros((*wrong[reshaped].shape, 2), "float32")
        wrong["nobody.knows.this"] = np.zeros(3, "float32")
        save_file(wrong, path)
        error = bench.expect(unidev.CheckpointError, unidev.load_parameters, other.model, path)
    for name in (gone, wider, reshaped, "nobody.knows.this"):
        said = [problem for problem in error.problems if name in problem]
        assert said, f"on {device}: no problem names {name}: {error.problems}"
        assert name in str(error), f"on {device}: the message lacks {name}: {error}"
    assert len(error.problems) == 4, f"on {device}: expected 4 problems, not {error.problems}"
    check_values(bench, other.model, before, f"on {device}, after the error")


@check(required=True, needs=_BOTH, over="devices")
def test_damaged_file_is_refused(bench: Workbench, device: Device) -> None:
    """A file that is truncated, altered, or of another kind is an error, and nothing is loaded."""
    saved, other = Sample.trained_on(bench, device, steps=2), Sample.trained_on(bench, device)
    before = values_of(bench, other.model)
    with a_path() as path:
        unidev.save_parameters(saved.model, path)
        for name, content in _damaged(path.read_bytes()).items():
            path.write_bytes(content)
            error = bench.expect(unidev.CheckpointError, unidev.load_parameters, other.model, path)
            where = f"on {device}, {name}"
            assert error.problems, f"{where}: the error lists no problem: {error}"
            assert path.name in str(error), f"{where}: the message does not name the file: {error}"
            check_values(bench, other.model, before, where)
        path.unlink()
        bench.expect(FileNotFoundError, unidev.load_parameters, other.model, path)
    check_values(bench, other.model, before, f"on {device}, no file at all")


def _damaged(content: bytes) -> dict[str, bytes]:
    header = 8 + int.from_bytes(content[:8], "little")
    found = {
        "empty": b"",
        "text": b"this is not a checkpoint, and never was",
        "longer": content + b"\0",
    }
    for size in (4, header // 2, header, (header + len(content)) // 2, len(content) - 1):
        found[f"cut to {size} of {len(content)} bytes"] = content[:size]
    for at in (header, (header + len(content)) // 2, len(content) - 1):
        changed = bytes([content[at] ^ 1])
        found[f"byte {at} changed"] = content[:at] + changed + content[at + 1 :]
    return found


@check(required=True, needs=_BOTH, over="devices")
def test_failure_while_loading(bench: Workbench, device: Device) -> None:
    """If writing into the model fails half way, it keeps its previous values."""
    saved = Sample.trained_on(bench, device, steps=2)
    with a_path() as path:
        unidev.save_parameters(saved.model, path)
        other = Sample.trained_on(bench, device)
        with Calls(bench.backend.models, "write") as writes:
            unidev.load_parameters(other.model, path)
        for number in sorted({1, 2, writes.count // 2, writes.count}):
            other = Sample.trained_on(bench, device)
            before = values_of(bench, other.model)
            where = f"on {device}, no memory in `write`, call {number} of {writes.count}"
            error = MemoryError("no memory left (injected)")
            with Calls(bench.backend.models, "write", failing_at(number, error)):
                bench.expect(MemoryError, unidev.load_parameters, other.model, path)
            check_values(bench, other.model, before, where)
