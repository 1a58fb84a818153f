"""The stand-in itself: as late as CUDA allows, no later, and strict where CUDA is."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pynvml
import pytest
from on_stand_in import torch
from runtime import DEVICE_ASSERT, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime import Runtime

UUID_OF_1 = "GPU-000000a1-57a4-d141-c0da-000000000000"
SITE = Path(torch.__file__).parent.parent


def imported_from_the_runtime() -> set[str]:
    """What torch's own libraries look for in ``libcudart``."""
    found: set[str] = set()
    for library in (SITE / "torch" / "lib").glob("*.so"):
        command = ["nm", "--dynamic", "--undefined-only", str(library)]
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        names = {line.split()[-1].partition("@")[0] for line in lines.splitlines()}
        found |= {name for name in names if name.startswith(("cuda", "__cuda"))}
    return found


def test_no_call_of_torch_reaches_the_real_runtime():
    library = os.environ["LD_PRELOAD"].partition(":")[0]
    command = ["nm", "--dynamic", "--defined-only", library]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    ours = {line.split()[-1] for line in lines.splitlines()}
    wanted = imported_from_the_runtime()
    assert len(wanted) > 60
    assert wanted - ours == set()


def test_what_a_copy_costs_is_counted(cuda: Runtime):
    x = torch.arange(8.0)
    with cuda.counting() as cost:
        y = x.to("cuda")
    assert (cost["host to device"], cost["host to device bytes"]) == (1, 32)
    assert cost["contexts"] == 1
    with cuda.counting() as cost:
        z = y.to("cuda:1")
    assert (cost["between devices"], cost["between devices bytes"]) == (1, 32)
    assert z.tolist() == x.tolist()
    assert cuda.contexts() == [True, True]


def test_a_copy_to_pinned_memory_is_done_when_it_is_waited_for(cuda: Runtime):
    x = torch.arange(4.0).to("cuda")
    y = torch.zeros(4, pin_memory=True)
    y.copy_(x, non_blocking=True)
    assert y.tolist() == [0, 0, 0, 0]
    torch.cuda.current_stream().synchronize()
    assert y.tolist() == [0, 1, 2, 3]


def test_a_copy_from_pinned_memory_reads_it_late(cuda: Runtime):
    x = torch.ones(4).pin_memory()
    y = x.to("cuda", non_blocking=True)
    x.fill_(7)
    assert y.tolist() == [7, 7, 7, 7]


def test_a_copy_from_ordinary_memory_has_read_it(cuda: Runtime):
    x = torch.ones(4)
    y = x.to("cuda", non_blocking=True)
    x.fill_(7)
    assert y.tolist() == [1, 1, 1, 1]


def test_a_stream_that_waits_for_an_event_sees_what_came_before(cuda: Runtime):
    x, zeros = torch.arange(4.0).to("cuda"), torch.zeros(4).to("cuda")
    side = torch.cuda.Stream()
    x.copy_(zeros)
    recorded = torch.cuda.current_stream().record_event()
    assert not recorded.query()
    with torch.cuda.stream(side):
        early = x.clone()
        side.wait_event(recorded)
        late = x.clone()
        side.synchronize()
    assert recorded.query()
    assert (early.tolist(), late.tolist()) == ([0, 1, 2, 3], [0, 0, 0, 0])


def test_a_program_that_spins_until_an_event_is_done_comes_to_an_end(cuda: Runtime):
    torch.ones(4).to("cuda").zero_()
    event = torch.cuda.current_stream().record_event()
    while not event.query():
        pass


def test_device_memory_cannot_be_read_as_the_hosts(cuda: Runtime):
    x = torch.ones(4).to("cuda")
    child = os.fork()
    if child == 0:
        faulthandler.disable()
        ctypes.string_at(x.data_ptr(), 4)
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGSEGV


def test_the_nth_allocation_or_copy_fails(cuda: Runtime):
    x = torch.ones(4).to("cuda")
    cuda.fail("allocation", times=2)
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(100 << 20, device="cuda")
    cuda.reset()
    cuda.fail("copy", 2, error=UNKNOWN)
    x.cpu()
    with pytest.raises(RuntimeError, match="unknown error"):
        x.cpu()
    assert x.cpu().tolist() == [1, 1, 1, 1]


def test_a_kernel_that_fails_is_reported_by_what_waits_for_it(cuda: Runtime):
    x = torch.ones(4).to("cuda")
    cuda.fail("kernel", error=DEVICE_ASSERT)
    y = x + x
    with pytest.raises(RuntimeError, match="device-side assert"):
        y.cpu()
    with pytest.raises(RuntimeError, match="device-side assert"):
        torch.cuda.synchronize()


def test_a_card_has_the_memory_that_it_has(cuda: Runtime):
    free, total = torch.cuda.mem_get_info(0)
    assert (total, total - free) == (1 << 30, 128 << 20)
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(free + 1, dtype=torch.uint8, device="cuda")
    kept = torch.empty(512 << 20, dtype=torch.uint8, device="cuda")
    assert torch.cuda.mem_get_info(0)[0] == free - kept.nbytes


def test_a_lost_card_fails_and_the_other_works(cuda: Runtime):
    cuda.lose(0)
    with pytest.raises(RuntimeError, match="unknown error"):
        torch.ones(1).to("cuda:0")
    assert torch.ones(1).to("cuda:1").tolist() == [1]


def test_a_fork_after_cuda_was_used_is_spoilt(cuda: Runtime):
    torch.ones(1).to("cuda")
    child = os.fork()
    if child == 0:
        with pytest.raises(RuntimeError, match="initialization error"):
            torch._C._cuda_synchronize()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize(
    ("visible", "cards"),
    [("", []), ("1", [1]), ("1,0", [1, 0]), ("0,7,1", [0]), (UUID_OF_1, [1]), ("0,0", [])],
)
def test_a_process_sees_the_cards_that_it_may(monkeypatch, visible, cards):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert torch.cuda.device_count() == len(cards)  # by NVML
    seen = [torch.cuda.get_device_properties(index).pci_bus_id - 1 for index in range(len(cards))]
    assert seen == cards
    assert torch._C._cuda_getDeviceCount() == len(cards)


def test_the_driver_and_torch_give_a_card_one_uuid():
    pynvml.nvmlInit()
    driver = [pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByIndex(i)) for i in range(2)]
    assert [f"GPU-{torch.cuda.get_device_properties(i).uuid}" for i in range(2)] == driver
    assert driver[1] == UUID_OF_1


def test_a_driver_that_is_too_old_is_refused_as_torch_does(monkeypatch):
    monkeypatch.setenv("STAND_IN_DRIVER_CUDA", "12.4")
    assert torch.cuda.device_count() == 2  # NVML counts cards that this torch cannot use
    with pytest.raises(RuntimeError, match=r"is too old \(found version 12040\)"):
        torch.ones(1).to("cuda")


class Raw:
    """The runtime's own calls, for what torch does not do: streams that are not non-blocking."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL(os.environ["LD_PRELOAD"].partition(":")[0])

    def __getattr__(self, name: str) -> Callable[..., None]:
        def call(*arguments: object) -> None:
            assert getattr(self.library, name)(*arguments) == 0

        return call


def test_the_default_stream_and_blocking_ones_take_turns(cuda: Runtime):
    raw, stream = Raw(), ctypes.c_void_p()
    x, sevens = torch.arange(4.0).to("cuda"), torch.full((4,), 7.0).to("cuda")
    y, early = torch.zeros(4, pin_memory=True), torch.zeros(4, pin_memory=True)
    raw.cudaStreamCreate(ctypes.byref(stream))
    copy = [ctypes.c_void_p(each.data_ptr()) for each in (early, x, y, sevens)]
    nbytes, kind = ctypes.c_size_t(16), 4
    raw.cudaMemcpyAsync(copy[0], copy[1], nbytes, kind, stream)  # before what comes next
    x.copy_(sevens)  # in the default stream, which waits for it
    raw.cudaMemcpyAsync(copy[2], copy[1], nbytes, kind, stream)  # and this waits for that
    assert (early.tolist(), y.tolist()) == ([0] * 4, [0] * 4)
    raw.cudaStreamSynchronize(stream)
    assert (early.tolist(), y.tolist()) == ([0, 1, 2, 3], [7] * 4)
    raw.cudaStreamDestroy(stream)


def test_work_of_the_host_is_called_in_the_order_of_its_stream(cuda: Runtime):
    raw, seen = Raw(), []
    pinned = torch.zeros(2, pin_memory=True)
    pinned.copy_(torch.ones(2).to("cuda"), non_blocking=True)
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: seen.append(pinned.tolist()))
    raw.cudaLaunchHostFunc(None, function, None)
    assert seen == []
    torch.cuda.synchronize()
    assert seen == [[1, 1]]


def test_the_host_waits_when_a_queue_is_full(cuda: Runtime):
    x = torch.ones(2).to("cuda")
    for _ in range(3000):
        x.add_(1)
    assert 1000 <= cuda.queued(0) <= 1024
    cuda.finish()
    assert cuda.queued(0) == 0
