"""The same loop on all GPUs, by unidev."""

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
parallel = unidev.DataParallel(net, unidev.try_all_gpus())
device = unidev.device_of(net)  # the first of them
step = unidev.value_and_grad(lambda net, X, y: loss_of(y, net(X)))

for epoch in range(5):
    total = unidev.zeros((), device=device)
    for X, y in unidev.prefetch(batches, device):
        loss, gradients = step(parallel, X, y)
        named = unidev.parameters(net)
        with device:
            optimizer.apply_gradients([(g, named[name]) for name, g in gradients.items()])
            total += loss
    print(f"epoch {epoch}: loss {float(total) / len(batches):.4f}")

unidev.save_parameters(net, "net.safetensors")
