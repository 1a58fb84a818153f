"""``place`` on torch's modules: what stays, what shares memory, what comes along."""

from __future__ import annotations

import io
import warnings

import numpy as np
import pytest
import torch
from parallel_modules import X, native, net
from torch import nn

import unidev
from unidev_torch.models import swap


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


def test_a_gradient_that_an_old_loss_leaves_behind_is_brought_along_next_time() -> None:
    model = nn.Module()
    model.weight = nn.Parameter(torch.ones(3))
    loss = (model.weight * 2).sum()  # needs nothing that has moved to go back
    unidev.place(model, "gpu:1")
    loss.backward()
    assert model.weight.grad.device == torch.device("cpu")
    unidev.place(model, "gpu:1")
    assert model.weight.grad.device == native("gpu:1")
    assert model.weight.grad.tolist() == [2.0, 2.0, 2.0]


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


def test_torchs_own_checkpoints_work_after_a_move() -> None:
    model = net().eval()
    unidev.place(model, "gpu:1")
    x = X.to(native("gpu:1"))
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    fresh = net().eval()
    fresh.load_state_dict(torch.load(file, map_location="cpu"))
    assert torch.equal(fresh(X), model(x).cpu())
    file.seek(0)
    model.load_state_dict(torch.load(file))


def test_replicas_of_a_model_that_keeps_results_have_results_of_their_own() -> None:
    model = unidev.place(nn.utils.spectral_norm(nn.Linear(4, 3)), "gpu:0")
    model.kept = [{"y": model(X.to(native("gpu:0")))}]
    (copied,) = unidev.replicate(model, ["gpu:1"])
    y, old = copied.kept[0]["y"], model.kept[0]["y"]
    assert torch.equal(y, old)
    assert not unidev.shares_memory(y, old)
    x = X.to(native("gpu:0"))
    assert torch.equal(copied.eval()(x.to(native("gpu:1"))).cpu(), model.eval()(x).cpu())


def test_a_module_moves_with_torch_before_and_after() -> None:
    model = net()
    weight = model[0].weight
    model.to(native("gpu:0"))
    unidev.place(model, "gpu:1")
    assert weight.device == native("gpu:1")
    model.to("cpu")
    assert weight is model[0].weight
    assert weight.device == torch.device("cpu")


def test_parameters_have_torchs_names_in_torchs_order_and_stand_once() -> None:
    model = nn.ModuleDict({"b": net(), "a": net(), "none": nn.Linear(2, 2, bias=False)})
    model["again"] = model["a"]
    model["none"].inner = net()
    model["none"].inner[0].weight = model["b"][0].weight
    model["none"].register_module("nothing", None)
    model.register_parameter("own", nn.Parameter(torch.ones(1)))
    expected = dict(model.named_parameters())
    found = unidev.parameters(model)
    assert list(found) == list(expected)
    assert all(found[name] is expected[name] for name in expected)


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


def test_a_model_of_both_kinds_keeps_each_of_its_tensors_of_its_kind() -> None:
    model = nn.Sequential(*(nn.Linear(2, 2) for _ in range(10)))
    for layer in model[::2]:
        with torch.inference_mode():
            layer.register_buffer("scale", torch.ones(2))
    kinds = [x.is_inference() for x in model.state_dict(keep_vars=True).values()]
    assert True in kinds
    assert False in kinds
    for mode in (False, True):
        with torch.inference_mode(mode):
            unidev.place(model, "gpu:1")
        after = model.state_dict(keep_vars=True).values()
        assert {str(x.device) for x in after} == {"sim:1"}
        assert [x.is_inference() for x in after] == kinds
        unidev.place(model, "cpu")


def test_tensors_are_moved_a_few_at_a_time_and_by_device(monkeypatch) -> None:
    monkeypatch.setattr(swap, "_TOGETHER", 8)
    model = nn.Sequential(*(nn.Linear(2, 2) for _ in range(12)))
    model[3:9].to("sim:0")
    model[11].weight = model[0].weight
    parts = unidev.active_backend().models.parts(model, None)
    members = [id(x) for part in parts for x in part.tensors]
    assert sorted(members) == sorted(map(id, model.parameters()))
    for part in parts:
        assert len({x.device for x in part.tensors}) == 1
    assert 3 < len(parts) < 23
    untouched = [x.data_ptr() for x in model[3:9].parameters()]
    unidev.place(model, "gpu:0")
    assert {str(x.device) for x in model.parameters()} == {"sim:0"}
    assert [x.data_ptr() for x in model[3:9].parameters()] == untouched
    assert len({x.data_ptr() for x in model.parameters()}) == 23


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


def test_weights_that_are_loaded_meanwhile_are_noticed_by_a_backward_pass() -> None:
    weight = torch.full((3,), 2.0, requires_grad=True)
    loss = weight.square().sum()
    unidev.active_backend().models.write(weight, np.full(3, 5, "float32"))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    assert weight.tolist() == [5, 5, 5]
