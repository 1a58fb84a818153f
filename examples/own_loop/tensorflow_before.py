"""A training loop of TensorFlow's and Keras's, on the CPU."""

import keras
import numpy as np
import tensorflow as tf

values = np.random.default_rng(1).random((256, 8), np.float32)
labels = (values.sum(axis=1) > 4).astype(np.int64)
batches = tf.data.Dataset.from_tensor_slices((values, labels)).batch(32)

keras.utils.set_random_seed(1)
layers = [keras.Input((8,)), keras.layers.Dense(16, "relu"), keras.layers.Dense(2)]
net = keras.Sequential(layers)
optimizer = keras.optimizers.Adam(0.01)
loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

for epoch in range(5):
    total = 0.0
    for X, y in batches:
        with tf.GradientTape() as tape:
            loss = loss_of(y, net(X))
        gradients = tape.gradient(loss, net.trainable_variables)
        optimizer.apply_gradients(zip(gradients, net.trainable_variables, strict=True))
        total += float(loss)
    print(f"epoch {epoch}: loss {total / len(batches):.4f}")

net.save_weights("net.weights.h5")
