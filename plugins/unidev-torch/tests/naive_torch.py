"""What PyTorch's own calls make of "copy"."""

from mutants.naive import NaiveBackend

import unidev_torch


def _as_tensor(x, device):
    import torch

    return torch.as_tensor(x, device=device.native)


to = NaiveBackend("to", unidev_torch, lambda x, device: x.to(device.native))
as_tensor = NaiveBackend("as_tensor", unidev_torch, _as_tensor)
detach = NaiveBackend("detach", unidev_torch, lambda x, device: x.detach())
detach_clone = NaiveBackend("detach_clone", unidev_torch, lambda x, device: x.detach().clone())
clone = NaiveBackend("clone", unidev_torch, lambda x, device: x.clone())
