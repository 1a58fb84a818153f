"""JAX's backend, each time without one precaution of its plugin: gradients, models, checkpoints."""

from __future__ import annotations

from functools import partial

import numpy as np

from mutants.jax import jax_mutant
from mutants.mutant import replace_value

training_mutant = partial(jax_mutant, profile="train")


# -- gradients -------------------------------------------------------------------------------------


@training_mutant("value_and_grad.across_devices", "value_and_grad.of_any_tree")
def gradients_are_on_the_default_device(backend):
    """Gradients from the host, committed to no device: JAX then computes on its first."""
    import jax.numpy as jnp

    from unidev_jax import autograd

    replace_value(autograd, "_beside", lambda gradient, x: jnp.asarray(np.asarray(gradient)))


@training_mutant("value_and_grad.zeros_for_what_is_not_reached", "value_and_grad.errors")
def a_loss_of_nothing_has_zeros_for_gradients(backend):
    """``jax.grad`` gives zeros where no way leads to the loss: unidev's says so."""
    import jax

    from unidev_jax import autograd

    def differentiated(function, arrays):
        loss, pull, beside = jax.vjp(function, list(arrays), has_aux=True)
        return loss, pull(jax.numpy.ones_like(loss))[0][:1] * len(arrays), beside

    replace_value(autograd, "_differentiated", differentiated)


@training_mutant("gradients.no_grad_records_nothing", around=".autograd:JaxAutograd.no_grad")
def no_grad_is_entered_where_it_does_nothing(sound, self):
    """A block that does nothing, also inside ``jax.grad``, which records on."""
    from contextlib import nullcontext

    return nullcontext()


@training_mutant("layers.batch_norm")
def statistics_of_the_copy_are_dropped(backend):
    """What the loss sets in the copy that is differentiated stays there."""
    from unidev_jax.models.represented import Representation

    replace_value(Representation, "apply", lambda self, changes: None)


# -- models ----------------------------------------------------------------------------------------


@training_mutant(
    "placing.ties_stay", "placing.parameter_objects_stay", around=".models:ModelsByLibrary.place"
)
def a_tie_is_lost_on_the_way(sound, self, model, device, optimizer=None):
    """Each place gets a variable of its own: ``jax.device_put`` of a module, a plain tree."""
    import jax
    from flax import nnx

    for node in (model.first, model.second, model.block.dense):
        for name in ("kernel", "bias"):
            variable = getattr(node, name)
            moved = jax.device_put(variable.get_raw_value(), device.native, may_alias=False)
            setattr(node, name, nnx.Param(moved))
    return optimizer


@training_mutant("placing.everything_arrives", "models.tensors_are_all_there")
def arrays_outside_of_variables_stay(backend):
    """Only variables count: an attribute that is an array is found by nobody."""
    from unidev_jax.models import modules

    exact = modules.walk

    def walk(model):
        return (one for one in exact(model) if not isinstance(one.part, modules.Attribute))

    replace_value(modules, "walk", walk)


@training_mutant("placing.everything_arrives", around=".models.modules:JaxModels.twin")
def a_parameter_is_put_without_being_copied(sound, self, part, device):
    """``device_put`` of what is on the host already: the new array is the old one's memory."""
    import jax

    from unidev_jax.models.tree import replaced

    host = jax.devices("cpu")[0]
    return [replaced(part, lambda x: jax.device_put(x, host))]


@training_mutant("placing.optimizer_state_moves", around=".models.modules:JaxModels.parts")
def the_optimizer_stays_behind(exact, self, model, optimizer):
    """The state of an ``nnx.Optimizer`` is arrays of its own, which nothing moves along."""
    return exact(self, model, None)


# -- checkpoints and layers ------------------------------------------------------------------------


@training_mutant(
    "checkpoints.loads_to_a_device",
    "checkpoints.round_trip",
    around=".models.modules:JaxModels.write",
)
def loaded_parameters_are_uncommitted(sound, self, x, values):
    """``jnp.asarray`` of what was read: on JAX's first device, wherever the model is."""
    import jax.numpy as jnp

    x.set_raw_value(jnp.asarray(np.array(values)))


@training_mutant("checkpoints.ties_are_stored_once", around=".models.modules:JaxModels.stored")
def a_tied_parameter_has_one_name(exact, self, model):
    """``nnx.state`` lists a shared variable once, at the first of its places."""
    found = {}
    for name, each in exact(self, model).items():
        if all(each.tensor is not other.tensor for other in found.values()):
            found[name] = each
    return found


@training_mutant("checkpoints.optimizer_state")
def steps_are_counted_from_zero(backend):
    """The step of an ``nnx.Optimizer`` is not part of its stored state."""
    from unidev_jax.models import optimizers

    exact = optimizers._named

    def named(optimizer):
        return {name: x for name, x in exact(optimizer).items() if "count" not in name}

    replace_value(optimizers, "_named", named)


@training_mutant(
    "data_parallel.dropout",
    simulated_count=3,
    profile="multi",
    around="unidev.parallel.devices.twins:Twins._reseed",
)
def replicas_drop_the_same_elements(sound, self, index):
    """The state of a random generator is copied with the model, as by ``copy.deepcopy``."""


@training_mutant("trees.placed_anew", around="is_bound")
def what_is_there_is_not_committed(sound, self, x, device):
    """An array on the device is left as it is, and computed with elsewhere."""
    return self.device_of(x) is device
