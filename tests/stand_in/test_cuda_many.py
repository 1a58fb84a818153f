"""Two GPUs, several threads and streams: what is moved, and that nothing is read too early."""

from __future__ import annotations

import gc
import random
from typing import TYPE_CHECKING, Any

import pytest
from on_stand_in import torch

import unidev
from unidev_torch import accelerator
from unidev_torch.backend import TorchBackend

if TYPE_CHECKING:
    from runtime import Runtime

DEVICES = ("cpu", "gpu:0", "gpu:1")


def both() -> list[unidev.Device]:
    return [unidev.gpu(0), unidev.gpu(1)]


def test_a_batch_is_split_by_one_transfer_for_each_part(cuda: Runtime):
    with cuda.counting() as cost:
        parts = unidev.split_batch((torch.arange(12.0).reshape(4, 3), torch.arange(4)), both())
    assert [part[0].tolist() for part in parts] == [
        [[0, 1, 2], [3, 4, 5]],
        [[6, 7, 8], [9, 10, 11]],
    ]
    assert (cost["host to device"], cost["host to device bytes"]) == (4, 48 + 32)
    assert cost["device to host"] == cost["between devices"] == 0


def test_a_net_is_replicated_by_one_transfer_for_each_tensor_and_gpu(cuda: Runtime):
    net = torch.nn.Linear(3, 4)
    with cuda.counting() as cost:
        copies = unidev.replicate(net, both())
    assert [each.weight.device.index for each in copies] == [0, 1]
    assert all(torch.equal(each.weight.cpu(), net.weight) for each in copies)
    assert (cost["host to device"], cost["host to device bytes"]) == (4, 2 * 16 * 4)


def test_gradients_are_reduced_in_one_pack_each_way(cuda: Runtime):
    gradients = [
        [unidev.copy_to(torch.ones(shape), device) for shape in (5, (7, 3), 2)] for device in both()
    ]
    with cuda.counting() as cost:
        unidev.all_reduce(gradients)
    assert (cost["between devices"], cost["between devices bytes"]) == (2, 2 * 28 * 4)
    assert cost["host to device"] == cost["device to host"] == 0
    assert cost["device synchronisations"] == 0


@pytest.mark.parametrize("device", ["gpu:0", "gpu:1"])
def test_batches_arrive_in_order_and_make_a_context_on_their_gpu_alone(cuda: Runtime, device: str):
    batches = [{"x": torch.full((2, 3), float(i)), "y": torch.tensor([i])} for i in range(8)]
    found = list(unidev.prefetch(batches, device))
    assert [each["y"].tolist() for each in found] == [[i] for i in range(8)]
    assert [each["x"].tolist() for each in found] == [each["x"].tolist() for each in batches]
    assert cuda.contexts() == [device == "gpu:0", device == "gpu:1"]
    assert cuda.counts()["host to device"] == 16


class Play:
    """Copies that a program makes as it likes, each in a stream, and what they should hold."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.held: list[tuple[torch.Tensor, list[float]]] = []

    def begin(self) -> None:
        """A new tensor on some device, from memory that is changed at once."""
        values = [self.random.random() for _ in range(self.random.choice([4, 300]))]
        x = torch.tensor(values, dtype=torch.float64)
        if self.random.random() < 0.5:
            x = unidev.pin(x)
        self.held.append((self.copied(x), values))
        x.fill_(-1)

    def copied(self, x: torch.Tensor) -> torch.Tensor:
        target = self.random.choice(DEVICES)
        return unidev.copy_to(x, target, non_blocking=self.random.random() < 0.7)

    def go_on(self) -> None:
        """Copy one of them in a side stream, ordered as PyTorch asks, and perhaps drop it."""
        place = self.random.randrange(len(self.held))
        x, values = self.held[place]
        index = x.device.index if x.is_cuda else self.random.randrange(2)
        usual, side = torch.cuda.current_stream(index), torch.cuda.Stream(index)
        side.wait_stream(usual)
        with torch.cuda.stream(side):
            y = self.copied(x)
        if y.is_cuda:  # whoever reads the copy waits for it; nothing that needs `x` does
            torch.cuda.current_stream(y.device).wait_stream(side)
            y.record_stream(torch.cuda.current_stream(y.device))
        if self.random.random() < 0.7:
            self.held[place] = (y, values)
        else:
            self.held.append((y, values))
        del x
        gc.collect(0)

    def check(self) -> None:
        for x, values in self.held:
            assert unidev.to_numpy(x).tolist() == values


def played(seed: int) -> None:
    play: Any = Play(seed)
    for _ in range(6):
        play.begin()
    for step in range(150):
        play.go_on()
        if step % 5 == 0:
            play.begin()
        while len(play.held) > 12:
            play.held.pop(play.random.randrange(len(play.held)))
    play.check()


@pytest.mark.parametrize("seed", range(8))
def test_no_copy_reads_too_early_or_memory_that_was_given_to_another(cuda: Runtime, seed: int):
    played(seed)
    assert cuda.counts()["asynchronous copies"] > 50


def as_torch_does(self: Any, x: Any, device: Any, non_blocking: bool) -> Any:
    return x.to(device.native, non_blocking=non_blocking, copy=True)


@pytest.mark.parametrize(
    ("where", "name", "replacement"),
    [(accelerator, "keep_until_read", lambda x: None), (TorchBackend, "copy_to", as_torch_does)],
    ids=["sources are not kept", "non_blocking as torch has it"],
)
def test_a_backend_that_does_so_is_caught(monkeypatch, where, name, replacement):
    monkeypatch.setattr(where, name, replacement)
    with pytest.raises(AssertionError):
        list(map(played, range(8)))
