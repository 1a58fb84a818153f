"""Keras's models and ``tf.Module``s, placed while they are in use."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import unidev

# Of Keras's own saving, with NumPy 2.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

X = np.random.default_rng(0).standard_normal((32, 4)).astype("float32")
Y = X[:, ::-1].copy()
DEVICES = ("gpu:1", "gpu:2", "cpu")


def make_model():
    """With everything that has variables, and the same numbers each time."""
    keras.utils.set_random_seed(0)
    layers = keras.layers
    return keras.Sequential([
        keras.Input((4,)), layers.Dense(8, activation="relu"), layers.BatchNormalization(),
        layers.Dropout(0.3), layers.Dense(4),
    ])  # fmt: skip


def make_compiled():
    model = make_model()
    model.compile("adam", "mse", metrics=["mae"])
    return model


def make_functional():
    keras.utils.set_random_seed(0)
    inputs = keras.Input((4,))
    shared = keras.layers.Dense(4)
    return keras.Model(inputs, shared(keras.ops.tanh(shared(inputs))))


def fit(model):
    return model.fit(X, Y, verbose=0, shuffle=False).history


def variables_of(model):
    beside = [*model.metrics_variables, *(model.optimizer.variables if model.optimizer else [])]
    return [*model.variables, *beside]


def test_fit_after_each_move_goes_on_as_if_nothing_had_moved():
    stayed, moved = make_compiled(), make_compiled()
    for device in DEVICES:
        assert fit(moved) == fit(stayed)
        assert unidev.place(moved, device) is moved
        where = unidev.as_device(device)
        assert {unidev.device_of(x) for x in variables_of(moved)} == {where}
        assert moved.evaluate(X, Y, verbose=0) == stayed.evaluate(X, Y, verbose=0)
        assert np.array_equal(moved.predict(X, verbose=0), stayed.predict(X, verbose=0))
    assert fit(moved) == fit(stayed)


def test_optimizers_inside_another_and_in_attributes_move_as_well():
    """As those of a GAN, whose own ``compile`` takes two."""
    model = make_model()
    inner = keras.optimizers.SGD(0.1, momentum=0.9)
    optimizer = keras.optimizers.LossScaleOptimizer(inner)
    model.d_optimizer, model.others = keras.optimizers.Adam(), {"g": [keras.optimizers.Adam()]}
    own = [model.d_optimizer, *model.others["g"]]
    for each in (optimizer, *own):
        each.build(model.trainable_variables)
    unidev.place(model, "gpu:1", optimizer=optimizer)
    moved = [x for each in (optimizer, inner, *own) for x in each.variables]
    assert {str(unidev.device_of(x)) for x in moved} == {"gpu:1"}


def test_an_optimizer_that_is_none_of_keras_s_is_refused():
    with pytest.raises(unidev.UnsupportedOperation, match=r"keras\.optimizers"):
        unidev.place(make_model(), "gpu:1", optimizer=object())


@pytest.mark.parametrize("given", [{}, {"mean": [1.0, 2, 3, 4], "variance": [4.0, 1, 9, 1]}])
def test_constants_that_a_layer_makes_of_its_variables_are_loaded_and_move(given, tmp_path):
    """Keras's ``Normalization`` computes with tensors; keras-team/keras#20163."""
    layers = [keras.layers.Normalization(**given), keras.layers.Dense(1)]
    net = keras.Sequential([keras.Input((4,)), *layers])
    new = keras.models.clone_model(net)
    new.compile("sgd", "mse")
    function = tf.function(lambda x: new(x))  # noqa: PLW0108  not Keras's own
    stale = [new.predict(X, verbose=0), function(X)]
    if not given:
        layers[0].adapt(X)
    wanted = net(X)
    assert not np.allclose(stale[1], wanted)
    unidev.save_parameters(net, tmp_path / "net.safetensors")
    unidev.load_parameters(new, tmp_path / "net.safetensors")
    for y in (new(X), new.predict(X, verbose=0), function(X)):
        np.testing.assert_allclose(y, wanted, rtol=1e-5)
    for device in (unidev.gpu(0), unidev.gpu(1)):
        unidev.place(net, device)
        if not given:
            layers[0].adapt(X)  # on the CPU, where no scope says otherwise
            unidev.place(net, device)
        x = unidev.device_put(X, device)
        with unidev.transfer_guard("forbid"), device:
            y = net(x)
        np.testing.assert_allclose(y, wanted, rtol=1e-5)
    spread = unidev.DataParallel(unidev.place(net, "gpu:0"), ["gpu:0", "gpu:1"])
    np.testing.assert_allclose(spread(unidev.device_put(X, "cpu")), wanted, rtol=1e-5)
    assert unidev.device_of(layers[0].mean) is unidev.gpu(0)


def test_names_are_the_same_each_time_such_a_model_is_built():
    models = unidev.active_backend().models
    for make in (make_model, make_functional):
        assert list(models.stored(make())) == list(models.stored(make()))
    assert list(models.stored(make_model())) == [
        "0.kernel", "0.bias", "1.gamma", "1.beta", "1.moving_mean", "1.moving_variance",
        "3.kernel", "3.bias",
    ]  # fmt: skip
    assert "2.seed" in models.tensors(make_model())  # it moves, and is in no checkpoint


class Block(keras.layers.Layer):
    """Layers and variables wherever Python can hold them."""

    def __init__(self):
        super().__init__()
        self.listed = [keras.layers.Dense(3), keras.layers.Dense(3)]
        self._private = [keras.layers.Dense(3)]
        self.named = {"a": keras.layers.Dense(3)}
        self.twice = self.listed[0]
        self.plain = tf.Variable(1.0)
        self.random = tf.random.Generator.from_seed(1)

    def call(self, x):
        for layer in (*self.listed, *self._private, self.named["a"]):
            x = layer(x)
        return x * self.plain + self.random.normal((3,))


def test_what_a_layer_holds_in_containers_and_besides_moves_too():
    block = Block()
    block(np.ones((2, 3), "float32"))
    found = unidev.active_backend().models.tensors(block)
    assert set(found) == {
        f"{place}.{name}"
        for place in ("listed.0", "listed.1", "named.a", "twice", "layers.2")
        for name in ("kernel", "bias")
    } | {"plain", "random"}
    unidev.place(block, "gpu:1")
    assert unidev.device_of(block) is unidev.gpu(1)
    assert unidev.device_of(block.random.state) is unidev.gpu(1)
    block(np.ones((2, 3), "float32"))
    assert block.twice is block.listed[0]


class Module(tf.Module):
    def __init__(self):
        super().__init__()
        self.weights = [tf.Variable([[2.0, 0.0], [0.0, 2.0]]), {"k": tf.Variable([3.0])}]
        self.tied = self.weights[0]
        self.count = tf.Variable(0, trainable=False)
        self.keras = keras.layers.Dense(2)
        self.keras.build((None, 2))
        self.me = self

    @tf.function(input_signature=[tf.TensorSpec((None, 2))])
    def double(self, x):
        return x @ self.tied


def test_a_module_moves_with_its_lists_ties_and_keras_layers():
    module = Module()
    assert list(unidev.parameters(module)) == [
        "keras.kernel", "keras.bias", "tied", "weights.1.k"
    ]  # fmt: skip
    unidev.place(module, "gpu:1")
    assert unidev.device_of(module) is unidev.gpu(1)
    assert module.tied is module.weights[0]
    assert {x.device[-5:] for x in module.variables} == {"CPU:2"}
    module.tied.assign_add(tf.ones((2, 2)))
    assert module.weights[0].numpy().tolist() == [[3.0, 1.0], [1.0, 3.0]]


def test_a_module_is_exported_with_the_memory_that_it_has_now(tmp_path):
    module = unidev.place(Module(), "gpu:1")
    module.tied.assign_add(tf.ones((2, 2)))
    tf.saved_model.save(module, str(tmp_path / "saved"))
    loaded = tf.saved_model.load(str(tmp_path / "saved"))
    assert loaded.double(tf.ones((1, 2))).numpy().tolist() == [[4.0, 4.0]]


def test_the_framework_s_own_files_hold_a_moved_model(tmp_path):
    moved = unidev.place(make_compiled(), "gpu:1")
    fit(moved)
    expected = moved.predict(X, verbose=0)

    moved.save(tmp_path / "model.keras")
    read = keras.saving.load_model(tmp_path / "model.keras")
    assert np.array_equal(read.predict(X, verbose=0), expected)
    assert read.evaluate(X, Y, verbose=0) == moved.evaluate(X, Y, verbose=0)
    fit(read)  # Keras saves no state of Dropout's generator, so that losses differ

    expected = moved.predict(X, verbose=0)
    moved.save_weights(tmp_path / "model.weights.h5")
    other = unidev.place(make_model(), "gpu:2")
    other.load_weights(tmp_path / "model.weights.h5")
    assert unidev.device_of(other) is unidev.gpu(2)
    assert np.array_equal(other.predict(X, verbose=0), expected)

    path = tf.train.Checkpoint(model=moved).save(str(tmp_path / "checkpoint"))
    other = unidev.place(make_model(), "gpu:2")
    tf.train.Checkpoint(model=other).restore(path).assert_existing_objects_matched()
    assert unidev.device_of(other) is unidev.gpu(2)
    assert np.array_equal(other.predict(X, verbose=0), expected)

    moved.export(str(tmp_path / "exported"))
    loaded = tf.saved_model.load(str(tmp_path / "exported"))
    np.testing.assert_allclose(loaded.serve(X), expected, atol=1e-6)
