"""The same loop on all GPUs, by unidev."""

import unidev

unidev.set_backend("mxnet")  # before MXNet: it keeps names of NumPy that MXNet needs
import mxnet as mx
import numpy as np
from mxnet import gluon
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
parallel = unidev.DataParallel(net, unidev.try_all_gpus())
device = unidev.device_of(net)  # the first of them
step = unidev.value_and_grad(lambda net, X, y: loss_of(net(X), y).mean())

for epoch in range(5):
    total = unidev.zeros((), device=device)
    for X, y in unidev.prefetch(batches, device):
        loss, gradients = step(parallel, X, y)
        for name, parameter in unidev.parameters(net).items():
            parameter.grad[:] = gradients[name]
            parameter._fresh_grad = True  # a Trainer steps only by gradients that are marked so
        trainer.step(1)
        total += loss
    print(f"epoch {epoch}: loss {total.item() / len(batches):.4f}")

unidev.save_parameters(net, "net.safetensors")
