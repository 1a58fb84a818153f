"""The same loop on a GPU where there is one, by unidev."""

import unidev

unidev.set_backend("tensorflow")  # before TensorFlow, so that GPUs can be simulated
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
device = unidev.try_gpu()  # 1
net, optimizer = unidev.place(net, device, optimizer=optimizer)  # 2

for epoch in range(5):
    total = unidev.zeros((), device=device)
    for X, y in unidev.prefetch(batches, device):  # 3
        with device, tf.GradientTape() as tape:
            loss = loss_of(y, net(X))
        gradients = tape.gradient(loss, net.trainable_variables)
        with device:
            optimizer.apply_gradients(zip(gradients, net.trainable_variables, strict=True))
            total += loss  # 4
    print(f"epoch {epoch}: loss {float(total) / len(batches):.4f}")

unidev.save_parameters(net, "net.safetensors")  # 5
