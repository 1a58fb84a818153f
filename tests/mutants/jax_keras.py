"""JAX's backend with Keras's models in its probe: whole, and without one precaution for those."""

from __future__ import annotations

from mutants.jax import jax_mutant
from mutants.mutant import JAX, around, mutant, replace_value


def _has_kerass(*, is_training: bool = False) -> None:
    """Put Keras's models in the place of Flax's."""
    from keras_probe import KerasModelProbe, Sample

    from unidev_jax.probe import JaxProbe

    replace_value(JaxProbe, "models", property(lambda self: KerasModelProbe(self.backend)))
    replace_value(Sample, "is_training", is_training)


@mutant(
    "models.probe_calibrated", "models.tensors_are_all_there", "models.parameters_by_name",
    "models.mismatch_names_paths", "placing.everything_arrives", "placing.any_model",
    "placing.parameter_objects_stay", "placing.ties_stay", "placing.frozen_stays",
    "placing.optimizer_state_moves", "placing.unbuilt", "placing.spread_is_refused",
    "model_gradients.of_a_model",
    "checkpoints.round_trip", "checkpoints.ties_are_stored_once", "checkpoints.optimizer_state",
    profile="train", plugin=JAX, result="pass",
)  # fmt: skip
def has_kerass_models(backend):
    """Nothing is broken; the probe's own models are Flax's."""
    _has_kerass()


@mutant("model_gradients.buffers_are_the_models", profile="train", plugin=JAX, result="pass")
def has_kerass_models_that_train(backend):
    """Nothing is broken; a call of the model updates its statistics."""
    _has_kerass(is_training=True)


@jax_mutant("placing.everything_arrives", profile="train")
def a_variable_of_keras_is_left_behind(backend):
    """``model.trainable_variables`` move: a frozen layer and running statistics stay."""
    _has_kerass()
    from unidev_jax.models.keras import KerasModels

    @around(KerasModels)
    def parts(exact, self, model, optimizer):
        return [each for each in exact(self, model, optimizer) if each.trainable]


@jax_mutant("placing.optimizer_state_moves", profile="train")
def keras_optimizers_stay_behind(backend):
    """Only what the model refers to moves; its optimizer refers to the model."""
    _has_kerass()
    from unidev_jax.models.keras import KerasModels

    @around(KerasModels)
    def parts(exact, self, model, optimizer):
        return exact(self, model, None)


@jax_mutant("model_gradients.buffers_are_the_models", profile="train")
def a_scope_of_keras_forgets_what_was_assigned(backend):
    """What the loss assigns in the ``StatelessScope`` ends with it."""
    _has_kerass(is_training=True)
    from unidev_jax.models.keras import Stateless

    replace_value(Stateless, "apply", lambda self, values: None)
