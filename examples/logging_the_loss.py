"""Logging the loss: a transfer on every step, found, forbidden and fixed.

    UNIDEV_BACKEND=torch UNIDEV_SIMULATE=2 python examples/logging_the_loss.py

The backend is numpy, torch, tensorflow, paddle, mxnet or jax, and the output is the same.
``--table`` also prints the complete traces, with the names of the framework's own calls, and the
seconds. Without a GPU nothing moves, and the program reports that.
"""

import sys

import unidev
from unidev.nn import functional

STEPS = 100

unidev.seed(1)
device = unidev.try_gpu()
weight = unidev.randn((4, 2), device=device)
batches = [unidev.rand((16, 4), device=device) for _ in range(STEPS)]
targets = unidev.zeros((16, 2), device=device)


def loss_of(batch):
    with device:  # puts TensorFlow's results there; on other frameworks they follow their operands
        return functional.mean_squared_error(batch @ weight, targets)


def log_each():
    """The usual way: each loss is read at once, and the GPU waits for the read."""
    total = 0.0
    for batch in batches:
        total += float(loss_of(batch))
    return total / STEPS


def sum_on_the_device():
    """The squares are summed on the device, and nothing is read meanwhile."""
    total = unidev.zeros((16, 2), device=device)
    for batch in batches:
        with device:
            wrong = batch @ weight - targets
            total = total + wrong * wrong
    return total


# 1. Found: which line moves what, how often, and how to avoid it.
with unidev.trace_transfers() as trace:
    mean = log_each()
print(f"the mean loss is {mean:.3f}")
print(f"logged on each step: {len(trace.transfers)} transfers, {trace.total_bytes} bytes")
for total in trace.by_line():
    print(f"    {total.count} by the line `{total.line.source}`")
    print("    advice:", total.advice.rpartition(": ")[2])

# 2. Forbidden: the same loop stops at the first transfer.
try:
    with unidev.transfer_guard("forbid"):
        log_each()
    print("nothing to forbid: everything is on", device)
except unidev.TransferForbiddenError as error:
    transfer = error.transfer
    print(f"forbidden: {transfer.nbytes} bytes from {transfer.source} to {transfer.target}")
    print(f"    at the line `{error.line.source}`")

# 3. Fixed: the guard finds nothing to stop, and the sum is read once, at the end.
with unidev.trace_transfers() as fixed:
    with unidev.transfer_guard("forbid"):
        total = sum_on_the_device()
    mean = unidev.to_numpy(total).mean() / STEPS
print(f"the mean loss is {mean:.3f}")
print(f"read once at the end, transfers: {len(fixed.transfers)}, {fixed.total_bytes} bytes")

if "--table" in sys.argv[1:]:
    print(f"\n{trace}\n\n{fixed}")
