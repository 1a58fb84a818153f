"""Neural networks and GPUs: a net is on the device of its parameters, and computes there.

The end of the section "GPUs" of the textbook Dive into Deep Learning as one program for every
framework:

    UNIDEV_BACKEND=torch UNIDEV_SIMULATE=2 python examples/place_model.py

The backend is numpy, torch, tensorflow, paddle, mxnet or jax, and the output is the same. Without
UNIDEV_SIMULATE it uses the machine's GPUs. It also runs with one GPU or none: ``try_gpu`` falls
back to the CPU.
"""

import unidev
from unidev import nn


def show(name, x):
    """Print a matrix and its device."""
    print(f"{name} is on {unidev.device_of(x)}:")
    for row in unidev.to_numpy(x).tolist():
        print("   ", *(f"{value:.4f}" for value in row))


# A net is made on the CPU. Its layers are the framework's own; after the same seed, their weights
# are the same on every framework.
unidev.seed(1)
net = nn.sequential(nn.dense(4, 8), nn.relu(), nn.dense(8, 2))
print("a new net is on", unidev.device_of(net))

# Place it on the first GPU: the same net, whose parameters now have new memory.
placed = unidev.place(net, unidev.try_gpu())
print("place(net) is net:", placed is net)
print("the net is on", unidev.device_of(net))

# Each of its parameters is on that device.
parameters = unidev.parameters(net)
print("parameters:", len(parameters))
for parameter in parameters.values():
    unidev.check_same_device(parameter, net)

# With X on the same device, the output is on it too.
X = unidev.rand((3, 4), device=unidev.try_gpu())
unidev.check_same_device(net=net, X=X)
show("net(X)", net(X))

# An X on another device does not match. Some frameworks raise an error when they compute, and some
# move it silently, so check first.
X = unidev.rand((3, 4), device=unidev.try_gpu(1))
try:
    unidev.check_same_device(net=net, X=X)
    print("the net and X are on the same device")
except unidev.DeviceMismatchError as error:
    found = {name.partition(".")[0]: str(device) for name, device in error.devices.items()}
    print("check_same_device(net, X):", found)

# Move X to the net, or the net to X.
show("net(X), with X moved to the net,", net(unidev.as_in_device(X, unidev.device_of(net))))
unidev.place(net, unidev.device_of(X))
show("net(X), with the net moved to X,", net(X))

# The net is already on that device: placing it there again does not touch it.
before = next(iter(unidev.parameters(net).values()))
unidev.place(net, unidev.device_of(X))
after = next(iter(unidev.parameters(net).values()))
print("placed again, it has the same memory:", unidev.shares_memory(before, after))
