"""The same loop on all GPUs, by unidev."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import unidev

values = np.random.default_rng(1).random((256, 8), np.float32)
labels = (values.sum(axis=1) > 4).astype(np.int64)
data = TensorDataset(torch.from_numpy(values), torch.from_numpy(labels))
batches = DataLoader(data, batch_size=32)

torch.manual_seed(1)
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
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
