"""Train a net whose layers are on several GPUs, the same on every framework.

A LeNet learns to read scikit-learn's handwritten digits, first on one device; then its first layers
are on one device and its last ones on another:

    UNIDEV_BACKEND=torch UNIDEV_SIMULATE=2 python examples/model_parallel.py

``unidev.spread(net, devices)`` is the one line that differs. The devices take turns, so this is for
nets that one device cannot hold; no gradients are reduced, and the results are those of one device.
The backend is torch, tensorflow, paddle, mxnet or jax; NumPy has no gradients.
"""

import statistics

from multi_gpu import MEASURED, compare, fit, on, seconds_of
from train_digits import BATCH_SIZE, LEARNING_RATE, load_data, loss_of, make_net

import unidev


def train(devices, epochs, seed):
    """Train on these devices, and return what was found."""
    unidev.seed(seed)
    net = unidev.spread(make_net(), devices)
    for name, x in unidev.parameters(net).items():
        print(f"{name} is on {unidev.device_of(x)}")
    found = fit(
        net, devices, epochs, seed, lambda gradients: unidev.sgd(net, gradients, lr=LEARNING_RATE)
    )
    (images, labels), _ = load_data()
    batch = on(devices, images[:BATCH_SIZE], labels[:BATCH_SIZE])
    steps = [seconds_of(unidev.value_and_grad(loss_of), net, *batch) for _ in range(MEASURED)]
    return {**found, "computing": statistics.median(steps), "reducing": 0.0}


if __name__ == "__main__":
    compare("model_parallel", __doc__, train)
