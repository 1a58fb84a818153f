"""PyTorch's backend, wrong where a model, a loss or a net is more than the smallest that trains.

Each conformed once: one group of parameters, a model that the loss uses alone, fewer than 64
tensors, dense and contiguous ones, nets of one level.
"""

from __future__ import annotations

from mutants.mutant import replace_value, torch_mutant


@torch_mutant("placing.optimizer_state_moves", everywhere=".models.optimizers:named_tensors")
def the_state_of_the_first_group_moves(sound, optimizer, model):
    """Moments of the parameters in later groups stay where they were."""
    later = {
        id(x)
        for group in getattr(optimizer, "param_groups", [])[1:]
        for parameter in group["params"]
        for x in optimizer.state.get(parameter, {}).values()
    }
    return [(name, x) for name, x in sound(optimizer, model) if id(x) not in later]


@torch_mutant("placing.everything_arrives", everywhere=".models.tree:tensors_in")
def gradients_of_frozen_parameters_stay_behind(sound, modules):
    """A parameter that was frozen after a step keeps its gradient, on the old device."""
    found = sound(modules)
    frozen = [x for _, x in found if x.is_leaf and not x.requires_grad and x.grad is not None]
    left = {id(x.grad) for x in frozen}
    return [(name, x) for name, x in found if id(x) not in left]


@torch_mutant("placing.remembered_device_follows", everywhere=".models.tree:move_what_else")
def attributes_stay_changed_after_a_refusal(sound, model, native):
    """What the ``to`` of some modules has set is not undone when that of another one refuses."""
    from unidev_torch.models import tree

    for module in tree._with_own_to(model):
        tree._ask(module, native)


@torch_mutant("placing.any_model")
def tensors_of_one_storage_are_laid_out_anew(backend):
    """A part of a storage is copied from its first tensor on, which wider ones do not fit."""
    from unidev_torch.models import swap

    replace_value(swap, "_ALIGNMENT", 1)


@torch_mutant("layers.residual", around=".nn.layers:Residual.forward")
def residuals_are_added_in_place(sound, self, x):
    """To what the layers return, which may be the input, or what autograd has kept."""
    import torch

    found = torch.nn.Sequential.forward(self, x)
    found += x
    return found


@torch_mutant("layers.residual_shortcut", around=".nn.layers:Residual.forward")
def the_shortcut_is_left_out(sound, self, x):
    """The layers' result has the new shape already."""
    if not self.has_shortcut:
        return sound(self, x)
    *own, _ = self
    for layer in own:
        x = layer(x)
    return x


@torch_mutant("layers.dropout", around=".nn.layers:TorchLayers.modes")
def modes_are_those_of_the_outermost_layers(sound, self, model):
    """Layers two levels deep are in another mode once an accuracy was evaluated."""
    return [(module, module.training) for module in (model, *model.children())]


@torch_mutant("value_and_grad.sgd_is_exact", around=".autograd:TorchAutograd.descend")
def incomplete_blocks_are_left_out(sound, self, parameters, gradients, lr):
    """Parameters are updated in blocks of 64; beyond the first, a smaller one is not."""
    for start in range(0, max(64, len(parameters)) - 63, 64):
        block = slice(start, start + 64)
        sound(self, list(parameters[block]), list(gradients[block]), lr)
    return parameters
