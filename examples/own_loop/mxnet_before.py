"""A training loop of MXNet's and Gluon's, on the CPU."""

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon
from mxnet.gluon import nn
from mxnet.gluon.data import ArrayDataset, DataLoader

mx.npx.set_np()
values = np.random.default_rng(1).random((256, 8), np.float32)
labels = (values.sum(axis=1) > 4).astype(np.int64)
batches = DataLoader(ArrayDataset(values, labels), batch_size=32)

mx.random.seed(1)
net = nn.HybridSequential()
net.add(nn.Dense(16, "relu", in_units=8), nn.Dense(2, in_units=16))
net.initialize()
trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})
loss_of = gluon.loss.SoftmaxCrossEntropyLoss()

for epoch in range(5):
    total = 0.0
    for X, y in batches:
        with autograd.record():
            loss = loss_of(net(X), y).mean()
        loss.backward()
        trainer.step(1)
        total += loss.item()
    print(f"epoch {epoch}: loss {total / len(batches):.4f}")

net.save_parameters("net.params")
