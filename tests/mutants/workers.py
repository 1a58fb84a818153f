"""Exchanges between processes, and who failed first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mutants.mutant import TORCH, in_place_of, replace, replace_value
from mutants.parallel import multi_mutant

if TYPE_CHECKING:
    from pathlib import Path

    from unidev.contract import Event


def _in_haste() -> None:
    """Workers wait for a third of the time; these mutants fail by waiting."""
    from unidev.conformance.checks.multi import test_workers

    replace_value(test_workers, "_LATE_S", test_workers._LATE_S / 3)


@multi_mutant("workers.bits")
def sums_in_order_of_arrival(backend: Any) -> None:
    """Each worker begins with what it has itself: parameter servers add what comes first."""
    from unidev.distributed.exchange.host_engine import _UFUNCS, HostEngine

    @replace(HostEngine)
    def all_reduce(self: Any, flat: Any, op: str) -> Any:
        everybody = [self._read(x) for x in self.all_gather(flat)]
        total = everybody.pop(self._rank)
        for other in everybody:
            _UFUNCS[op](total, other, out=total)
        return self._made(total, flat)


@multi_mutant("workers.values")
def only_worker_0_gets_the_result(backend: Any) -> None:
    """A ``reduce`` in place of an ``all_reduce``."""
    from unidev.distributed.exchange.host_engine import HostEngine

    sound = HostEngine.all_reduce

    @replace(HostEngine)
    def all_reduce(self: Any, flat: Any, op: str) -> Any:
        own = self.backend.copy_to(flat, self.backend.device_of(flat), False)
        result = sound(self, flat, op)
        return own if self._rank else result


@multi_mutant("workers.weights")
def weights_of_workers_are_forgotten(backend: Any) -> None:
    """A mean over workers, whatever rows each has: DistributedDataParallel's own."""
    from unidev.distributed.exchange.group import Group

    sound = Group._weights

    @replace(Group)
    def _weights(self: Any, op: str, weights: Any) -> Any:
        return sound(self, op, None)


@multi_mutant("workers.moved")
def all_broadcast_from_worker_0(backend: Any) -> None:
    """The argument ``root`` is not passed on."""
    from unidev.distributed.exchange.host_engine import HostEngine

    sound = HostEngine.broadcast

    @replace(HostEngine)
    def broadcast(self: Any, flat: Any, root: int) -> Any:
        return sound(self, flat, 0)


@multi_mutant("workers.in_place")
def results_are_not_written_back(backend: Any) -> None:
    """The results are in a buffer that is thrown away."""
    from unidev.distributed.exchange import transport

    @in_place_of(transport.write_back)
    def write_back(tree: Any, values: Any) -> None:
        return None


@multi_mutant("workers.differences")
def structures_are_not_compared(backend: Any) -> None:
    """Every engine's own way: sizes that differ hang, crash, or are added as they come."""
    _in_haste()
    from unidev.distributed.messages import comparing

    @in_place_of(comparing.difference)
    def difference(given: Any) -> None:
        return None


@multi_mutant("workers.differences")
def listed_weights_are_not_compared(backend: Any) -> None:
    """Each worker takes its own out of the list that it has, and divides by the sum of that."""
    from unidev.distributed.exchange import agreeing

    @in_place_of(agreeing.with_weights)
    def with_weights(code: int, weights: Any) -> int:
        return code


@multi_mutant("workers.differences")
def known_structures_are_not_compared(backend: Any) -> None:
    """Two trees that all have exchanged, in another order: equal bytes, which are just added."""
    from unidev.distributed.exchange.agreeing import Agreement

    sound, seen = Agreement._compared, set[int]()

    @replace(Agreement)
    def _compared(self: Any, proposal: Any, *, at_once: bool) -> Any:
        if proposal.code in seen:
            return []
        found = sound(self, proposal, at_once=at_once)
        seen.add(proposal.code)
        return found


@multi_mutant("workers.differences")
def a_mean_is_a_sum_to_the_others(backend: Any) -> None:
    """What is compared is what the engine is asked for: a sum, whatever each does with it."""
    from unidev.distributed.exchange import agreeing

    sound = agreeing.code_of

    @in_place_of(agreeing.code_of)
    def code_of(call: str, lines: Any) -> int:
        return sound(call.replace("mean", "sum"), lines)


@multi_mutant("workers.killed", "workers.raising")
def the_survivor_is_blamed(backend: Any) -> None:
    """The error is that of a worker that waited for the one that failed."""
    from unidev.distributed.running.supervisor import Supervisor

    sound = Supervisor._fail

    @replace(Supervisor)
    def _fail(self: Any, failure: Any) -> None:
        sound(self, failure._replace(rank=(failure.rank + 1) % len(self._progress)))


@multi_mutant("workers.raising")
def the_workers_traceback_is_lost(backend: Any) -> None:
    """All that is left of an error is that there was one: a process pool's ``exit code 1``."""
    from unidev.distributed.running import failures

    @in_place_of(failures.raised)
    def raised(rank: int, described: Any) -> Any:
        return failures.ended(rank, 1, "", is_inside=False)


@multi_mutant("workers.early")
def a_return_is_no_failure(backend: Any) -> None:
    """Whoever has returned is done, and the others are what does not get on."""
    _in_haste()
    from unidev.distributed.running.supervisor import Supervisor

    sound = Supervisor._take

    @replace(Supervisor)
    def _take(self: Any, events: list[Event]) -> None:
        sound(self, events)
        for rank in self._results:
            self._progress[rank] = self._progress[rank]._replace(entered=1 << 40)


@multi_mutant("workers.stopped")
def a_stopped_worker_is_only_late(backend: Any) -> None:
    """Nothing says why it did not come."""
    _in_haste()
    from unidev.worker_host.host import WorkerHost

    replace_value(WorkerHost, "hindrance", lambda self, rank: None)


@multi_mutant("workers.stopped")
def a_stopped_worker_is_left(backend: Any) -> None:
    """Workers are asked to end by SIGTERM, which a stopped one does not get: multiprocessing's."""
    _in_haste()
    from unidev.worker_host import host

    @replace(host)
    def end_group(process: Any) -> None:
        process.terminate()

    @replace(host)
    def end_marked(mark: str) -> None: ...


@multi_mutant("workers.shards", "workers.evaluation")
def every_worker_reads_all_rows(backend: Any) -> None:
    """A loader without a sampler for workers: each reads the whole, and an epoch as many times."""
    from unidev.data.sharding import Shard

    sound = Shard.__init__

    @replace(Shard)
    def __init__(self: Any, rows: Any, sharding: Any, rank: int, size: int) -> None:
        sound(self, rows, sharding, 0, 1)


@multi_mutant("workers.shards")
def shards_are_shuffled_once(backend: Any) -> None:
    """A sampler whose epoch is not set: DistributedSampler without ``set_epoch``."""
    from unidev.data.sharding import Shard

    sound = Shard._order

    @replace(Shard)
    def _order(self: Any, epoch: int) -> Any:
        return sound(self, 0)


@multi_mutant("workers.shards")
def a_repeated_row_counts_twice(backend: Any) -> None:
    """One row for each worker that would have none: DistributedSampler's padding."""
    from unidev.data.sharding import Shard

    sound = Shard._own

    @replace(Shard)
    def _own(self: Any, order: Any) -> Any:
        found, left = sound(self, order), self._sharding.rows % self._sharding.batch_size
        if self._sharding.last == "pad" and left < self._size:
            row = order[-left:].tolist()[self._rank % left]
            found[-1] = [row], int(self._rank >= left)
        return found


@multi_mutant("workers.evaluation")
def padded_rows_are_counted(backend: Any) -> None:
    """Rows that a sampler has repeated count as often as they were read: DistributedSampler's."""
    from unidev.parallel import accuracy

    sound = accuracy.count_right

    @in_place_of(accuracy.count_right)
    def count_right(model: Any, batches: Any, padding: Any = ()) -> tuple[int, int]:
        return sound(model, batches)


@multi_mutant("workers.evaluation")
def padded_rows_are_gathered(backend: Any) -> None:
    """The argument ``padded`` is not passed on."""
    from unidev.distributed.exchange import gathering

    sound = gathering.gathered_rows

    @in_place_of(gathering.gathered_rows)
    def gathered_rows(tree: Any, padded: Any, gather: Any) -> Any:
        return sound(tree, 0, gather)


@multi_mutant("workers.refused_shards")
def arguments_of_shards_are_not_compared(backend: Any) -> None:
    """Workers with different seeds read some rows twice and some never."""
    from unidev.distributed.exchange.exchanging import Exchange

    @replace(Exchange)
    def agree(self: Any, operation: str, call: str) -> None:
        return None


@multi_mutant("workers.checkpoints")
def checkpoints_are_written_where_they_are_read(backend: Any) -> None:
    """A worker that is killed leaves half of a file: ``torch.save`` to the final name."""
    from unidev.distributed.exchange import checkpoints

    @in_place_of(checkpoints.write)
    def write(folder: Path, step: int, model: Any, *others: Any) -> None:
        target = folder / f"step-{step}"
        target.mkdir(exist_ok=True)
        checkpoints.save_parameters(model, target / "model.safetensors")


@multi_mutant("workers.data_parallel", plugin=TORCH)
def workers_count_the_same_whatever_their_rows(backend: Any) -> None:
    """DistributedDataParallel's mean over workers, with batches that differ in size."""
    from unidev.distributed.exchange.data_parallel import DataParallel

    sound = DataParallel._reduced_over_workers

    @replace(DataParallel)
    def _reduced_over_workers(self: Any, names: Any, tensors: Any, rows: int | None) -> Any:
        return sound(self, names, tensors, None if rows is None else 1)


@multi_mutant("workers.accumulation", plugin=TORCH)
def accumulated_steps_count_the_same_whatever_their_rows(backend: Any) -> None:
    """The mean of the steps' means: a loss divided by the number of steps."""
    from unidev.parallel.accumulating import Accumulated

    sound = Accumulated.add

    @replace(Accumulated)
    def add(self: Any, found: Any, rows: int) -> None:
        sound(self, found, 1)


@multi_mutant("workers.accumulation", plugin=TORCH)
def accumulated_steps_are_forgotten(backend: Any) -> None:
    """The exchange has the last step's gradients alone: ``no_sync`` without ``x.grad``."""
    from unidev.distributed.exchange.data_parallel import DataParallel

    sound = DataParallel.value_and_grad

    @replace(DataParallel)
    def value_and_grad(self: Any, *arguments: Any) -> Any:
        if not self._accumulates:
            self._held = None
        return sound(self, *arguments)


@multi_mutant("workers.synchronized_norms", plugin=TORCH)
def only_the_first_norm_is_synchronized(backend: Any) -> None:
    """The others normalise this worker's rows by themselves, on each worker alike."""
    from unidev.contract import Moments
    from unidev.distributed.exchange.moments import BatchMoments

    sound = BatchMoments.__call__

    @replace(BatchMoments)
    def __call__(self: Any, mean: Any, deviations: Any, count: int) -> Any:
        if not self._layers:
            return sound(self, mean, deviations, count)
        total = mean.new_full((1,), count)

        def gradients(by_mean: Any, by_variance: Any) -> Any:
            return by_mean, by_variance / count

        return Moments(mean.clone(), deviations / count, total, gradients)


@multi_mutant("workers.synchronized_norms", plugin=TORCH)
def a_norm_has_the_gradient_of_its_own_rows(backend: Any) -> None:
    """Forward is right; backward knows nothing of the other workers' losses."""
    from unidev.distributed.exchange.moments import BatchMoments

    @replace(BatchMoments)
    def _summed(self: Any, number: int, own: Any) -> Any:
        return own


@multi_mutant("workers.synchronized_norms", plugin=TORCH)
def gradients_of_norms_count_the_same_whatever_the_rows(backend: Any) -> None:
    """Each worker's loss counts as one: right only if all have as many rows."""
    from unidev.distributed.exchange.moments import BatchMoments

    sound = BatchMoments.__init__

    @replace(BatchMoments)
    def __init__(self: Any, exchange: Any, backend: Any, rows: Any) -> None:
        sound(self, exchange, backend, None)


@multi_mutant("workers.own_gpus")
def sees_the_gpus_of_others(backend: Any) -> None:
    """A driver that is initialised before the worker's variables are set: it sees all GPUs."""
    sound = backend.__init__

    @replace(backend)
    def __init__(self: Any, spec: Any, simulated_count: int) -> None:
        sound(self, spec, 3)
