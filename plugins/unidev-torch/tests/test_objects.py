"""Objects in batches of torch's tensors."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
import torch

import unidev


class Csr:
    """As scipy's ``csr_matrix``: NumPy arrays, as those of a pandas ``Series`` or of pint."""

    def __init__(self) -> None:
        self.data, self.indices, self._shape = np.ones(2), np.arange(2), (2, 2)


def test_numpy_arrays_in_an_object_are_data() -> None:
    csr = Csr()
    batch = {"x": torch.ones(2), "csr": csr}
    assert unidev.copy_to(batch, "gpu:1")["csr"] is csr
    assert unidev.device_of(batch) is unidev.cpu()
    csr.data = torch.ones(2)  # type: ignore[assignment]
    with pytest.raises(unidev.UnsupportedContainerError, match=r"\['csr'\]\.data"):
        unidev.copy_to(batch, "gpu:1")


def test_plain_objects_of_torch_take_the_quick_look(monkeypatch: pytest.MonkeyPatch) -> None:
    from unidev.tensors import containers

    plain = [
        torch.float32,
        torch.device("cpu"),
        torch.strided,
        torch.Generator(),
        torch,
        torch.Tensor,
    ]
    batch = [torch.ones(1), pathlib.Path("a"), *plain, np.float32(1), np.dtype("f4"), unidev.cpu()]
    assert unidev.as_in_device(batch, unidev.cpu()) is batch
    monkeypatch.delattr(containers, "_flatten")
    assert unidev.as_in_device(batch, unidev.cpu()) is batch
