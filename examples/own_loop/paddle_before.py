"""A training loop of PaddlePaddle's, on the CPU."""

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

for epoch in range(5):
    total = 0.0
    for X, y in batches:
        loss = loss_of(net(X), y)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        total += loss.item()
    print(f"epoch {epoch}: loss {total / len(batches):.4f}")

paddle.save(net.state_dict(), "net.pdparams")
