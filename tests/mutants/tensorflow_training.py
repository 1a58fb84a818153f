"""TensorFlow's backend, each time without one precaution of its plugin: training."""

from __future__ import annotations

import copy

from mutants.mutant import replace, replace_value
from mutants.tensorflow import tensorflow_mutant

# -- gradients -------------------------------------------------------------------------------------


# -- models ----------------------------------------------------------------------------------------


@tensorflow_mutant(
    "placing.optimizer_state_moves", profile="train", around=".models:TensorFlowModels.parts"
)
def counters_of_the_optimizer_stay(exact, self, model, optimizer):
    """What has no gradient's dtype stays on the host: ``optimizer.iterations`` is int64."""
    import tensorflow as tf

    found = exact(self, model, optimizer)
    kept = [[x for x in part if x.dtype != tf.int64] for part in found]
    return [part for part in kept if part]


@tensorflow_mutant("models.parameters_by_name", "model_gradients.of_a_model", profile="train")
def tensorflow_is_asked_what_is_frozen(backend):
    """Freezing a Keras layer does not clear ``trainable`` of the ``tf.Variable`` within."""
    from unidev_tensorflow.models import TensorFlowModels, swap

    exact = TensorFlowModels.parameters

    @replace(TensorFlowModels)
    def trainable(self, model):
        found = exact(self, model).items()
        return {name: x for name, x in found if swap.native_variable(x).trainable}


@tensorflow_mutant(
    "placing.parameter_objects_stay", profile="train", around=".models:TensorFlowModels.finish"
)
def variables_are_exchanged_within_keras(exact, self, model, optimizer, device):
    """``variable._value = moved``: it moves, and whoever holds the ``tf.Variable`` has the old."""
    import tensorflow as tf

    with self.backend.native_scope(device):
        for variable in model.variables:
            variable._value = tf.Variable(variable._value, trainable=variable.trainable)
    return exact(self, model, optimizer, device)


@tensorflow_mutant(
    "checkpoints.portable_names_and_layouts",
    profile="train",
    around=".models:TensorFlowModels.stored",
)
def kernels_are_saved_as_keras_has_them(exact, self, model):
    """A convolution's kernel is written in Keras's layout: height, width, inputs, outputs."""
    return {
        name: each._replace(axes=None) if len(each.axes or ()) == 4 else each
        for name, each in exact(self, model).items()
    }


# -- layers ----------------------------------------------------------------------------------------


@tensorflow_mutant(
    "layers.flatten_and_activations", profile="train", everywhere=".nn.images:flatten_last"
)
def flattening_keeps_channels_last(sound, x):
    """Images are flattened as they are computed: height, width, channels."""
    from unidev_tensorflow.nn import images

    return images.flatten(x)


@tensorflow_mutant(
    "functional.values", profile="train", around=".nn:TensorFlowFunctions.softmax_cross_entropy"
)
def cross_entropy_by_softmax(sound, self, logits, labels):
    """Keras's loss of probabilities: it cuts them off at 1e-7, and large losses with them."""
    import keras
    import tensorflow as tf

    from unidev_tensorflow.scopes import scope_of

    with scope_of(logits):
        chances = tf.nn.softmax(logits)
        return tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(labels, chances))


# -- several devices -------------------------------------------------------------------------------


@tensorflow_mutant("reducing.in_place", profile="multi")
def immutable_tensors_are_written_to(backend):
    """Through ``x.__array__()``, which TensorFlow hands out writable."""
    import tensorflow as tf

    from unidev_tensorflow.collectives import TensorFlowCollectives

    @replace(TensorFlowCollectives)
    def write(self, targets, values):
        for target, value in zip(targets, values, strict=True):
            tf.reshape(target, [-1]).__array__()[...] = value.numpy().ravel()

    replace_value(TensorFlowCollectives, "is_writable", lambda self, x: True)


@tensorflow_mutant("data_parallel.compiled", profile="multi")
def replicas_share_what_is_traced(backend):
    """A ``tf.function`` keeps the handles that it was traced with: those of the first replica."""
    from unidev_tensorflow.models import TensorFlowModels

    replace_value(TensorFlowModels, "compiled", lambda self, model, known, parts=(): ())


@tensorflow_mutant("spreading.outputs", profile="multi", around=".models.tree:Tree.copy")
def copies_are_in_training_mode(sound, self, model):
    """Keras makes layers anew of their configuration, which lacks the mode."""
    return copy.deepcopy(model)


# -- layers ----------------------------------------------------------------------------------------


@tensorflow_mutant("layers.conv2d", profile="train")
def equal_paddings_are_same(backend):
    """SAME where it makes the right size: of an even number it pads one side alone."""
    import tensorflow as tf

    from unidev_tensorflow.nn import keras_layers

    def sides(size, kernel, by, edge):
        count = -(-size // by)
        if count != (size + 2 * edge - kernel) // by + 1:
            return edge, edge
        zeros = max((count - 1) * by + kernel - size, 0)
        return zeros // 2, zeros - zeros // 2

    def conv2d_last(x, kernel, bias, stride, padding):
        axes = zip(x.shape[1:3], kernel.shape[:2], stride, padding, strict=True)
        edges = [(0, 0), *(sides(*each) for each in axes), (0, 0)]
        y = tf.nn.conv2d(x, kernel, stride, edges)
        return y if bias is None else tf.nn.bias_add(y, bias)

    replace_value(keras_layers, "conv2d_last", conv2d_last)
