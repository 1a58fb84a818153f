"""What torch has for accelerators works on simulated ones: checkpoints, generators, streams, …"""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch
from torch import nn

SIM = torch.device("sim:1")


def test_a_checkpoint_comes_back_to_its_device_and_keeps_what_is_shared() -> None:
    x = torch.randn(3, device=SIM)
    file = io.BytesIO()
    torch.save({"x": x, "view": x[1:]}, file)
    file.seek(0)
    found = torch.load(file)
    assert found["x"].device == SIM
    assert torch.equal(found["x"], x)
    assert found["view"].untyped_storage().data_ptr() == found["x"].untyped_storage().data_ptr()


def test_a_tensor_survives_pickle_and_deepcopy() -> None:
    x = torch.ones(2, device=SIM)
    for copied in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert copied.device == SIM
        assert copied.data_ptr() != x.data_ptr()


def test_one_seed_gives_every_device_the_cpus_numbers() -> None:
    torch.manual_seed(1)
    expected = torch.rand(3)
    for device in ("sim:0", "sim:1"):
        torch.manual_seed(1)
        torch.rand(100)  # drawing on the CPU leaves the other generators alone
        assert torch.equal(torch.rand(3, device=device).cpu(), expected)


def test_dropout_draws_from_its_own_device() -> None:
    ones = torch.ones(64, device=SIM)
    torch.manual_seed(1)
    expected = nn.functional.dropout(ones)
    torch.manual_seed(1)
    torch.rand(100)
    assert torch.equal(nn.functional.dropout(ones), expected)
    assert set(expected.tolist()) == {0.0, 2.0}


@pytest.mark.parametrize("seed", [0, -1, 2**63 + 5, 2**64 - 1])
def test_every_seed_that_torch_takes_is_taken(seed: int) -> None:
    torch.manual_seed(seed)
    assert torch.sim.initial_seed() == seed % 2**64 == torch.initial_seed()


def test_a_generator_of_a_device_repeats_itself() -> None:
    generator = torch.Generator(device=SIM)
    assert generator.device == SIM
    generator.manual_seed(3)
    state = generator.get_state()
    first = torch.randn(4, device=SIM, generator=generator)
    second = torch.randn(4, device=SIM, generator=generator)
    generator.set_state(state)
    assert torch.equal(torch.randn(4, device=SIM, generator=generator), first)
    assert not torch.equal(first, second)


def test_a_loaders_worker_sends_tensors_of_a_device() -> None:
    loader = torch.utils.data.DataLoader(
        torch.arange(2.0),
        collate_fn=lambda rows: torch.stack(rows).to(SIM),
        num_workers=1,
        multiprocessing_context="fork",
        timeout=60,
    )
    assert [(batch.device, batch.tolist()) for batch in loader] == [(SIM, [0]), (SIM, [1])]


def test_fork_rng_restores_the_device() -> None:
    with torch.random.fork_rng(devices=[1], device_type="sim"):
        inside = torch.rand(2, device=SIM)
    assert torch.equal(torch.rand(2, device=SIM), inside)


def test_torch_accelerator_sees_the_devices() -> None:
    assert torch.accelerator.current_accelerator() == torch.device("sim")
    assert torch.accelerator.device_count() == 4
    assert torch.accelerator.is_available()
    torch.accelerator.synchronize(SIM)
    with torch.accelerator.device_index(2):
        assert torch.empty(1, device="sim").device == torch.device("sim:2")
    assert torch.accelerator.current_device_index() == 0
    with pytest.raises(RuntimeError, match="does not exist"):
        torch.accelerator.set_device_index(4)


def test_tensors_have_the_methods_of_a_device_type() -> None:
    x = torch.ones(2).sim(2)
    assert x.is_sim
    assert x.device == torch.device("sim:2")
    assert str(x) == "tensor([1., 1.], device='sim:2')"


def test_data_is_not_exchanged_with_what_is_not_dense() -> None:
    x = torch.ones(3, device=SIM)
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        x.data = torch.eye(3).to_sparse()
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        x.data = torch.ones(3, device="meta")
    assert x.device == SIM
