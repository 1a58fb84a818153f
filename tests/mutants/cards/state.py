"""What a thread finds changed afterwards: the current device and stream, contexts."""

from __future__ import annotations

from typing import Any

from mutants.cards.hardware import cards_mutant, put_cards_into
from mutants.mutant import around, replace


def _change_the_current_device(backend: Any) -> None:
    """Let copies make their target the current device, and leave it so."""
    cards = put_cards_into(backend)

    @around(backend)
    def copy_to(copy: Any, self: Any, x: Any, device: Any, non_blocking: bool) -> Any:
        if device.kind == "gpu":
            cards.current.index = device.index
        return copy(self, x, device, non_blocking)


@cards_mutant("current.device_and_stream_stay")
def copies_change_the_current_device(backend):
    """``cudaSetDevice`` without a guard: a later ``device="cuda"`` means another GPU."""
    _change_the_current_device(backend)


@cards_mutant("placing.current_device_stays", profile="train")
def placing_changes_the_current_device(backend):
    """A model that goes to a GPU takes the thread with it: ``torch.cuda.set_device`` in scripts."""
    _change_the_current_device(backend)


@cards_mutant("reducing.current_device_stays", profile="multi")
def reducing_changes_the_current_device(backend):
    """A loop over devices that ends with the last one current: NCCL's examples."""
    _change_the_current_device(backend)


@cards_mutant("current.device_and_stream_stay")
def waiting_goes_back_to_the_usual_stream(backend):
    """``synchronize`` makes the default stream current, and leaves it so."""
    cards = put_cards_into(backend)

    @around(backend)
    def synchronize(wait, self, device):
        wait(self, device)
        cards.current.streams = {}


@cards_mutant("contexts.looking_makes_none")
def counting_makes_a_context(backend):
    """To count devices is to initialise the first: ``paddle.device.cuda.get_device_properties``."""
    cards = put_cards_into(backend)

    @replace(backend)
    def device_count(self, kind):
        cards.all[0].touch()
        return 1 if kind == "cpu" else len(cards.all)


@cards_mutant("contexts.looking_makes_none")
def waiting_makes_contexts_everywhere(backend):
    """``torch.accelerator.synchronize(device)``: hundreds of megabytes on each card."""
    cards = put_cards_into(backend)

    @around(backend)
    def synchronize(wait, self, device):
        card = cards.of(device)
        if card is not None:
            card.touch()
        wait(self, device)


@cards_mutant("contexts.fork_after_looking")
def looking_spoils_a_fork(backend):
    """``cudaGetDeviceCount`` counts the devices: a process forked later cannot use CUDA."""
    import os

    from mutants.cards.hardware import Card

    put_cards_into(backend)
    count, touch_first = backend.device_count, Card.touch
    asked: list[int] = []

    @replace(backend)
    def device_count(self, kind):
        if kind == "gpu":
            asked.append(os.getpid())
        return count(self, kind)

    @replace(Card)
    def touch(self):
        if asked and asked[0] != os.getpid():
            raise RuntimeError("CUDA error 3: initialization error")
        touch_first(self)


@cards_mutant("cards.contexts_of_work", profile="hardware")
def copies_pass_by_the_first_card(backend):
    """A copy to any card makes a context on ``gpu:0``, too: a pinned buffer made there."""
    cards = put_cards_into(backend)

    @around(backend)
    def copy_to(copy, self, x, device, non_blocking):
        if device.kind == "gpu":
            cards.all[0].touch()
        return copy(self, x, device, non_blocking)
