"""Use a GPU: where tensors are, and how to move them between devices.

The section "GPUs" of the textbook Dive into Deep Learning as one program for every framework:

    UNIDEV_BACKEND=torch UNIDEV_SIMULATE=2 python examples/use_gpu.py

The backend is numpy, torch, tensorflow, paddle, mxnet or jax, and the output is the same. Without
UNIDEV_SIMULATE it uses the machine's GPUs. It also runs with one GPU or none: ``try_gpu`` falls
back to the CPU.
"""

import unidev


def show(name, x):
    """Print a matrix and its device."""
    print(f"{name} is on {unidev.device_of(x)}:")
    for row in unidev.to_numpy(x).tolist():
        print("   ", *(f"{value:.4f}" for value in row))


# Which devices are there?
print("GPUs:", unidev.num_gpus())
print("try_gpu():", unidev.try_gpu())
print("try_gpu(10):", unidev.try_gpu(10))  # there are fewer GPUs, so this is the CPU
print("try_all_gpus():", *unidev.try_all_gpus())

# A tensor is on the CPU unless a device is given.
x = unidev.array([1, 2, 3])
print("x is on", unidev.device_of(x))

# Ones on the first GPU, and random numbers, the same on every framework, on the second.
unidev.seed(1)
X = unidev.ones((2, 3), device=unidev.try_gpu())
Y = unidev.rand((2, 3), device=unidev.try_gpu(1))
show("X", X)
show("Y", Y)

# X and Y are on different devices. PyTorch and NumPy raise an error for X + Y there; TensorFlow,
# Paddle and MXNet move one of them unseen. check_same_device is the same error on all.
try:
    unidev.check_same_device(X=X, Y=Y)
    print("X and Y are on the same device")
except unidev.DeviceMismatchError as error:
    print("check_same_device(X, Y):", error)

# Copy X to the device of Y. Then they can be added, and the sum is on that device too.
Z = unidev.copy_to(X, unidev.try_gpu(1))
show("Z", Z)
unidev.check_same_device(Y=Y, Z=Z)
with unidev.device_of(Y):
    show("Y + Z", Y + Z)

# Z is already on that device. copy_to still makes a new tensor with its own memory; as_in_device
# returns Z itself.
copied = unidev.copy_to(Z, unidev.try_gpu(1))
kept = unidev.as_in_device(Z, unidev.try_gpu(1))
print("copy_to(Z) shares memory with Z:", unidev.shares_memory(copied, Z))
print("as_in_device(Z) is Z:", kept is Z)
