"""The same loop on all GPUs, by unidev."""

import unidev

unidev.set_backend("paddle")  # before Paddle, so that GPUs can be simulated
import numpy as np
import paddle
from paddle import nn
from paddle.io import DataLoader, TensorDataset

values = np.random.default_rng(1).random((256, 8), np.float32)
labels = (values.sum(axis=1) > 4).astype(np.int64)
batches = DataLoader(TensorDataset([values, labels]), batch_size=32)

paddle.seed(1)
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = paddle.optimizer.Adam(0.01, parameters=net.parameters())
loss_of = nn.CrossEntropyLoss()
parallel = unidev.DataParallel(net, unidev.try_all_gpus())
device = unidev.device_of(net)  # the first of them
step = unidev.value_and_grad(lambda net, X, y: loss_of(net(X), y))

for epoch in range(5):
    total = unidev.zeros((), device=device)
    for X, y in unidev.prefetch(batches, device):
        loss, gradients = step(parallel, X, y)
        for name, parameter in unidev.parameters(net).items():
            parameter.grad = gradients[name]
        optimizer.step()
        total += loss
    print(f"epoch {epoch}: loss {total.item() / len(batches):.4f}")

unidev.save_parameters(net, "net.safetensors")
