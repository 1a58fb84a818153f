"""``unidev.run``: exchanges between processes, and who failed first. PYTEST_DONT_REWRITE."""

from __future__ import annotations

import functools
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import unidev
from unidev_conformance.kit.processes import in_workers, loops
from unidev_conformance.kit.processes.in_workers import BY_MEMORY, OPERATIONS, PRIMES, SHAPES
from unidev_conformance.kit.processes.leftovers import nothing_left
from unidev_conformance.running.catalog import check

if TYPE_CHECKING:
    from unidev_conformance.kit.workbench import Workbench

_NEEDS = ("collectives",)
_TRAINS = (*_NEEDS, "models", "layers", "autograd")
_INFERS = (*_NEEDS, "models", "layers")
_EXCHANGES = (
    "reductions", "extremes", "sums_by_bits", "weighted", "pieces", "in_place",
    "structures_that_differ", "calls_elsewhere", "shards", "refused_shards", "own_gpus",
)  # fmt: skip
_STEPS = (
    "gradients", "accumulation", "overlapped", "skipped", "steps_elsewhere", "synchronized_norms",
)  # fmt: skip
_BY_MEMORY = ("reductions", "extremes", "sums_by_bits", "pieces")
"""The questions that are asked again of what travels without the framework's engine."""
_SIZE = 3
_LATE_S = 60
_NUMPY: dict[str, Any] = dict(zip(OPERATIONS, (np.sum, np.min, np.max, np.mean), strict=True))


@functools.cache
def _run(backend: str, names: tuple[str, ...]) -> list[dict[str, tuple[bool, Any]]]:
    return unidev.run(in_workers.several, *names, workers=_SIZE, backend=backend, timeout=_LATE_S)


def _found(bench: Workbench, name: str) -> list[Any]:
    """The results of ``in_workers.NAME`` on all workers, by rank."""
    names: tuple[str, ...] = _EXCHANGES
    for needs, more in ((_INFERS, ("evaluation",)), (_TRAINS, _STEPS)):
        if all(map(bench.has, needs)):
            names = (*names, *more)
    names = (*names, *[f"{each}{BY_MEMORY}" for each in _BY_MEMORY], "leaving")
    found = [own[name] for own in bench.works(_run, bench.backend.name, names)]
    for rank, (has_failed, said) in enumerate(found):
        assert not has_failed, f"worker {rank}: {said}"
    bench.evidence.touch(*bench.devices)
    return [own for _, own in found]


@check(required=True, needs=_NEEDS)
def test_values(bench: Workbench) -> None:
    """Every operation gives the right numbers on each worker, of the dtype, on its own device."""
    for way in ("", BY_MEMORY):
        _check_reductions(_found(bench, f"reductions{way}"))
        _check_extremes(_found(bench, f"extremes{way}"))


def _check_reductions(found: list[Any]) -> None:
    primes = np.array(PRIMES[:_SIZE], "float64")
    for own in found:
        calls = own.keys() - {"device"}
        assert any(call.startswith("mean") for call in calls), f"only {sorted(calls)} were tried"
        for call in calls:
            values, _, devices = own[call]
            assert devices == {own["device"]}, f"{call} is on {devices}, not on {own['device']}"
            for at, value in enumerate(values):
                expected = np.full(SHAPES[at], _NUMPY[call.partition(" ")[0]](primes + at))
                assert value.shape == expected.shape, f"{call}: shape {value.shape}"
                rtol = 1e-2 if "16" in call else 1e-6
                assert np.allclose(value, expected, rtol=rtol), f"{call}, shape {SHAPES[at]}"


def _check_extremes(found: list[Any]) -> None:
    for call in found[0]:
        expected = _NUMPY[call.partition(" ")[0]](np.stack([own[call][0] for own in found]), 0)
        for rank, own in enumerate(found):
            said = f"{call} on worker {rank}: {own[call][1].tolist()}, not {expected.tolist()}"
            assert np.array_equal(own[call][1], expected, equal_nan=True), said


@check(required=True, needs=_NEEDS)
def test_bits(bench: Workbench) -> None:
    """All workers get the same bits, whatever the order in which they come."""
    for way in ("", BY_MEMORY):
        for own in zip(*_found(bench, f"sums_by_bits{way}"), strict=True):
            assert len(set(own)) == 1, "two workers got different bits of one mean"
        reduced = _found(bench, f"reductions{way}")
        for call in reduced[0].keys() - {"device"}:
            is_same = all(own[call][1] == reduced[0][call][1] for own in reduced)
            assert is_same, f"{call}{way}: other bits"


@check(required=True, needs=_NEEDS)
def test_weights(bench: Workbench) -> None:
    """A mean is weighted, by each worker's own number or by a list of all."""
    weights = [4.0] * (_SIZE - 1) + [1.0]
    expected = np.average(PRIMES[:_SIZE], weights=weights)
    for own in _found(bench, "weighted"):
        assert np.allclose(own, expected, rtol=1e-6), f"weights {weights}: {own}, not {expected}"


@check(required=True, needs=_NEEDS)
def test_pieces(bench: Workbench) -> None:
    """Tensors of any dtype and size arrive in order, also in pieces, from whichever worker."""
    for way in ("", BY_MEMORY):
        for rank, wrong in enumerate(_found(bench, f"pieces{way}")):
            assert not wrong, f"worker {rank}{way}: {len(wrong)} are wrong, first {wrong[0]}"


@check(required=True, needs=_NEEDS)
def test_in_place(bench: Workbench) -> None:
    """``in_place`` writes to the tensors themselves, or says that they are immutable."""
    for own in _found(bench, "in_place"):
        assert own == (True, float(sum(PRIMES[:_SIZE]))), f"the same object, its value: {own}"


@check(required=True, needs=_NEEDS)
def test_differences(bench: Workbench) -> None:
    """A tree or a call that differs on one worker is an error on each, and no worker waits."""
    first, *others = _found(bench, "structures_that_differ")
    for heard in first:
        assert "worker 0" in heard, f"a difference was not noticed: {first}"
    for other in others:
        assert other == first, f"workers heard different things: {other} and {first}"


@check(required=True, needs=_NEEDS)
def test_calls_elsewhere(bench: Workbench) -> None:
    """In another thread, and in a fork of a worker, nothing is exchanged."""
    _check_refused(_found(bench, "calls_elsewhere"))


@check(required=True, needs=_TRAINS)
def test_steps_elsewhere(bench: Workbench) -> None:
    """Nor does a step of ``DataParallel`` there, planned or not, enter the workers' training."""
    _check_refused(_found(bench, "steps_elsewhere"))


def _check_refused(found: list[dict[str, str]]) -> None:
    for rank, own in enumerate(found):
        for call, said in own.items():
            assert said == "UnsupportedOperation", f"worker {rank}, {call}: {said}"


@check(required=True, needs=_NEEDS)
def test_leaving(bench: Workbench) -> None:
    """A worker that leaves a collective early is named on all, and exchanges nothing any more."""
    *others, (first, then) = _found(bench, "leaving")
    assert first == "ArithmeticError: it took too long", f"it was not interrupted: {first}"
    said = "CollectiveError: worker 2 cannot exchange any more: it left all_reduce number "
    assert then.startswith(said), f"it went on, and heard: {then}"
    assert " by ArithmeticError at in_workers.py:" in then, f"its own line is not in: {then}"
    assert others == [[then, then]] * 2, f"it heard: {then}. The others: {others}"


@check(required=True, needs=_NEEDS)
def test_shards(bench: Workbench) -> None:
    """Workers read each row of an epoch once, in batches that do not depend on their number."""
    found = _found(bench, "shards")
    for name in found[0]:
        rows = loops.ROWS
        if "drop" in name:
            rows -= rows % loops.BATCH
        for number in range(2):
            epochs = [own[name][0][number] for own in found]
            assert len({len(epoch) for epoch in epochs}) == 1, f"{name}: numbers of batches differ"
            together: list[list[int]] = []
            for at, shares in enumerate(zip(*epochs, strict=True)):
                padded = [own[name][1][at] for own in found]
                assert all(shares), f"{name}: a worker got no row of batch {at}"
                kept = [
                    row for share, more in zip(shares, padded, strict=True)
                    for row in share[: len(share) - more]
                ]  # fmt: skip
                counts = Counter(row for share in shares for row in share)
                said = f"{name}: batch {at} is {shares}, and what is not repeated {kept}"
                assert counts.keys() == set(kept), said
                assert len(set(counts.values())) == 1, f"{said}: a row counts more than others"
                together.append(kept)
            read = [row for batch in together for row in batch]
            assert len(read) == rows, f"{name}: {len(read)} rows were read, not {rows}: {read}"
            assert len(set(read)) == rows, f"{name}: a row was read twice: {read}"
            sizes = [len(batch) for batch in together[:-1]]
            assert set(sizes) == {loops.BATCH}, f"{name}: batches of {sizes}"
        first, second = found[0][name][0]
        assert (first != second) == ("shuffle=True" in name), f"{name}: {first}, then {second}"


@check(required=True, needs=_NEEDS)
def test_own_gpus(bench: Workbench) -> None:
    """Each worker sees its own GPUs only, from gpu:0 on, or the CPU; an error names the worker."""
    for rank, own in enumerate(_found(bench, "own_gpus")):
        said = f"worker {rank} has {own['own']}, and sees {own['seen']}"
        assert own["seen"] == own["own"], said
        assert own["first"] == own["own"][0] in ("cpu:0", "gpu:0"), f"{said}, first {own['first']}"
        assert f"worker {rank} of {_SIZE}" in own["beyond"], f"{said}: {own['beyond']}"


@check(required=True, needs=_NEEDS)
def test_refused_shards(bench: Workbench) -> None:
    """Data that cannot be shared out, and workers that differ, are errors before the first step."""
    first, *others = _found(bench, "refused_shards")
    for number, heard in enumerate(first):
        assert heard != "no error", f"call {number} was accepted, after: {first[:number]}"
    for other in others:
        assert other == first, f"workers heard different things: {other} and {first}"


@check(required=True, needs=_INFERS)
def test_evaluation(bench: Workbench) -> None:
    """Over shards, accuracy and outputs are those of all rows, none of them counted twice."""
    for own in _found(bench, "evaluation"):
        for name, (found, whole) in own.items():
            said = f"{name}: {found} over shards, {whole} of the whole"
            assert np.shape(found) == np.shape(whole), said
            assert np.allclose(found, whole, rtol=1e-5, atol=1e-6), said


def _check_blame(bench: Workbench, how: str, rank: int, words: str, *, timeout_s: float) -> None:
    bench.several(2)  # without devices to share out it is the same: once is enough
    with nothing_left():
        error = bench.expect(
            unidev.WorkerFailedError, unidev.run, in_workers.failing, how, rank,
            workers=2, backend=bench.backend.name, timeout=timeout_s,
        )  # fmt: skip
    said = f"worker {rank} {how}, and the error says: {error}"
    assert error.rank == rank, said
    assert words in str(error), said
    bench.evidence.touch(*bench.devices)


@check(required=True, needs=_NEEDS)
def test_killed(bench: Workbench) -> None:
    """A worker that is killed is named, not the one whose collective breaks off."""
    for rank in (1, 0):
        _check_blame(bench, "killed", rank, "SIGKILL", timeout_s=_LATE_S)


@check(required=True, needs=_NEEDS)
def test_raising(bench: Workbench) -> None:
    """A worker that raises is named, with its own traceback, also if another one ends first."""
    words = "this worker is the one that failed"
    _check_blame(bench, "raises", 1, words, timeout_s=_LATE_S)
    _check_blame(bench, "leaves a sum early", 1, "ArithmeticError", timeout_s=_LATE_S)


@check(required=True, needs=_NEEDS)
def test_early(bench: Workbench) -> None:
    """A worker that returns while another waits is named."""
    words = "collectives, while worker 0 waits in all_reduce"
    _check_blame(bench, "returns", 1, words, timeout_s=_LATE_S)


@check(required=True, needs=_NEEDS)
def test_stopped(bench: Workbench) -> None:
    """A worker that is stopped is named after ``timeout`` seconds, and ended."""
    _check_blame(bench, "stopped", 1, "it is stopped", timeout_s=_LATE_S / 6)


@check(required=True, needs=_INFERS)
def test_checkpoints(bench: Workbench) -> None:
    """A checkpoint is there as a whole or not at all, and a run begins again from the last one."""
    with tempfile.TemporaryDirectory() as folder, nothing_left():
        found = bench.works(
            unidev.run, in_workers.checkpoints, folder, workers=2, backend=bench.backend.name,
            timeout=_LATE_S, retries=1, checkpoints=Path(folder) / "points",
        )  # fmt: skip
    assert found == [(2, 4.0)] * 2, f"it began again at, and ended with: {found}"
    bench.evidence.touch(*bench.devices)


@check(required=True, needs=_TRAINS)
def test_data_parallel(bench: Workbench) -> None:
    """The gradients of all workers are those of the whole batch, and their models stay the same."""
    found = _found(bench, "gradients")
    for own in found:
        for name, x in own["found"].items():
            whole = own["whole"][name]
            assert np.allclose(x, whole, rtol=1e-4, atol=1e-6), f"{name}: {x}, not {whole}"
        assert own["after"] == found[0]["after"], "the workers' models have come apart"


@check(required=True, needs=_TRAINS)
def test_accumulation(bench: Workbench) -> None:
    """Steps without exchange and one with it have the gradients of all their rows, once."""
    for own in _found(bench, "accumulation"):
        for when in ("found", "again"):
            for name, x in own[when].items():
                whole = own["whole"][name]
                said = f"{name}, {when}: {x}, not {whole}"
                assert np.allclose(x, whole, rtol=1e-4, atol=1e-6), said


@check(required=True, needs=_TRAINS)
def test_skipped(bench: Workbench) -> None:
    """Whoever goes on after an exception in forward is a step ahead: an error on each, once."""
    workers = _found(bench, "skipped")
    for rank, (heard, after) in enumerate(workers):
        assert "worker 0 is at step" in heard, f"worker {rank} heard: {heard}"
        for name, x in after.items():
            same = x.tobytes() == workers[0][1][name].tobytes()
            assert same, f"{name}: after it, workers have other bits"


@check(required=True, needs=_TRAINS)
def test_overlap(bench: Workbench) -> None:
    """Gradients in several buckets, step by step, are the mean of the workers' own, by rows."""
    workers = _found(bench, "overlapped")
    for number, steps in enumerate(zip(*workers, strict=True)):
        rows = [step["rows"] for step in steps]
        for name, x in steps[0]["found"].items():
            mean = np.average([step["own"][name] for step in steps], 0, rows)
            said = f"step {number}, {name}: {x}, not {mean}"
            assert np.allclose(x, mean, rtol=1e-4, atol=1e-6), said
            bits = {step["found"][name].tobytes() for step in steps}
            assert len(bits) == 1, f"step {number}, {name}: workers have other bits"


@check(required=True, needs=_TRAINS)
def test_synchronized_norms(bench: Workbench) -> None:
    """Batch norms of all workers have the gradients and statistics of the whole batch."""
    found = _found(bench, "synchronized_norms")
    if "reason" in found[0]:
        bench.not_applicable(f"the backend cannot synchronize norms: {found[0]['reason']}")
    for own in found:
        names, expected = own["found"].keys(), own["whole"].keys()
        assert names == expected, f"{sorted(names)}, not {sorted(expected)}"
        for name, x in own["found"].items():
            whole, first = own["whole"][name], found[0]["found"][name]
            assert np.allclose(x, whole, rtol=1e-4, atol=1e-5), f"{name}: {x}, not {whole}"
            assert x.tobytes() == first.tobytes(), f"{name}: workers have other bits"
