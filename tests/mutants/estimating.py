"""Estimates of memory that are wrong, or that change what they estimate."""

from __future__ import annotations

from mutants.mutant import around, torch_mutant


@torch_mutant("estimating.as_it_is_counted")
def what_is_saved_for_backward_is_forgotten(_):
    """The activations are left out."""
    from unidev_torch.memory.blocks import ACTIVATIONS, Blocks

    @around(Blocks)
    def at_peak(sound, self):
        return {**sound(self), ACTIVATIONS: 0}


@torch_mutant("estimating.nothing_is_changed", around=".memory.estimating:TorchEstimator.run")
def the_step_is_tried_on_the_model_itself(sound, self, step, arguments, leaves, shapes):
    """A trial step, to see whether it runs."""
    step(*arguments)
    return sound(self, step, arguments, leaves, shapes)


@torch_mutant("estimating.largest_batch", around=".memory.estimating:TorchEstimator.run")
def half_of_the_rows_are_run(sound, self, step, arguments, leaves, shapes):
    """Another batch has half of the rows, as on the first of two devices."""
    halves = {key: (max(2, rows // 2), *rest) for key, (rows, *rest) in shapes.items()}
    return sound(self, step, arguments, leaves, halves)
