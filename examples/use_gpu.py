"""Use a GPU: where tensors live, and how they get from one device to another.

The section "GPUs" of the textbook Dive into Deep Learning as one program for every framework:

    UNIDEV_BACKEND=torch UNIDEV_SIMULATE=2 python examples/use_gpu.py

The backend is numpy, torch, tensorflow, paddle or mxnet, and the output is the same. Without
UNIDEV_SIMULATE it uses the GPUs that are there. With fewer than two, and with none, it runs too:
``try_gpu`` falls back to the CPU.
"""

import unidev


def show(name, x):
    """Print where a matrix is, and its numbers."""
    print(f"{name} is on {unidev.device_of(x)}:")
    for row in unidev.to_numpy(x).tolist():
        print("   ", *(f"{value:.4f}" for value in row))


# Which devices are there?
print("GPUs:", unidev.num_gpus())
print("try_gpu():", unidev.try_gpu())
print("try_gpu(10):", unidev.try_gpu(10))  # there are not that many: the CPU
print("try_all_gpus():", *unidev.try_all_gpus())

# A tensor lives on the CPU, unless it is told otherwise.
x = unidev.array([1, 2, 3])
print("x is on", unidev.device_of(x))

# On the first GPU; and random numbers, the same on every framework, on the second.
unidev.seed(1)
X = unidev.ones((2, 3), device=unidev.try_gpu())
Y = unidev.rand((2, 3), device=unidev.try_gpu(1))
show("X", X)
show("Y", Y)

# X and Y are on different devices, so nothing should compute with both of them.
try:
    unidev.check_same_device(X=X, Y=Y)
    print("X and Y are on the same device")
except unidev.DeviceMismatchError as error:
    print("X + Y is refused:", error)

# Copy X to where Y is. Then they can be added, and the sum is there too.
Z = unidev.copy_to(X, unidev.try_gpu(1))
show("Z", Z)
unidev.check_same_device(Y=Y, Z=Z)
with unidev.device_of(Y):
    show("Y + Z", Y + Z)

# Z is on that device already. copy_to still makes a new tensor, in memory of its own;
# as_in_device leaves Z where it is.
copied = unidev.copy_to(Z, unidev.try_gpu(1))
kept = unidev.as_in_device(Z, unidev.try_gpu(1))
print("copy_to(Z) shares memory with Z:", unidev.shares_memory(copied, Z))
print("as_in_device(Z) is Z:", kept is Z)
