"""The same loop on a GPU where there is one, by unidev."""

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
device = unidev.try_gpu()  # 1
net, optimizer = unidev.place(net, device, optimizer=optimizer)  # 2

for epoch in range(5):
    total = unidev.zeros((), device=device)
    for X, y in unidev.prefetch(batches, device):  # 3
        optimizer.zero_grad()
        loss = loss_of(net(X), y)
        loss.backward()
        optimizer.step()
        total += loss.detach()  # 4
    print(f"epoch {epoch}: loss {total.item() / len(batches):.4f}")

unidev.save_parameters(net, "net.safetensors")  # 5
