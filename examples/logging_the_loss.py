"""Logging the loss: a transfer on every step, found, forbidden and mended.

    UNIDEV_BACKEND=torch UNIDEV_SIMULATE=2 python examples/logging_the_loss.py

The backend is numpy, torch, tensorflow, paddle or mxnet, and the output is the same. With
``--table`` it prints the whole traces, too: the framework's own calls by their own names, and the
seconds. Where there is no GPU nothing moves, and it says so.
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
    with device:  # on TensorFlow results land here; the others follow their operands
        return functional.mean_squared_error(batch @ weight, targets)


def log_each():
    """As one writes it: each loss is read when it is there, and the GPU waits until it is."""
    total = 0.0
    for batch in batches:
        total += float(loss_of(batch))
    return total / STEPS


def sum_there():
    """The squares are summed on the device, which is asked for nothing meanwhile."""
    total = unidev.zeros((16, 2), device=device)
    for batch in batches:
        with device:
            wrong = batch @ weight - targets
            total = total + wrong * wrong
    return total


# 1. Found: which line moves what, how often, and what to do about it.
with unidev.trace_transfers() as trace:
    mean = log_each()
print(f"the mean loss is {mean:.3f}")
print(f"logged one at a time: {len(trace.transfers)} transfers, {trace.total_bytes} bytes")
for total in trace.by_line():
    print(f"    {total.count} by the line `{total.line.source}`")
    print("    advice:", total.advice.rpartition(": ")[2])

# 2. Forbidden: the same loop stops at the first one.
try:
    with unidev.transfer_guard("forbid"):
        log_each()
    print("nothing to forbid: all is on", device)
except unidev.TransferForbiddenError as error:
    transfer = error.transfer
    print(f"forbidden: {transfer.nbytes} bytes from {transfer.source} to {transfer.target}")
    print(f"    at the line `{error.line.source}`")

# 3. Mended: the guard lets it pass, and the sum is read once, at the end.
with unidev.trace_transfers() as mended:
    with unidev.transfer_guard("forbid"):
        total = sum_there()
    mean = unidev.to_numpy(total).mean() / STEPS
print(f"the mean loss is {mean:.3f}")
print(f"read once: {len(mended.transfers)} of them, {mended.total_bytes} bytes")

if "--table" in sys.argv[1:]:
    print(f"\n{trace}\n\n{mended}")
