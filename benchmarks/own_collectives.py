"""The loop that a user would write instead of ``all_reduce``: each tensor there, added, and back.

``trees`` has a list of tensors for each device.
"""

from __future__ import annotations

OWN_LOOPS = {
    "numpy": """
first, *others = [unidev.device_of(tree[0]) for tree in trees]

def own_all_reduce():
    made = []
    for x, *ys in zip(*trees):
        total = x + 0 if not ys else x
        for y in ys:
            total = total + unidev.copy_to(y, first)
        made.append([total, *(unidev.copy_to(total, device) for device in others)])
    return made
""",
    "torch": """
import torch

def own_all_reduce():
    made = []
    for x, *ys in zip(*trees):
        total = x.clone() if not ys else x
        for y in ys:
            total = total + y.to(x.device, copy=True)
        made.append([total, *(total.to(y.device, copy=True) for y in ys)])
    torch.accelerator.synchronize()
    return made
""",
    "tensorflow": """
import tensorflow as tf

def copied(x, device):
    with tf.device(device):
        return tf.raw_ops.DeepCopy(x=x)

def own_all_reduce():
    made = []
    for x, *ys in zip(*trees):
        total = copied(x, x.device) if not ys else x
        with tf.device(x.device):
            for y in ys:
                total = total + copied(y, x.device)
        made.append([total, *(copied(total, y.device) for y in ys)])
    return made
""",
    "paddle": """
def own_all_reduce():
    made = []
    for x, *ys in zip(*trees):
        total = x.clone() if not ys else x
        for y in ys:
            total = total + y._copy_to(x.place, True)
        made.append([total, *(total._copy_to(y.place, True) for y in ys)])
    return made
""",
    "mxnet": """
import mxnet

def own_all_reduce():
    made = []
    for x, *ys in zip(*trees):
        total = x.copy() if not ys else x
        for y in ys:
            total = total + y.copyto(x.ctx)
        made.append([total, *(total.copyto(y.ctx) for y in ys)])
    mxnet.nd.waitall()
    return made
""",
}
"""Defines ``own_all_reduce()``, by backend."""
