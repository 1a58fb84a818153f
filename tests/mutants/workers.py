"""Exchanges between processes, and who failed first."""

from __future__ import annotations

import threading
from functools import partial

import numpy as np

from mutants.mutant import TORCH, around, in_place_of, replace, replace_value
from mutants.parallel import multi_mutant
from unidev.contract import Moments
from unidev.parallel.exchange.agreeing import Agreement
from unidev.parallel.exchange.host_engine import _UFUNCS
from unidev.parallel.running import run
from unidev.parallel.running.supervisor import Supervisor
from unidev.system.host import host
from unidev.system.host.host import WorkerHost
from unidev_conformance.checks.multi import test_workers


def _in_haste() -> None:
    """Workers wait for a third of the time; these mutants fail by waiting."""

    replace_value(test_workers, "_LATE_S", test_workers._LATE_S / 3)


@multi_mutant("workers.bits", around="unidev.parallel.exchange.host_engine:HostEngine.all_reduce")
def sums_in_order_of_arrival(sound, self, flat, op):
    """Each worker begins with what it has itself: parameter servers add what comes first."""
    everybody = [self._read(x) for x in self.all_gather(flat)]
    total = everybody.pop(self._rank)
    for other in everybody:
        _UFUNCS[op](total, other, out=total)
    return self._made(total, flat)


@multi_mutant("workers.values", around="unidev.parallel.exchange.host_engine:HostEngine.all_reduce")
def only_worker_0_gets_the_result(sound, self, flat, op):
    """A ``reduce`` in place of an ``all_reduce``."""
    own = self.backend.copy_to(flat, self.backend.device_of(flat), False)
    result = sound(self, flat, op)
    return own if self._rank else result


@multi_mutant("workers.weights", around="unidev.parallel.exchange.group:Group._weights")
def weights_of_workers_are_forgotten(sound, self, op, weights):
    """A mean over workers, whatever rows each has: DistributedDataParallel's own."""
    return sound(self, op, None)


@multi_mutant("workers.pieces", around="unidev.parallel.exchange.host_engine:HostEngine.broadcast")
def all_broadcast_from_worker_0(sound, self, flat, root):
    """The argument ``root`` is not passed on."""
    return sound(self, flat, 0)


@multi_mutant("workers.in_place", everywhere="unidev.parallel.exchange.transport:write_back")
def results_are_not_written_back(sound, tree, values):
    """The results are in a buffer that is thrown away."""
    return


@multi_mutant("workers.differences", everywhere="unidev.parallel.exchange.agreeing:with_weights")
def listed_weights_are_not_compared(sound, code, weights):
    """Each worker takes its own out of the list that it has, and divides by the sum of that."""
    return code


@multi_mutant("workers.differences")
def known_structures_are_not_compared(backend):
    """Two trees that all have exchanged, in another order: equal bytes, which are just added."""
    _in_haste()
    sound, seen = Agreement._compared, set[int]()

    @replace(Agreement)
    def _compared(self, proposal, *, at_once):
        if proposal.code in seen:
            return []
        found = sound(self, proposal, at_once=at_once)
        seen.add(proposal.code)
        return found


@multi_mutant("workers.leaving", around="unidev.parallel.exchange.agreeing:Participation._give_up")
def the_next_worker_is_said_to_have_left(sound, self, error):
    """All hear that somebody did, and look for the fault where there is none."""
    rank = self._own.rank
    self._own.rank = (rank + 1) % self._own.size
    try:
        return sound(self, error)
    finally:
        self._own.rank = rank


@multi_mutant(
    "workers.killed",
    "workers.raising",
    around="unidev.parallel.running.supervisor:Supervisor._fail",
)
def the_survivor_is_blamed(sound, self, failure):
    """The error is that of a worker that waited for the one that failed."""
    sound(self, failure._replace(rank=(failure.rank + 1) % len(self._progress)))


@multi_mutant("workers.raising", everywhere="unidev.parallel.running.supervisor:raised")
def the_workers_traceback_is_lost(sound, rank, described):
    """All that is left of an error is that there was one: a process pool's ``exit code 1``."""
    from unidev.parallel.running import supervisor

    return supervisor.ended(rank, 1, "", is_inside=False)


@multi_mutant("workers.early")
def a_return_is_no_failure(backend):
    """Whoever has returned is done, and the others are what does not get on."""
    _in_haste()

    @around(Supervisor)
    def _take(sound, self, events):
        sound(self, events)
        for rank in self._results:
            self._progress[rank] = self._progress[rank]._replace(entered=1 << 40, left=1 << 40)


@multi_mutant("workers.stopped")
def a_stopped_worker_is_only_late(backend):
    """Nothing says why it did not come."""
    _in_haste()

    replace_value(WorkerHost, "hindrance", lambda self, rank: None)


@multi_mutant("workers.stopped")
def a_stopped_worker_is_left(backend):
    """Workers are asked to end by SIGTERM, which a stopped one does not get: multiprocessing's."""
    _in_haste()
    # Forked ones end with the process that they were forked from.
    replace_value(run, "_template", lambda *_: "")

    @replace(host)
    def end_group(process):
        process.terminate()

    @replace(host)
    def end_marked(mark): ...


@multi_mutant(
    "workers.calls_elsewhere", around="unidev.parallel.exchange.membership:Membership.check_process"
)
def a_fork_takes_its_workers_place(sound, self):
    """It has the worker's pipes and memory; threads alone are refused: torch.distributed."""


@multi_mutant(
    "workers.steps_elsewhere",
    plugin=TORCH,
    around="unidev.parallel.exchange.data_parallel:DataParallel.value_and_grad",
)
def steps_come_from_any_thread(sound, self, *arguments):
    """An exchange that is planned asks nobody: DistributedDataParallel."""
    own = self._group._own
    of_function, own.thread = own.thread, threading.current_thread()
    try:
        return sound(self, *arguments)
    finally:
        own.thread = of_function


@multi_mutant(
    "workers.shards", "workers.evaluation", around="unidev.parallel.batches.sharding:Shard.__init__"
)
def every_worker_reads_all_rows(sound, self, rows, sharding, rank, size):
    """A loader without a sampler for workers: each reads the whole, and an epoch as many times."""
    sound(self, rows, sharding, 0, 1)


@multi_mutant("workers.shards", around="unidev.parallel.batches.sharding:Shard._order")
def shards_are_shuffled_once(sound, self, epoch):
    """A sampler whose epoch is not set: DistributedSampler without ``set_epoch``."""
    return sound(self, 0)


@multi_mutant("workers.shards", around="unidev.parallel.batches.sharding:Shard._own")
def a_repeated_row_counts_twice(sound, self, order):
    """One row for each worker that would have none: DistributedSampler's padding."""
    found, left = sound(self, order), self._sharding.rows % self._sharding.batch_size
    if self._sharding.last == "pad" and left < self._size:
        row = order[-left:].tolist()[self._rank % left]
        found[-1] = [row], int(self._rank >= left)
    return found


@multi_mutant("workers.evaluation", everywhere="unidev.parallel.exchange.accuracy:count_right")
def padded_rows_are_counted(sound, model, batches, padding=()):
    """Rows that a sampler has repeated count as often as they were read: DistributedSampler's."""
    return sound(model, batches)


@multi_mutant("workers.evaluation", everywhere="unidev.parallel.exchange.trees:gathered_rows")
def padded_rows_are_gathered(sound, tree, padded, gather):
    """The argument ``padded`` is not passed on."""
    return sound(tree, 0, gather)


@multi_mutant("workers.refused_shards", around="unidev.parallel.exchange.exchanging:Exchange.agree")
def arguments_of_shards_are_not_compared(sound, self, operation, call):
    """Workers with different seeds read some rows twice and some never."""
    return


@multi_mutant("workers.checkpoints", everywhere="unidev.parallel.exchange.checkpoints:write")
def checkpoints_are_written_where_they_are_read(sound, folder, step, model, *others):
    """A worker that is killed leaves half of a file: ``torch.save`` to the final name."""
    from unidev.parallel.exchange import checkpoints

    target = folder / f"step-{step}"
    target.mkdir(exist_ok=True)
    checkpoints.save_parameters(model, target / "model.safetensors")


@multi_mutant(
    "workers.data_parallel",
    plugin=TORCH,
    around="unidev.parallel.exchange.data_parallel:DataParallel._reduced_over_workers",
)
def workers_count_the_same_whatever_their_rows(sound, self, names, tensors, rows):
    """DistributedDataParallel's mean over workers, with batches that differ in size."""
    return sound(self, names, tensors, None if rows is None else 1)


@multi_mutant(
    "workers.accumulation",
    plugin=TORCH,
    around="unidev.parallel.exchange.accumulating:Accumulated.add",
)
def accumulated_steps_count_the_same_whatever_their_rows(sound, self, found, rows):
    """The mean of the steps' means: a loss divided by the number of steps."""
    sound(self, found, 1)


@multi_mutant(
    "workers.synchronized_norms",
    plugin=TORCH,
    around="unidev.parallel.exchange.moments:BatchMoments.__call__",
)
def only_the_first_norm_is_synchronized(sound, self, mean, deviations, count):
    """The others normalise this worker's rows by themselves, on each worker alike."""
    if not self._layers:
        return sound(self, mean, deviations, count)
    total = mean.new_full((1,), count)

    def gradients(by_mean, by_variance):
        return by_mean, by_variance / count

    return Moments(mean.clone(), deviations / count, total, gradients)


@multi_mutant(
    "workers.synchronized_norms",
    plugin=TORCH,
    around="unidev.parallel.exchange.moments:BatchMoments._summed",
)
def a_norm_has_the_gradient_of_its_own_rows(sound, self, number, own):
    """Forward is right; backward knows nothing of the other workers' losses."""
    return own


@multi_mutant("workers.own_gpus", around="__init__")
def sees_the_gpus_of_others(sound, self, spec, simulated_count):
    """A driver that is initialised before the worker's variables are set: it sees all GPUs."""
    sound(self, spec, 3)


@multi_mutant(
    "workers.skipped", plugin=TORCH, around="unidev.parallel.exchange.agreeing:Agreement._code"
)
def steps_have_no_numbers(sound, self, proposal):
    """A worker that skips one is a step ahead of the others: DistributedDataParallel's own."""
    self.steps = 0
    return sound(self, proposal)


@multi_mutant("workers.overlap", plugin=TORCH, around="unidev.parallel.exchange.overlap:Step.learn")
def buckets_begin_as_they_come(sound, self, loss):
    """In the order of each worker's own backward: another bucket of the same length is added."""

    class Own:
        def by_the_first(self, operation, call, work):
            return work()

        def __getattr__(self, name):
            return getattr(exchange, name)

    exchange, self._overlap.exchange = self._overlap.exchange, Own()
    if exchange.rank:
        size = len(self._kinds)
        self._order = [*range(size)]
    sound(self, loss)
    self._overlap.exchange = exchange


@multi_mutant("workers.overlap", plugin=TORCH)
def hooks_are_left(backend):
    """Those of every step before see the gradients of the next."""
    import unidev_torch.autograd

    @in_place_of(unidev_torch.autograd._watch)
    def _watch(loss, leaves, made, hooks):
        for position, leaf in enumerate(leaves):
            leaf.register_hook(partial(made, position))


@multi_mutant(
    "workers.pieces", around="unidev.parallel.exchange.host_engine:MemoryCarrier.all_gather"
)
def the_second_piece_is_the_first(sound, self, own):
    """Each is written to the beginning; small tensors are one."""
    found = sound(self, own)
    most = self._memory.slot_bytes // own.itemsize
    for each in found if own.size > most else ():
        each[most:] = np.resize(each[:most], each.size - most)
    return found


@multi_mutant("workers.raising", everywhere="unidev.parallel.worker:is_consequence")
def no_error_follows_from_another(sound, error):
    """The first that ends is named, which had only heard of the other."""
    return False
