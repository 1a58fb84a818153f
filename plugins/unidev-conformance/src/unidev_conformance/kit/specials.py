"""The tensors that the probe names besides plain ones: variables, sparse, masked, lazy, unreadable.

Each is copied to its own device and to the next, by each way of asking, and read. The framework
may be unable to hold or to read some elsewhere: then each way of asking is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import unidev
from unidev_conformance.judging.outcomes import NotApplicableError
from unidev_conformance.kit.inputs.samples import is_numpy_dtype
from unidev_conformance.kit.oracle import overlapping_bytes, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from unidev.device import Device
    from unidev_conformance.kit.workbench import Workbench

_REFUSALS = (unidev.UnsupportedOperation, unidev.UnsupportedDtypeError)
_UNREADABLE = (*_REFUSALS, unidev.InvalidDataError)
_NUMBERS = "biufc"
"""The kinds of dtypes for numbers: NumPy's own, and those that others register."""


def check_specials(bench: Workbench, wanted: Callable[[str], bool]) -> None:
    """Each special tensor whose name is ``wanted`` is copied along the ring, and read.

    And from the first device to the last, which is not the current one.

    Raises:
        NotApplicableError: the probe has none.
    """
    seen = 0
    ends = bench.devices[0], bench.devices[-1]
    for source, target in dict.fromkeys([*bench.ring(), ends]):
        for name, x in bench.probe.specials(source).items():
            if wanted(name.lower()):
                seen += 1
                _Special(bench, name, x, source, target).check()
    if not seen:
        raise NotApplicableError("the probe has no such tensors for this framework")


@dataclass(frozen=True)
class _Special:
    """A special tensor, and where it goes."""

    bench: Workbench
    name: str
    x: Any
    source: Device
    target: Device

    @property
    def where(self) -> str:
        """The case, for messages."""
        kind = f"{self.name} ({self.x.dtype} {tuple(self.x.shape)})"
        return f"{kind}, {self.source} to {self.target}"

    def check(self) -> None:
        """Copies are true ones, or refused; reads are exact, or refused; nothing else changes."""
        bench, x = self.bench, self.x
        content, before = bench.probe.read(x), current(bench)
        bench.oracle.check_device(x, self.source, self.where)
        assert unidev.is_tensor(x), f"{self.where}: it is no tensor"
        refused = [way for way in _WAYS if self._is_refused(way, content)]
        assert refused in ([], list(_WAYS)), f"{self.where}: refused by {refused} alone"
        if self.source is self.target:
            assert not refused, f"{self.where}: not copied on its own device"
            self._check_reads(content)
            self._check_extents()
            if "mapped" in self.name:
                self._check_apart(content)
        bench.oracle.check_bytes(x, content, f"{self.where}, the source")
        bench.oracle.check_device(x, self.source, f"{self.where}, the source")
        after = current(bench)
        assert after == before, f"{self.where}: {before} were current, now {after}"

    def _is_refused(self, way: str, content: bytes) -> bool:
        """Whether that way of asking for a copy is refused; if not, the copy is a true one."""
        try:
            y = _WAYS[way](self.x, self.target)
        except _REFUSALS as refusal:
            self.bench.evidence.add("refused", f"{self.where}: {refusal}")
            return True
        unidev.synchronize(self.target)
        if way == "as_in_device" and self.source is self.target:
            assert y is self.x, f"{self.where}, by as_in_device: another object"
        else:
            self._check_copy(y, content, f"{self.where}, by {way}")
        return False

    def _check_copy(self, y: Any, content: bytes, where: str) -> None:
        assert y is not self.x, f"{where}: the copy is the source, the same object"
        self.bench.oracle.check_bytes(y, content, where)
        self.bench.oracle.check_kind(self.x, y, where)
        self.bench.works(unidev.device_of, y)  # which refuses one whose parts are spread
        self.bench.oracle.check_device(y, self.target, where)
        self._check_differentiable(y, where)
        try:
            for each in (self.x, y):
                self.bench.probe.extents(each)
        except unidev.UnsupportedOperation as refusal:
            # The memory of strings cannot always be probed; values and identity remain.
            self.bench.evidence.add("no address", f"{where}: {refusal.reason}")
        else:
            self.bench.oracle.check_disjoint(self.x, y, where)

    def _check_differentiable(self, y: Any, where: str) -> None:
        """A copy is differentiable if its source is, where tensors have a flag for it."""
        autograd = self.bench.probe.autograd
        if not self.bench.has("probe.autograd.is_differentiable"):
            return
        flags = autograd.is_differentiable(self.x), autograd.is_differentiable(y)
        assert flags[0] == flags[1], f"{where}: differentiable, the source and the copy: {flags}"

    def _check_apart(self, content: bytes) -> None:
        """By writing: two maps of a file have one memory at two addresses."""
        copies = [_WAYS[way](self.x, self.target) for way in _WAYS if way != "as_in_device"]
        for number, each in enumerate((self.x, *copies)):
            self.bench.probe.write(each, 7)
            for other in copies[number:]:
                self.bench.oracle.check_bytes(
                    other, content, f"{self.where}, and a map of its file"
                )
        self.bench.probe.write(self.x, 0)

    def _check_reads(self, content: bytes) -> None:
        """``to_numpy`` twice: two arrays of the tensor's values, each with memory of its own."""
        where = f"{self.where}, read by to_numpy"
        try:
            found, again = unidev.to_numpy(self.x), unidev.to_numpy(self.x)
        except _UNREADABLE as refusal:
            self.bench.evidence.add("not read", f"{where}: {refusal}")
            return
        self._check_read(found, content, where)
        assert not np.shares_memory(found, again), f"{where} twice: the same memory"
        if found.dtype.kind in _NUMBERS:
            found[...] = 1 if np.any(found != 1) else 0
            self.bench.oracle.check_bytes(self.x, content, f"{where}, after writing to that array")

    def _check_read(self, found: Any, content: bytes, where: str) -> None:
        shape, dtype = tuple(self.x.shape), self.x.dtype
        assert type(found) is np.ndarray, f"{where}: a {type(found).__name__}"
        assert found.flags.writeable, f"{where}: read-only"
        assert found.shape == shape, f"{where}: shape {found.shape}"
        names = [n for n, each in self.bench.backend.dtypes.items() if each == dtype]
        if names and is_numpy_dtype(names[0]):
            assert found.dtype.name == names[0], f"{where}: dtype {found.dtype}"
        elif isinstance(dtype, np.dtype):
            assert found.dtype == dtype, f"{where}: dtype {found.dtype}"
        else:
            _check_no_numbers(found, f"{where}, {dtype}")
        # Where the probe reads parts, or Python's text, it reads another number of bytes.
        if found.nbytes == len(content) and found.dtype.kind != "O":
            self.bench.oracle.check_content(found.tobytes(), content, where)

    def _check_extents(self) -> None:
        """The backend's extents cover the memory that the probe finds."""
        if not self.bench.has("extents"):
            return
        try:
            mine, reported = self.bench.probe.extents(self.x), self.bench.backend.extents(self.x)
        except unidev.UnsupportedOperation:
            return  # noted above
        for each in mine:
            covered = overlapping_bytes([each], reported)
            assert covered == each.nbytes, (
                f"{self.where}: the extents {shown(reported)} cover {covered} bytes of "
                f"{shown([each])}, which belongs to it"
            )


def check_unreadable(bench: Workbench, x: Any, where: str) -> None:
    """``to_numpy`` of a dtype that NumPy lacks is refused, or gives no other dtype's numbers."""
    try:
        found = unidev.to_numpy(x)
    except _UNREADABLE as refusal:
        bench.evidence.add("not read", f"{where}: {refusal}")
    else:
        _check_no_numbers(found, where)


def _check_no_numbers(found: Any, where: str) -> None:
    is_number = found.dtype.kind in _NUMBERS and found.dtype.isbuiltin == 1
    assert not is_number, f"{where}: it was read as numbers of {found.dtype}"


_WAYS: Mapping[str, Callable[[Any, Device], Any]] = {
    "copy_to": unidev.copy_to,
    "copy_to, non_blocking": lambda x, target: unidev.copy_to(x, target, non_blocking=True),
    "copy_to of a list": lambda x, target: unidev.copy_to([x], target)[0],
    "as_in_device": unidev.as_in_device,
}


def check_references(bench: Workbench) -> None:
    """Tensors that refer to memory outside of them are neither copied nor read."""
    for source, target in bench.ring():
        before = current(bench)
        for name, x in bench.probe.references(source).items():
            for way in ("copy_to", "copy_to, non_blocking", "copy_to of a list"):
                _check_refused(
                    bench, f"{name}, {source} to {target}, by {way}", _WAYS[way], x, target
                )
            _check_refused(bench, f"{name} on {source}, by to_numpy", unidev.to_numpy, x)
        assert current(bench) == before, f"{source} to {target}: {before} were current"


def _check_refused(bench: Workbench, where: str, call: Callable[..., object], *given: Any) -> None:
    try:
        call(*given)
    except _REFUSALS as refusal:
        bench.evidence.add("refused", f"{where}: {refusal}")
    else:
        raise AssertionError(f"{where}: nothing is refused, and what it refers to would be shared")


def current(bench: Workbench) -> Mapping[str, object]:
    """The current state of this thread, by ``probe.current``; empty if the framework has none."""
    return {} if not bench.has("probe.current") else dict(bench.probe.current())
