"""The same loop on a GPU where there is one, by unidev."""

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
device = unidev.try_gpu()  # 1
net, optimizer = unidev.place(net, device, optimizer=optimizer)  # 2

for epoch in range(5):
    total = unidev.zeros((), device=device)
    for X, y in unidev.prefetch(batches, device):  # 3
        loss = loss_of(net(X), y)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        total += loss.detach()  # 4
    print(f"epoch {epoch}: loss {total.item() / len(batches):.4f}")

unidev.save_parameters(net, "net.safetensors")  # 5
