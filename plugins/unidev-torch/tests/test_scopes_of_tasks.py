from __future__ import annotations

import torch
from turns import in_turns

import unidev
from unidev_torch import scopes


def default() -> tuple[str, str]:
    made = str(torch.zeros(1).device)
    assert str(torch.get_default_device()) == made
    return made, str(unidev.device_of(unidev.zeros(1)))


def inside(device):
    def steps():
        yield default()
        with device:
            yield default()
            with torch.device("meta"):  # torch's own pops whatever is innermost: no turn in it
                made = str(torch.zeros(1).device)
            yield made, ""
            with unidev.cpu():
                yield default()
            yield default()
        yield default()

    return steps


def test_torchs_default_is_that_of_the_task() -> None:
    gpus = unidev.try_all_gpus()[:2]
    cpu = ("cpu", "cpu:0")
    seen = in_turns(*map(inside, gpus), lambda: (default() for _ in range(6)))
    for gpu, steps in zip(gpus, seen, strict=False):
        own = (str(gpu.native), str(gpu))
        assert steps == [cpu, own, ("meta", ""), cpu, own, cpu]
    assert seen[2] == [cpu] * 6
    assert scopes.call_modes() == []


def test_a_scope_outside_of_tasks_reaches_them_and_ends_after_them() -> None:
    gpu = unidev.gpu(1)
    with gpu:
        ((outer, inner, _, _, _, last),) = in_turns(inside(unidev.gpu(0)))
    assert (outer, last) == ((str(gpu.native), "gpu:1"),) * 2
    assert inner == (str(unidev.gpu(0).native), "gpu:0")
    assert scopes.call_modes() == []


def test_a_compiled_function_runs_inside_a_tasks_block() -> None:
    @torch.compile(backend="eager")
    def made(x):
        return x + torch.ones(2, device="cpu")

    def steps():
        with unidev.cpu():
            yield made(torch.zeros(2)).tolist()

    assert in_turns(steps) == [[[1.0, 1.0]]]
