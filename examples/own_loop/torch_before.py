"""A training loop of PyTorch's, on the CPU."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

values = np.random.default_rng(1).random((256, 8), np.float32)
labels = (values.sum(axis=1) > 4).astype(np.int64)
data = TensorDataset(torch.from_numpy(values), torch.from_numpy(labels))
batches = DataLoader(data, batch_size=32)

torch.manual_seed(1)
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
loss_of = nn.CrossEntropyLoss()

for epoch in range(5):
    total = 0.0
    for X, y in batches:
        optimizer.zero_grad()
        loss = loss_of(net(X), y)
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(f"epoch {epoch}: loss {total / len(batches):.4f}")

torch.save(net.state_dict(), "net.pt")
