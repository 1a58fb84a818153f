"""What ``unidev.nn`` makes of Keras's layers: compiled, fitted, saved, traced, and placed."""

import random

import keras
import numpy as np
import pytest
import tensorflow as tf
from layer_samples import IMAGES, LABELS, make_net

import unidev
from unidev import nn

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


def compiled(net):
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    net.compile(keras.optimizers.SGD(0.1, momentum=0.9), loss, metrics=["accuracy"])
    return net


def fit(net):
    return net.fit(IMAGES, LABELS, verbose=0, shuffle=False, batch_size=8).history


def test_they_are_keras_s_own_layers():
    kinds = [type(layer).__mro__ for layer in make_net(0.5).stack]
    wanted = [
        keras.layers.Conv2D, keras.layers.BatchNormalization, keras.Layer,
        keras.layers.AveragePooling2D, keras.Model, keras.layers.Flatten, keras.layers.Dropout,
        keras.layers.Dense,
    ]  # fmt: skip
    assert all(want in mro for want, mro in zip(wanted, kinds, strict=True))


def test_a_dense_layer_takes_the_last_axis_whatever_the_rank():
    dense = nn.dense(4, 3)
    kernel = dense.kernel.numpy()
    for shape in ((4,), (2, 4), (2, 3, 4), (2, 5, 3, 4)):
        x = np.random.default_rng(0).standard_normal(shape).astype("float32")
        for net in (dense, nn.sequential(dense)):
            np.testing.assert_allclose(net(x), x @ kernel, atol=1e-5)


def test_layers_compute_where_their_weights_are():
    net = unidev.place(make_net(0.5), "gpu:1")
    for x in (IMAGES, tf.constant(IMAGES), unidev.array(IMAGES, device="gpu:2")):
        assert unidev.device_of(net(x)) is unidev.gpu(1)
    x = unidev.array(IMAGES, device="gpu:2")
    assert unidev.device_of(nn.relu()(x)) is unidev.gpu(2)
    assert unidev.device_of(nn.sequential(nn.flatten())(x)) is unidev.gpu(2)


def test_a_compiled_net_fits_evaluates_and_predicts_the_same_on_every_device():
    stayed = compiled(make_net())
    expected = [fit(stayed) for _ in range(2)]
    moved = compiled(make_net())
    found = []
    for device in ("gpu:1", "gpu:2"):
        found.append(fit(moved))
        unidev.place(moved, device)
        assert {str(unidev.device_of(x)) for x in moved.optimizer.variables} == {str(
            unidev.as_device(device)
        )}  # fmt: skip
    assert found == expected
    assert moved.evaluate(IMAGES, LABELS, verbose=0) == stayed.evaluate(IMAGES, LABELS, verbose=0)
    assert np.array_equal(moved.predict(IMAGES, verbose=0), stayed.predict(IMAGES, verbose=0))
    assert expected[-1]["loss"] < expected[0]["loss"]


def test_dropout_and_batch_norm_go_by_the_mode_and_by_training_where_it_is_said():
    net = make_net(0.5)
    assert not np.array_equal(net(IMAGES), net(IMAGES))  # a new one trains
    before = net.stack[1].moving_mean.numpy()
    inferred = net(IMAGES, training=False)
    assert np.array_equal(net.stack[1].moving_mean.numpy(), before)
    assert nn.eval_mode(net) is net
    assert np.array_equal(net(IMAGES), inferred)
    assert not np.array_equal(net(IMAGES, training=True), inferred)
    assert not np.array_equal(net.stack[1].moving_mean.numpy(), before)
    nn.train_mode(net.stack[6])
    assert not np.array_equal(net(IMAGES), net(IMAGES))  # that layer alone trains


def test_other_models_of_keras_have_no_mode():
    with pytest.raises(unidev.UnsupportedOperation, match="training=False"):
        nn.eval_mode(keras.layers.Dropout(0.5))


def test_other_layers_of_keras_see_channels_first_and_are_told_of_training():
    seen = []

    class Spy(keras.layers.Layer):
        def call(self, x, training=None):
            seen.append((tuple(x.shape), training))
            return x

    net = nn.sequential(nn.conv2d(2, 4, 3), Spy(), nn.relu())
    assert net(IMAGES).shape == (16, 4, 6, 6)
    seen.clear()  # it was built as well
    net(IMAGES)
    nn.eval_mode(net)
    net(IMAGES)
    net(IMAGES, training=True)
    assert seen == [((16, 4, 6, 6), mode) for mode in (True, False, True)]


def test_a_net_is_traced_by_a_tf_function_and_gives_the_same():
    net = nn.eval_mode(unidev.place(make_net(), "gpu:1"))
    traced = tf.function(net)
    np.testing.assert_allclose(traced(IMAGES), net(IMAGES), atol=1e-6)
    some = tf.function(net, input_signature=[tf.TensorSpec((None, 2, None, None))])
    np.testing.assert_allclose(some(IMAGES), net(IMAGES), atol=1e-6)
    blind = tf.function(nn.sequential(nn.flatten()), input_signature=[tf.TensorSpec(None)])
    with pytest.raises(ValueError, match="number of axes"):
        blind(IMAGES)


def test_a_net_is_a_layer_of_a_functional_model():
    net = make_net()
    inputs = keras.Input((2, 8, 8))
    model = keras.Model(inputs, keras.layers.Softmax()(net(inputs)))
    assert model.output_shape == (None, 5)
    assert model.predict(IMAGES, verbose=0).shape == (16, 5)
    unidev.place(model, "gpu:1")
    assert unidev.device_of(net) is unidev.gpu(1)


def test_a_residual_s_configuration_has_its_shortcut():
    block = nn.residual(nn.conv2d(2, 3, 3, padding=1), shortcut=nn.conv2d(2, 3, 1))
    serialized = keras.saving.serialize_keras_object(block)
    twin = keras.saving.deserialize_keras_object(serialized)
    twin(IMAGES)
    twin.set_weights(block.get_weights())
    np.testing.assert_array_equal(twin(IMAGES), block(IMAGES))


def test_what_keras_saved_is_read_in_another_process(tmp_path, python):
    net = unidev.place(compiled(make_net(0.5)), "gpu:1")
    fit(net)
    net.save(tmp_path / "net.keras")
    np.savez(tmp_path / "expected.npz", x=IMAGES, y=net.predict(IMAGES, verbose=0))
    done = python(
        f"""if True:
        import keras, numpy as np
        import unidev_tensorflow.nn.keras_layers
        net = keras.saving.load_model({str(tmp_path / "net.keras")!r})
        arrays = np.load({str(tmp_path / "expected.npz")!r})
        np.testing.assert_allclose(net.predict(arrays["x"], verbose=0), arrays["y"], atol=1e-6)
        net.fit(arrays["x"], np.zeros(16), verbose=0)
        print("read")
        """,
        PYTHONWARNINGS="default",
    )
    assert done.stdout.strip() == "read", done.stderr


def test_tensorflow_s_own_checkpoint_and_export_hold_a_net(tmp_path):
    net = nn.eval_mode(unidev.place(make_net(), "gpu:1"))
    net.stack[0].bias.assign(net.stack[0].bias + 1.0)
    path = tf.train.Checkpoint(net=net).save(str(tmp_path / "checkpoint"))
    other = nn.eval_mode(make_net())
    tf.train.Checkpoint(net=other).restore(path).assert_consumed()
    assert np.array_equal(other(IMAGES), net(IMAGES))
    signature = [tf.TensorSpec((None, 2, 8, 8))]
    archive = keras.export.ExportArchive()
    archive.track(net)
    archive.add_endpoint("serve", net.__call__, input_signature=signature)
    archive.write_out(str(tmp_path / "exported"))
    loaded = tf.saved_model.load(str(tmp_path / "exported"))
    np.testing.assert_allclose(loaded.serve(IMAGES), net(IMAGES), atol=1e-6)


def test_a_net_trains_under_a_strategy():
    strategy = tf.distribute.MirroredStrategy(["/CPU:1", "/CPU:2"])
    with strategy.scope():
        net = compiled(make_net())
    alone = compiled(make_net())
    kernel = net.stack[0].kernel.numpy()
    fit(net)
    fit(alone)
    assert not np.array_equal(net.stack[0].kernel.numpy(), kernel)
    # Each replica has batch statistics of its own half, so that they are near, not equal.
    np.testing.assert_allclose(net.stack[0].kernel.numpy(), alone.stack[0].kernel.numpy(), atol=0.1)


def test_the_weights_stay_float32_whatever_keras_s_policy_is():
    keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        net = make_net()
        assert net(IMAGES).dtype == tf.float32
    finally:
        keras.mixed_precision.set_global_policy("float32")
    assert {x.dtype for x in net.weights} == {"float32"}


def test_making_layers_draws_nothing_from_the_framework_s_generators():
    def states():
        generator = tf.random.get_global_generator().state.numpy().tolist()
        return random.getstate(), np.random.get_state()[1].tolist(), generator

    keras.utils.set_random_seed(3)
    before = states()
    make_net()
    assert states() == before


def test_layers_are_made_on_the_host_whatever_scope_of_tensorflow_s_there_is():
    with tf.device("/CPU:3"):
        net = make_net(0.5)
    assert unidev.device_of(net) is unidev.cpu()


def test_without_keras_on_tensorflow_layers_are_unsupported_and_say_so(python):
    done = python(
        """if True:
        import sys
        sys.modules["keras"] = None
        import unidev
        from unidev import nn
        try:
            nn.relu()
        except unidev.UnsupportedOperation as error:
            print(error)
        """,
        UNIDEV_BACKEND="tensorflow",
        PYTHONWARNINGS="default",
    )
    assert "pip install keras" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("layer", "shape", "said"),
    [
        (lambda: unidev.nn.conv2d(1, 2, 3), (1, 4, 4), "not \\(1, 4, 4\\)"),
        (lambda: unidev.nn.conv2d(1, 2, 3), (1, 2, 4, 5), "not \\(1, 2, 4, 5\\)"),
        (lambda: unidev.nn.conv2d(1, 2, 3, padding=(0, 1)), (1, 1, 2, 4), "a window of \\(3, 3\\)"),
        (lambda: unidev.nn.avg_pool2d(3), (1, 1, 2, 4), "a window of \\(3, 3\\)"),
        (lambda: unidev.nn.max_pool2d(3), (1, 4, 4), "not \\(1, 4, 4\\)"),
        (lambda: unidev.nn.batch_norm(3), (2, 1), "this is \\(2, 1\\)"),
        (lambda: unidev.nn.batch_norm(3), (2, 4, 3), "this is \\(2, 4, 3\\)"),
    ],
)
def test_in_a_sequential_what_does_not_fit_is_refused_before_tensorflow_sees_it(layer, shape, said):
    net = unidev.nn.sequential(layer())
    with pytest.raises(unidev.InvalidDataError, match=said):
        net(unidev.ones(shape))
