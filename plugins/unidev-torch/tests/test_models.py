"""``place`` on torch's modules: what stays, what shares memory, what comes along."""

from __future__ import annotations

import copy
import io
import warnings
import weakref

import pytest
import torch
from torch import nn

import unidev

X = torch.linspace(-1, 1, 24).reshape(6, 4)


def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 4))


def native(device: str) -> torch.device:
    found: torch.device = unidev.as_device(device).native
    return found


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> list[float]:
    x = X.to(next(model.parameters()).device)

    def loss_of() -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        return loss

    losses = []
    for _ in range(steps):
        losses.append(loss_of().item())
        optimizer.step(loss_of)
    return losses


OPTIMIZERS = {
    "sgd with momentum": lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9),
    "adam": lambda ps: torch.optim.Adam(ps, lr=0.01),
    "adam, one at a time": lambda ps: torch.optim.Adam(ps, lr=0.01, foreach=False),
    "adam with averages": lambda ps: torch.optim.Adam(ps, lr=0.01, amsgrad=True),
    "adamw, a tensor for its rate": lambda ps: torch.optim.AdamW(
        ps, lr=torch.tensor(0.01), foreach=False
    ),
    "adagrad": lambda ps: torch.optim.Adagrad(ps, lr=0.1),
    "rmsprop": lambda ps: torch.optim.RMSprop(ps, lr=0.01, centered=True, momentum=0.9),
    "lbfgs": lambda ps: torch.optim.LBFGS(ps, lr=0.1, max_iter=2),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_made_before_trains_after_each_move_as_one_never_moved(name: str) -> None:
    moved, unmoved = net(), net()
    optimizer = OPTIMIZERS[name](list(moved.parameters()))
    other = OPTIMIZERS[name](list(unmoved.parameters()))
    losses, expected = train(moved, optimizer, 2), train(unmoved, other, 2)
    for device in ("gpu:1", "gpu:0", "cpu", "gpu:2"):
        assert unidev.place(moved, device, optimizer=optimizer) == (moved, optimizer)
        losses += train(moved, optimizer, 2)
        expected += train(unmoved, other, 2)
        assert {x.device for x in moved.state_dict().values()} == {native(device)}
    assert losses == expected
    assert losses[-1] < losses[0]


def test_what_the_optimizer_counts_in_stays_where_torch_keeps_it() -> None:
    model = net()
    optimizer = torch.optim.Adam(model.parameters())
    train(model, optimizer, 1)
    unidev.place(model, "gpu:1", optimizer=optimizer)
    for state in optimizer.state.values():
        assert state["step"].device == torch.device("cpu")
        assert state["exp_avg"].device == state["exp_avg_sq"].device == native("gpu:1")


def test_an_optimizer_of_two_models_takes_along_the_state_of_one() -> None:
    one, two = net(), net()
    optimizer = torch.optim.SGD([*one.parameters(), *two.parameters()], lr=0.1, momentum=0.9)
    (one(X).sum() + two(X).sum()).backward()
    optimizer.step()
    unidev.place(one, "gpu:1", optimizer=optimizer)
    for model, device in ((one, native("gpu:1")), (two, torch.device("cpu"))):
        for x in model.parameters():
            assert optimizer.state[x]["momentum_buffer"].device == x.device == device


def test_an_optimizer_of_another_model_is_refused() -> None:
    model = net()
    with pytest.raises(unidev.UnsupportedOperation, match="trains none of its parameters"):
        unidev.place(model, "gpu:0", optimizer=torch.optim.SGD(net().parameters()))
    with pytest.raises(unidev.NotAModelError, match="optimizer of torch's is needed"):
        unidev.place(model, "gpu:0", optimizer=object())
    assert model[0].weight.device == torch.device("cpu")


def test_an_optimizer_is_no_model() -> None:
    optimizer = torch.optim.SGD(net().parameters())
    for call in (
        lambda: unidev.place(optimizer, "cpu"),
        lambda: unidev.parameters(optimizer),
        lambda: unidev.nn.eval_mode(optimizer),
    ):
        with pytest.raises(unidev.NotAModelError, match=r"optimizer=optimizer"):
            call()


def test_hooks_attributes_flags_and_references_stay() -> None:
    model = net().eval()
    weight = model[0].weight
    weight.name_of_mine = "first"
    model[0].bias.requires_grad_(False)
    seen: list[object] = []
    weight.register_hook(lambda gradient: seen.append(gradient.device))
    weight.register_post_accumulate_grad_hook(lambda x: seen.append(x is weight))
    model[0].register_forward_hook(lambda *_: seen.append("forward"))
    reference = weakref.ref(weight)
    unidev.place(model, "gpu:1")
    model(X.to(native("gpu:1"))).sum().backward()
    assert seen == ["forward", native("gpu:1"), True]
    assert reference() is weight is model[0].weight
    assert weight.name_of_mine == "first"
    assert weight.is_leaf
    assert (weight.requires_grad, model[0].bias.requires_grad) == (True, False)
    assert not any(module.training for module in model.modules())


def test_a_gradient_stays_the_object_it_is_and_accumulates() -> None:
    model = nn.Linear(4, 1)
    model(X).sum().backward()
    gradient = model.weight.grad
    assert gradient is not None
    once = gradient.clone()
    unidev.place(model, "gpu:1")
    assert model.weight.grad is gradient
    assert gradient.device == native("gpu:1")
    model(X.to(native("gpu:1"))).sum().backward()
    assert torch.equal(gradient.cpu(), 2 * once)


def test_a_loss_computed_before_the_move_is_no_obstacle_and_says_so_when_gone_back() -> None:
    model = net()
    loss = model(X).sum()
    unidev.place(model, "gpu:1")
    model(X.to(native("gpu:1"))).sum().backward()
    with pytest.raises(RuntimeError, match="on the same device"):
        loss.backward()


def test_views_of_one_storage_are_views_of_one_storage_after_it() -> None:
    flat = torch.arange(12.0)
    model = nn.Module()
    model.first = nn.Parameter(flat[2:6].view(2, 2))
    model.second = nn.Parameter(flat[6:10])
    model.register_buffer("overlap", flat[4:8])
    model.register_buffer("bits", flat[8:9].view(torch.int32))
    unidev.place(model, "gpu:1")
    assert model.second.untyped_storage().data_ptr() == model.first.untyped_storage().data_ptr()
    assert model.first.tolist() == [[2.0, 3.0], [4.0, 5.0]]
    assert model.second.tolist() == [6.0, 7.0, 8.0, 9.0]
    assert model.bits.view(torch.float32).tolist() == [8.0]
    with torch.no_grad():
        model.overlap.fill_(-1)
    assert model.first.tolist() == [[2.0, 3.0], [-1.0, -1.0]]
    assert model.second.tolist() == [-1.0, -1.0, 8.0, 9.0]
    assert model.first.untyped_storage().nbytes() <= 10 * 4


def test_parameters_that_are_two_objects_on_one_memory_stay_so() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight.data = model[0].weight.data
    unidev.place(model, "gpu:1")
    with torch.no_grad():
        model[0].weight.fill_(7)
    assert model[1].weight.unique().tolist() == [7.0]


def test_a_view_takes_only_its_own_bytes_along() -> None:
    model = nn.Module()
    model.register_buffer("corner", torch.zeros(1000, 1000)[:2, :2])
    before = torch.sim.memory_allocated(1)
    unidev.place(model, "gpu:1")
    assert torch.sim.memory_allocated(1) - before == 2 * 2 * 4


def test_an_expanded_buffer_stays_as_small_as_it_is() -> None:
    model = nn.Module()
    model.register_buffer("mask", torch.ones(1, 4).expand(1000, 4))
    before = torch.sim.memory_allocated(1)
    unidev.place(model, "gpu:1")
    assert torch.sim.memory_allocated(1) - before == 4 * 4
    assert model.mask.sum().item() == 4000


def test_conjugated_and_channels_last_weights_keep_values_and_strides() -> None:
    model = nn.Module()
    values = torch.randn(4, dtype=torch.cfloat)
    model.register_buffer("conjugate", values.conj())
    model.register_buffer("plain", values)
    model.conv = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
    strides = model.conv.weight.stride()
    unidev.place(model, "gpu:1")
    assert torch.equal(model.conjugate.cpu().resolve_conj(), values.cpu().conj().resolve_conj())
    assert model.conv.weight.stride() == strides


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
def test_a_recurrent_net_computes_where_it_is(kind: type[nn.RNNBase]) -> None:
    torch.manual_seed(0)
    model = kind(4, 3, num_layers=2)
    expected = model(X[:, None])[0]
    unidev.place(model, "gpu:1")
    assert [a is b for a, b in zip(model._flat_weights, model.parameters(), strict=True)]
    found = model(X[:, None].to(native("gpu:1")))[0]
    torch.testing.assert_close(found.cpu(), expected)


def test_parametrized_weights_move_with_what_they_are_made_of() -> None:
    model = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))
    nn.utils.parametrizations.orthogonal(inner := nn.Linear(4, 4))
    both = nn.Sequential(model, inner)
    expected = both(X)
    unidev.place(both, "gpu:1")
    torch.testing.assert_close(both(X.to(native("gpu:1"))).cpu(), expected)


def test_a_compiled_module_computes_where_it_is() -> None:
    model = net().eval()
    compiled = torch.compile(model, backend="eager")
    expected = compiled(X)
    assert unidev.place(compiled, "gpu:1") is compiled
    assert model[0].weight.device == native("gpu:1")
    assert torch.equal(compiled(X.to(native("gpu:1"))).cpu(), expected)


def test_deepcopy_and_torchs_own_checkpoints_work_after_a_move() -> None:
    model = net().eval()
    unidev.place(model, "gpu:1")
    x = X.to(native("gpu:1"))
    copied = copy.deepcopy(model)
    assert torch.equal(copied(x), model(x))
    assert not unidev.shares_memory(copied[0].weight, model[0].weight)
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    fresh = net().eval()
    fresh.load_state_dict(torch.load(file, map_location="cpu"))
    assert torch.equal(fresh(X), model(x).cpu())
    file.seek(0)
    model.load_state_dict(torch.load(file))


def test_a_module_moves_with_torch_before_and_after() -> None:
    model = net()
    weight = model[0].weight
    model.to(native("gpu:0"))
    unidev.place(model, "gpu:1")
    assert weight.device == native("gpu:1")
    model.to("cpu")
    assert weight is model[0].weight
    assert weight.device == torch.device("cpu")


def test_a_half_of_the_model_that_is_there_is_not_touched() -> None:
    model = net()
    unidev.place(model[0], "gpu:1")
    address = model[0].weight.data_ptr()
    unidev.place(model, "gpu:1")
    assert model[0].weight.data_ptr() == address
    assert model[3].weight.device == native("gpu:1")


def test_lazy_modules_are_placed_when_they_are_built() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = nn.Sequential(nn.LazyLinear(3), nn.LazyBatchNorm1d())
    unidev.place(model, "gpu:1")
    with pytest.raises(unidev.UnsupportedOperation, match=r"'0\.weight' has no shape yet"):
        unidev.parameters(model)
    assert model(X.to(native("gpu:1"))).device == native("gpu:1")
    assert {x.device for x in model.state_dict().values()} == {native("gpu:1")}
    assert unidev.place(model, "cpu")(X).device == torch.device("cpu")


def test_inside_inference_mode_a_model_stays_one_that_can_be_trained() -> None:
    model = net()
    with torch.inference_mode():
        unidev.place(model, "gpu:1")
    assert not model[0].weight.is_inference()
    model(X.to(native("gpu:1"))).sum().backward()


def test_a_model_of_inference_tensors_moves() -> None:
    with torch.inference_mode():
        model = net()
    unidev.place(model, "gpu:1")
    assert model[0].weight.is_inference()
    with torch.inference_mode():
        assert model.eval()(X.to(native("gpu:1"))).device == native("gpu:1")


def test_a_scope_of_a_device_changes_nothing_about_where_a_model_goes() -> None:
    model = net()
    with unidev.gpu(2), torch.device("cpu"):
        unidev.place(model, "gpu:1")
    assert {x.device for x in model.state_dict().values()} == {native("gpu:1")}


def test_parameters_of_a_subclass_stay_of_it_whatever_it_makes_of_calls() -> None:
    class Doubled(nn.Parameter):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            found = super().__torch_function__(function, types, args, kwargs or {})
            return found * 2 if function in (torch.Tensor.to, torch.Tensor.detach) else found

    model = nn.Module()
    model.weight = weight = Doubled(torch.ones(3))
    unidev.place(model, "gpu:1")
    assert type(weight) is Doubled
    assert model.weight is weight
    with torch._C.DisableTorchFunctionSubclass():
        assert weight.device == native("gpu:1")
        assert torch.equal(weight.detach().cpu(), torch.ones(3))
