"""Programs that send memory of simulated GPUs to other processes, as CUDA's IPC lets them.

Run as a program it runs each that is named; stdout has a line of JSON for each.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
import warnings
from typing import TYPE_CHECKING, Any

import unidev  # noqa: F401  before torch, which looks for CUDA while it is imported

# isort: split
import pytest
import torch
import torch.multiprocessing as mp
from torch import nn
from torch.multiprocessing.reductions import reduce_tensor

if TYPE_CHECKING:
    from collections.abc import Callable

SPAWN: Any = mp.get_context("spawn")
PROGRAMS: dict[str, Callable[[], None]] = {}


def program(function: Callable[[], None]) -> Callable[[], None]:
    PROGRAMS[function.__name__] = function
    return function


def answered(target: Callable[..., None], *given: Any) -> Any:
    """What ``target`` puts in the queue that it gets first, in a process of its own."""
    queue = SPAWN.SimpleQueue()
    process = SPAWN.Process(target=target, args=(queue, *given))
    process.start()
    answer = queue.get()
    process.join(60)
    assert process.exitcode == 0
    return answer


def _write(queue: Any, x: torch.Tensor, view: torch.Tensor) -> None:
    assert x.device == torch.device("cuda:1")
    assert x.is_shared()
    x[0] = 40
    view += 1
    same = x.untyped_storage().data_ptr() == view.untyped_storage().data_ptr()
    torch.cuda.synchronize()
    queue.put((same, x.tolist(), torch.cuda.memory_allocated(1)))


@program
def both_have_the_same_memory() -> None:
    x = torch.arange(4.0, device="cuda:1")
    view = x[1:3]
    before = torch.cuda.memory_allocated(1)
    same, seen, allocated = answered(_write, x, view)
    assert same
    assert seen == [40.0, 2.0, 3.0, 3.0]
    assert (x.tolist(), view.tolist()) == (seen, [2.0, 3.0])
    assert allocated == 0  # CUDA's allocator counts its own
    assert torch.cuda.memory_allocated(1) == before
    del x, view
    assert torch.cuda.memory_allocated(1) == before - 512


def _train(queue: Any, net: nn.Module, rank: int) -> None:
    x = torch.full((2, 3), float(rank + 1), device="cuda")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    net(x).sum().backward()
    optimizer.step()
    queue.put(isinstance(net.weight, nn.Parameter) and net.weight.grad is not None)


@program
def hogwild() -> None:
    net = nn.Linear(3, 2).cuda()
    assert net.share_memory() is net
    nn.init.ones_(net.weight)
    for rank in range(2):  # one after the other: racing updates have no one right value
        assert answered(_train, net, rank)
    assert net.weight.grad is None
    assert net.weight.tolist() == [[1 - 0.5 * 2 * (1 + 2)] * 3] * 2


def _load(queue: Any, handles: dict[str, Any]) -> None:
    found = {}
    for name, (build, arguments) in handles.items():
        here = list(arguments)
        here[6] = 0  # the device, as programs replace it that see another number of it
        found[name] = build(*here).sum().item()
    queue.put(found)


@program
def weights_by_handles() -> None:
    net = nn.Linear(3, 2).cuda()
    state = net.state_dict()
    found = answered(_load, {name: reduce_tensor(x.detach()) for name, x in state.items()})
    assert found == {name: x.sum().item() for name, x in state.items()}


def _send(queue: Any, done: Any) -> None:
    x = torch.ones(3, device="cuda", dtype=torch.bfloat16)
    queue.put((x, torch.empty(0, device="cuda"), x.t()))
    del x
    done.wait(60)


@program
def what_is_sent_outlives_the_name() -> None:
    queue, done = SPAWN.SimpleQueue(), SPAWN.Event()
    process = SPAWN.Process(target=_send, args=(queue, done))
    process.start()
    x, nothing, again = queue.get()
    assert x.tolist() == [1.0, 1.0, 1.0]
    assert (nothing.shape, nothing.device.type) == ((0,), "cuda")
    x += 1
    assert again.tolist() == [2.0, 2.0, 2.0]
    with pytest.raises(RuntimeError, match="received from another process"):
        queue.put(x)
    queue.put(x.clone())
    done.set()
    process.join(60)
    assert process.exitcode == 0
    assert x.tolist() == [2.0, 2.0, 2.0]


@program
def its_own_process_cannot_open_it() -> None:
    build, arguments = reduce_tensor(torch.ones(3, device="cuda"))
    with pytest.raises(torch.AcceleratorError, match="invalid device context"):
        build(*arguments)
    with pytest.raises(torch.AcceleratorError, match="invalid argument"):
        torch.UntypedStorage._new_shared_cuda(0, b"junk", 8, 0, b"", 0, None, False)
    gone = reduce_tensor(torch.ones(3, device="cuda"))[1][7].replace(b"%d" % os.getpid(), b"1", 1)
    with pytest.raises(torch.AcceleratorError, match="invalid resource handle"):
        torch.UntypedStorage._new_shared_cuda(0, gone + b"x", 12, 0, b"", 0, None, False)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for name in sys.argv[1:]:
        try:
            PROGRAMS[name]()
            said = ""
        except Exception:  # noqa: BLE001  the answer of a program that broke
            said = traceback.format_exc()
        sys.stdout.write(json.dumps([name, said]) + "\n")
        sys.stdout.flush()
