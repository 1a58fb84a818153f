"""Estimates of memory that are wrong, or that change what they estimate."""

from __future__ import annotations

from typing import Any

from mutants.mutant import replace, torch_mutant


@torch_mutant("estimating.as_it_is_counted")
def what_is_saved_for_backward_is_forgotten(_: Any) -> None:
    """The activations are left out."""
    from unidev_torch.memory.blocks import ACTIVATIONS, Blocks

    sound = Blocks.at_peak

    @replace(Blocks)
    def at_peak(self: Any) -> Any:
        return {**sound(self), ACTIVATIONS: 0}


@torch_mutant("estimating.nothing_is_changed")
def the_step_is_tried_on_the_model_itself(_: Any) -> None:
    """A trial step, to see whether it runs."""
    from unidev_torch.memory.estimating import TorchEstimator

    sound = TorchEstimator.run

    @replace(TorchEstimator)
    def run(self: Any, step: Any, arguments: Any, leaves: Any, shapes: Any) -> Any:
        step(*arguments)
        return sound(self, step, arguments, leaves, shapes)


@torch_mutant("estimating.largest_batch")
def half_of_the_rows_are_run(_: Any) -> None:
    """Another batch has half of the rows, as on the first of two devices."""
    from unidev_torch.memory.estimating import TorchEstimator

    sound = TorchEstimator.run

    @replace(TorchEstimator)
    def run(self: Any, step: Any, arguments: Any, leaves: Any, shapes: Any) -> Any:
        halves = {key: (max(2, rows // 2), *rest) for key, (rows, *rest) in shapes.items()}
        return sound(self, step, arguments, leaves, halves)
