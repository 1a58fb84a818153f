"""The judge itself: it must be able to say no, and must not say yes of nothing."""

from __future__ import annotations

import platform

import numpy as np
import pytest

import unidev
from unidev.contract.backend import Extent
from unidev.errors import UnsupportedOperation
from unidev.system import host_memory
from unidev_conformance.checks.tensor.test_smoke import test_probe_calibrated as calibrated
from unidev_conformance.judging.outcomes import (
    InconclusiveError,
    NotApplicableError,
    NotSupportedError,
)
from unidev_conformance.kit.counting import Counter
from unidev_conformance.kit.inputs.samples import aligned, counting, telling_bits
from unidev_conformance.kit.oracle import Evidence, Oracle, overlapping_bytes
from unidev_conformance.kit.workbench import Workbench


@pytest.fixture
def bench() -> Workbench:
    unidev.set_backend("numpy")
    return Workbench(unidev.active_backend())


@pytest.mark.parametrize(
    ("mine", "other", "shared"),
    [((9, 10), (9, 10), 10), ((9, 10), (18, 10), 1), ((9, 10), (19, 10), 0), ((9, 10), (11, 3), 3)],
)
def test_extents_overlap_by_bytes(mine, other, shared) -> None:
    assert overlapping_bytes([Extent(*mine)], [Extent(*other)]) == shared
    assert overlapping_bytes([Extent(*other)], [Extent(*mine)]) == shared


@pytest.mark.parametrize("extents", [[], [Extent(0, 8)], [Extent(64, 0)], [Extent(64, -1)]])
def test_an_extent_that_says_nothing_is_inconclusive(
    bench: Workbench, monkeypatch, extents
) -> None:
    monkeypatch.setattr(bench.probe, "extents", lambda _x: extents, raising=False)
    x, y = np.zeros(3), np.zeros(3)
    with pytest.raises(InconclusiveError, match="prove nothing"):
        bench.oracle.check_disjoint(x, y, "here")


@pytest.mark.parametrize("wrong", ["write", "gradient"])
def test_calibration_names_the_line_of_a_wrong_method(bench, monkeypatch, wrong: str) -> None:
    monkeypatch.setattr(type(bench.probe), wrong, lambda *_: 0)
    with pytest.raises(
        AssertionError, match=r"by <lambda>, line \d+ of test_conformance_oracle.py"
    ):
        calibrated(bench)


def test_two_slices_of_one_storage_are_not_disjoint(bench: Workbench) -> None:
    x = np.zeros(10)
    with pytest.raises(AssertionError, match="shares 80 bytes"):
        bench.oracle.check_disjoint(x[:2], x[8:], "here")


def test_writing_through_a_view_is_noticed(bench: Workbench) -> None:
    x = np.zeros(4)
    with pytest.raises(AssertionError, match="after writing to the source"):
        bench.oracle.check_writes_apart(x, x.view(), "here")
    bench.oracle.check_writes_apart(np.zeros(4), np.zeros(4), "here")


def test_a_write_that_changes_nothing_is_inconclusive(bench: Workbench, monkeypatch) -> None:
    monkeypatch.setattr(bench.probe, "write", lambda _x, _value: None, raising=False)
    with pytest.raises(InconclusiveError, match="nothing changed"):
        bench.oracle.check_writes_apart(np.zeros(4), np.zeros(4), "here")


def test_a_broadcast_that_stays_one_has_no_room(bench: Workbench) -> None:
    x = np.broadcast_to(np.zeros(4), (3, 4))
    with pytest.raises(AssertionError, match="96 bytes of elements in 32"):
        bench.oracle.check_room(x, x.nbytes, "here")


def test_the_wrong_error_and_none_at_all_are_failures(bench: Workbench) -> None:
    with pytest.raises(AssertionError, match="raises KeyError instead of DeviceError"):
        bench.expect(unidev.DeviceError, {}.__getitem__, "a")
    with pytest.raises(AssertionError, match="raises nothing"):
        bench.expect(unidev.DeviceError, len, "a")
    with pytest.raises(AssertionError, match="raises TypeError"):
        bench.works(len, 3)


def test_one_device_is_not_applicable_where_it_takes_two(bench: Workbench) -> None:
    assert [str(device) for device in bench.devices] == ["cpu:0"]
    with pytest.raises(NotApplicableError, match="2 devices"):
        bench.pairs()


def test_a_c_library_that_cannot_count_says_so(bench: Workbench, monkeypatch) -> None:
    monkeypatch.setattr(host_memory.ctypes, "CDLL", lambda _name: object())
    host_memory._mallinfo2.cache_clear()
    with pytest.raises(UnsupportedOperation, match="no mallinfo2"):
        host_memory.allocated_bytes(bench.cpu)
    with pytest.raises(NotSupportedError, match="no mallinfo2"):
        bench.require("probe.allocated_bytes")
    host_memory._mallinfo2.cache_clear()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc alone has mallinfo2")
def test_the_host_counts_what_is_allocated(bench: Workbench) -> None:
    counter = Counter(bench.probe, Evidence(), bench.cpu)
    assert abs(counter.held_by(lambda: np.ones(4_000_000, "uint8")) - 4_000_000) < 65_536
    assert abs(counter.left_by(lambda: np.ones(4_000_000, "uint8"))) < 65_536


def test_a_count_that_never_moves_is_inconclusive(bench: Workbench, monkeypatch) -> None:
    monkeypatch.setattr(bench.probe, "allocated_bytes", lambda _device: 7, raising=False)
    with pytest.raises(InconclusiveError, match="is unusable"):
        bench.check_leaves_nothing(lambda: None, device=bench.cpu, where="here")


def test_evidence_is_kept_short() -> None:
    evidence = Evidence()
    for number in range(20):
        evidence.add("bytes", "x" * 1_000 + str(number))
    found = evidence.as_dict()
    assert len(found["bytes"]) == 8
    assert found["bytes, first 8 of"] == 20
    assert len(found["bytes"][0]) < 210


@pytest.mark.parametrize("offset", [0, 4])
def test_arrays_are_placed_where_they_are_wanted(offset: int) -> None:
    placed = aligned(counting((3, 4), "float64"), offset)
    assert placed.ctypes.data % 64 == offset
    assert np.array_equal(placed, counting((3, 4), "float64"))


def test_the_bits_tell_a_sloppy_copy() -> None:
    bits = telling_bits("float32")
    assert np.isnan(bits).sum() == 3
    assert np.signbit(bits[3])
    with np.errstate(invalid="ignore"):
        assert (bits + 0).tobytes() != bits.tobytes()
    assert {0, 2**-149}.issubset(np.abs(bits[3:6]).tolist())  # a zero, and the least subnormal
    assert int(float(telling_bits("int64")[-1])) == 2**53 != telling_bits("int64")[-1]


def test_an_oracle_reads_by_the_probe_alone(bench: Workbench, monkeypatch) -> None:
    monkeypatch.setattr(bench.backend, "to_numpy", None)
    Oracle(bench.probe, Evidence()).check_bytes(np.zeros(2), bytes(16), "here")
