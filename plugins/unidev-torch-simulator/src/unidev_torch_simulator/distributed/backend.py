"""``ProcessGroupNCCL``: NCCL's options and rules; gloo exchanges (``exchanges``)."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import torch
from torch._C import _distributed_c10d

from unidev_torch_simulator.cuda.refused import refusing
from unidev_torch_simulator.distributed import checks, names
from unidev_torch_simulator.distributed.exchanges import Exchanges
from unidev_torch_simulator.distributed.fingerprints import Comparison
from unidev_torch_simulator.distributed.works import Batch

c10d: Any = _distributed_c10d
TIMEOUT = timedelta(minutes=10)
_KEY = "unidev/device/"

open_backends: set[ProcessGroupNCCL] = set()
"""Torch's C++ keeps of a backend the part that is its own; here the rest lives until shutdown."""


class Options:
    """What ``ProcessGroupNCCL.Options`` holds; of it only the timeout has an effect."""

    def __init__(self, is_high_priority_stream: bool = False) -> None:
        self.is_high_priority_stream = is_high_priority_stream
        self.backend = "nccl"
        self._timeout = TIMEOUT
        self.split_from: Any = None
        self.split_color = -1
        self.global_ranks_in_group: list[int] = []
        self.group_name = ""
        self.group_desc = ""
        self.config = SimpleNamespace(
            blocking=1, cga_cluster_size=4, min_ctas=1, max_ctas=32, net_name="", split_share=0,
            traffic_class=0, comm_name="", cta_policy=0, collnet_enable=0, nvls_ctas=0,
        )  # fmt: skip

    def __deepcopy__(self, memo: Any) -> Options:
        made = Options(self.is_high_priority_stream)
        made.__dict__.update(self.__dict__)
        made.global_ranks_in_group = list(self.global_ranks_in_group)
        made.config = SimpleNamespace(**self.config.__dict__)
        return made


class ProcessGroupNCCL(c10d.ProcessGroupGloo):  # type: ignore[misc]
    """The backend of a group of GPUs; its collectives are those of the group (``kernels``).

    Python cannot make a backend of no kind (torch 2.13), and one of gloo's meets the other ranks in
    its constructor, which NCCL's does not: gloo's own part is a group of one, and never used.
    """

    NCCLConfig = SimpleNamespace
    NCCL_CTA_POLICY_DEFAULT, NCCL_CTA_POLICY_EFFICIENCY, NCCL_CTA_POLICY_ZERO = 0, 1, 2

    supports_splitting = True
    supports_coalescing = True
    supports_time_estimate = False
    supports_shrinking = False
    supports_tensor_alloc = False

    def __init__(
        self, store: Any, rank: int, size: int, options: Options | None = None,
        timeout: timedelta | None = None,
    ) -> None:  # fmt: skip
        self._options = options if options is not None else Options()
        if timeout is not None:
            self._options._timeout = timeout
        super().__init__(c10d.HashStore(), 0, 1, timeout=self._options._timeout)
        self._store = store
        self._rank = rank
        self._size = size
        self.exchanges = Exchanges(store, rank, size, self._options._timeout)
        self._used: torch.device | None = None
        self._others: dict[int, str] = {}
        self._splits = 0
        self.calls = 0
        self.is_closed = False
        self.has_failed = False
        self.batch: Batch | None = None
        """The transfers since a batch has begun."""
        self.comparison: Comparison | None = None
        """That of each call with the other ranks', for TORCH_DISTRIBUTED_DEBUG=DETAIL."""
        open_backends.add(self)

    def rank(self) -> int:
        """This process's number in the group."""
        return self._rank

    def size(self) -> int:
        """The number of ranks of the group."""
        return self._size

    @property
    def options(self) -> Options:
        """Those of the constructor, or the default ones."""
        return self._options

    @property
    def uid(self) -> int:
        """A number that no other backend of this process has."""
        return id(self)

    @property
    def store(self) -> Any:
        """The store in which the ranks found each other."""
        return self._store

    def name(self) -> str:
        """NCCL's, or that of the devices named ``sim``."""
        return names.current().backend

    _get_backend_name = name

    def _set_default_timeout(self, timeout: timedelta) -> None:
        self._options._timeout = timeout
        self.exchanges.set_timeout(timeout)

    set_timeout = _set_default_timeout

    def _add_ephemeral_timeout(self, timeout: timedelta) -> None:
        """Does nothing: it would prolong a limit within which host memory is exchanged."""

    def comm_split_count(self) -> int:
        """How many groups were split from this one."""
        return self._splits

    def count_split(self) -> int:
        """Number the next group that is split from this one."""
        self._splits += 1
        return self._splits

    def eager_connect_single_device(self, device: torch.device) -> None:
        """Meet the other ranks now, and compare their devices, not at the first collective."""
        self.meet(torch.device(device), range(self.size()))
        self.exchanges.with_rank(None)
        self.exchanges.is_eager = True

    def compare_calls(self) -> None:
        """Compare each collective with those of the other ranks, from here on."""
        self.comparison = Comparison(self._store, self._rank, self._size)

    def perform_nocolor_split(self, device: torch.device) -> None:
        """Does nothing: groups are connected by their own store."""

    def get_error(self) -> Any:
        """The state of the communicator."""
        return c10d.ErrorType.COMM_ERROR if self.has_failed else c10d.ErrorType.SUCCESS

    def close(self) -> None:
        """Refuse all collectives from here on."""
        self.is_closed = True
        open_backends.discard(self)

    def shutdown(self) -> None:
        """As ``destroy_process_group`` does."""
        self.close()
        self.exchanges.shutdown()

    _shutdown = shutdown

    def abort(self) -> None:
        """End what is under way, with an error."""
        self.close()
        self.exchanges.abort()

    def _group_start(self) -> None: ...

    def _group_end(self) -> None: ...

    def _start_coalescing(self) -> None:
        self.batch = Batch()

    # -- the ranks' devices -----------------------------------------------------------------------

    def own_device(self) -> torch.device:
        """The GPU of a barrier that names none: the one used first, or NCCL's guess by the rank."""
        if self._used is not None:
            return self._used
        ranks = self._options.global_ranks_in_group
        rank = ranks[self._rank] if ranks else self._rank
        kind = names.current().device
        return torch.device(kind, rank % torch.get_device_module(kind).device_count())

    def check_usable(self) -> None:
        """Raise as a communicator that is gone."""
        if self.is_closed or self.has_failed:
            raise checks.aborted(self.rank())

    def meet(self, device: torch.device, ranks: Any) -> None:
        """Learn the GPU of each of ``ranks``, and refuse one that is this rank's, too.

        By its UUID: with ``CUDA_VISIBLE_DEVICES`` each process may see its own GPU as number 0.

        Raises:
            DistBackendError: two ranks use one GPU.
        """
        if len(self._others) == self.size():
            return
        me = self.rank()
        if self._used is None:
            self._used = torch.device(device.type, names.index_of(device))
            self._others[me] = names.identity_of(device)
            self._store.set(f"{_KEY}{me}", self._others[me])
        missing = [rank for rank in ranks if rank not in self._others]
        if not missing:
            return
        self._store.wait([f"{_KEY}{rank}" for rank in missing], self._options._timeout)
        for rank in missing:
            self._others[rank] = self._store.get(f"{_KEY}{rank}").decode()
        by_device: dict[str, int] = {}
        for rank in sorted(self._others):
            first = by_device.setdefault(self._others[rank], rank)
            if first != rank:
                self.has_failed = True
                raise checks.duplicate_gpu(rank, first, self._others[rank].split()[-1])


def made_for(given: Any, options: Any) -> ProcessGroupNCCL:
    """Make the backend for ``init_process_group``, which gives its own options."""
    chosen = options if isinstance(options, Options) else Options()
    chosen._timeout = given.timeout
    chosen.global_ranks_in_group = list(given.global_ranks_in_group)
    chosen.group_name = given.group_id
    return ProcessGroupNCCL(given.store, given.group_rank, given.group_size, chosen)


def _forwarded(name: str) -> Any:
    """A method of a backend, as that of a group: gloo's own would read the GPU's memory."""

    def method(self: ProcessGroupNCCL, *given: Any, **named: Any) -> Any:
        group = c10d.ProcessGroup(self._store, self.rank(), self.size())
        kind = getattr(c10d.ProcessGroup.BackendType, names.current().kind)
        group._register_backend(torch.device(names.current().device), kind, self)
        group._set_default_backend(kind)
        return getattr(group, name)(*given, **named)

    method.__name__ = name
    return method


FORWARDED = (
    "_allgather_base", "_reduce_scatter_base", "allgather", "allgather_coalesced", "allreduce",
    "allreduce_coalesced", "alltoall", "alltoall_base", "barrier", "broadcast", "gather", "recv",
    "recv_anysource", "reduce", "reduce_scatter", "scatter", "send",
)  # fmt: skip
REFUSED = {
    **dict.fromkeys(
        ("allocate_tensor", "mem_allocator", "register_mem_pool", "deregister_mem_pool"),
        "their memory is the host's, with no pools",
    ),
    **dict.fromkeys(
        ("_comm_ptr", "_start_time_estimate", "_end_time_estimate", "shrink", "suspend", "resume",
         "memory_stats", "monitored_barrier", "_set_enable_nan_check", "_end_coalescing",
         "setUsePgForSymmMemRendezvous"),
        "there is no communicator of NCCL's behind their groups",
    ),
}  # fmt: skip

for _name in FORWARDED:
    setattr(ProcessGroupNCCL, _name, _forwarded(_name))
for _name, _reason in REFUSED.items():
    setattr(ProcessGroupNCCL, _name, refusing(f"ProcessGroupNCCL.{_name}", _reason))
ProcessGroupNCCL.Options = Options
ProcessGroupNCCL.__module__ = "torch._C._distributed_c10d"
