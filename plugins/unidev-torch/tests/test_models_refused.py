"""Modules that cannot be placed, failures half way, and modules that keep more than tensors."""

from __future__ import annotations

import copy
import linecache
import signal
import sys
import warnings
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch.export.passes import move_to_device_pass
from torch.fx.experimental.proxy_tensor import make_fx

import unidev
from unidev_torch.models import TorchModels

if TYPE_CHECKING:
    from collections.abc import Callable

CPU = torch.device("cpu")
GPU = torch.device("sim:1")


def frozen_script() -> nn.Module:
    with warnings.catch_warnings():  # torch deprecates all of TorchScript
        warnings.simplefilter("ignore", DeprecationWarning)
        script: nn.Module = torch.jit.freeze(torch.jit.script(nn.Linear(2, 2).eval()))
        return script


def quantized() -> nn.Module:
    with warnings.catch_warnings():  # and all of quantization
        warnings.simplefilter("ignore")
        found: nn.Module = torch.ao.quantization.quantize_dynamic(
            nn.Sequential(nn.Linear(2, 2)), {nn.Linear}
        )
        return found


def with_history() -> nn.Module:
    model = nn.Linear(2, 2)
    model.register_buffer("doubled", model.weight * 2)
    return model


def with_sparse() -> nn.Module:
    model = nn.Linear(2, 2)
    model.register_buffer("adjacency", torch.eye(2).to_sparse())
    return model


class Wrapper(torch.Tensor):
    inner: torch.Tensor

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Wrapper:
        made: Wrapper = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        if function is torch.ops.aten.detach.default:
            return Wrapper(args[0].inner.detach())
        raise NotImplementedError(str(function))


def with_wrapper() -> nn.Module:
    model = nn.Linear(2, 2)
    model.register_buffer("wrapped", Wrapper(torch.ones(2)))  # which no compiler could trace
    with pytest.raises(unidev.UnsupportedOperation, match=r"'wrapped'.*a Wrapper, which wraps"):
        unidev.save_parameters(model, "unused")
    return model


class FullyShardedDataParallel(nn.Module):
    """Called as torch's own, which cannot be made in one process alone."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 2)


REFUSED: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "meta": (lambda: nn.Linear(2, 2, device="meta"), r"'1.weight'.*load_parameters\(model, file"),
    "a frozen script": (frozen_script, r"torch\.jit\.load\(file, map_location"),
    "quantized": (quantized, "then quantize it"),
    "a buffer with a history": (with_history, r"'1.doubled'.*x\.detach\(\)"),
    "sparse": (with_sparse, "'1.adjacency'.*sparse_coo tensor: .*dense tensors only"),
    "a tensor that wraps others": (with_wrapper, "'1.wrapped'.*a Wrapper"),
    "sharded": (FullyShardedDataParallel, "before sharding it"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_moved_is_refused_and_left_as_it_was(name: str) -> None:
    make, says = REFUSED[name]
    model = nn.Sequential(nn.Linear(2, 2), make())
    for target in ("gpu:1", "gpu:1"):
        with pytest.raises(unidev.UnsupportedOperation, match=says):
            unidev.place(model, target)
        assert model[0].weight.device == CPU


class Rotary(nn.Module):
    """Keeps what a file has not, and computes it anew when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(4, 3), nn.Linear(3, 4, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("frequencies", torch.arange(3.0), persistent=False)
        self.register_buffer("offsets", torch.zeros(2), persistent=False)

    def reset_parameters(self) -> None:
        self.frequencies.copy_(torch.arange(3.0))
        self.offsets = torch.zeros_like(self.offsets)


def test_a_model_without_memory_gets_it_with_the_values_of_a_file(tmp_path, monkeypatch) -> None:
    saved, file = Rotary(), tmp_path / "model.safetensors"
    unidev.save_parameters(saved, file)
    with torch.device("meta"):
        model = Rotary()
    weight, optimizer = model.embedding.weight, torch.optim.SGD(model.parameters(), lr=0.5)
    with monkeypatch.context() as patch:
        patch.setattr(TorchModels, "write", lambda *_: int("?"))
        with pytest.raises(unidev.FrameworkError, match="invalid literal"):
            unidev.load_parameters(model, file, device="gpu:1")
    assert all(x.is_meta for x in (*model.parameters(), *model.buffers()))
    assert unidev.load_parameters(model, file, device="gpu:1") is model
    assert model.embedding.weight is model.head.weight is weight
    assert {x.device for x in (*model.parameters(), *model.buffers())} == {GPU}
    assert torch.equal(weight.cpu(), saved.embedding.weight)
    assert (model.frequencies.tolist(), model.offsets.tolist()) == ([0, 1, 2], [0, 0])
    weight.sum().backward()
    optimizer.step()
    assert torch.equal(weight.cpu(), saved.embedding.weight - 0.5)


def test_a_model_without_memory_is_refused_if_no_file_has_all_of_it(tmp_path, monkeypatch) -> None:
    file = tmp_path / "model.safetensors"
    unidev.save_parameters(Rotary(), file)
    with torch.device("meta"):
        model, other = Rotary(), Rotary()
    other.embedding = nn.Embedding(4, 3)
    hooked = Rotary().to("meta")
    hooked._hf_hook = SimpleNamespace(offload=True)
    monkeypatch.setattr(Rotary, "reset_parameters", lambda _: None)
    for each, says in (
        (model, "'frequencies'.*build the model on the CPU"),
        (other, "'head.weight' is on 'meta', and 'embedding.weight' is not"),
        (hooked, r"remove_hook_from_submodules\(model\)"),
    ):
        with pytest.raises(unidev.UnsupportedOperation, match=says):
            unidev.load_parameters(each, file)
    assert all(x.is_meta for x in model.parameters())


def test_a_module_in_distributed_training_is_refused(python) -> None:
    done = python(
        "import tempfile, torch, unidev\n"
        "with tempfile.NamedTemporaryFile() as file:\n"
        "    torch.distributed.init_process_group(\n"
        "        'gloo', init_method=f'file://{file.name}', rank=0, world_size=1)\n"
        "    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))\n"
        "    try:\n"
        "        unidev.place(model, 'gpu:1')\n"
        "    except unidev.UnsupportedOperation as error:\n"
        "        print(error)\n"
        "    torch.distributed.destroy_process_group()\n",
        UNIDEV_SIMULATE="2",
    )
    assert "place the module first" in done.stdout, done.stderr


def test_a_script_moves() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        script = torch.jit.script(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).eval())
    x = torch.ones(3, 2)
    expected = script(x)
    for _ in range(2):
        unidev.place(script, "gpu:1")
    assert {x.device for x in script.state_dict().values()} == {GPU}
    assert torch.equal(script(x.to(GPU)).cpu(), expected)


def test_ctrl_c_at_any_line_leaves_the_model_whole_on_one_device() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Linear(2, 2))
    model[2].weight.data = model[0].weight.data
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(torch.randn(4, 2)).square().sum().backward()
    optimizer.step()
    everything = [*model.state_dict(keep_vars=True).values()]
    everything += [x.grad for x in model.parameters()]
    everything += [state["momentum_buffer"] for state in optimizer.state.values()]
    values = [x.tolist() for x in everything]
    lines = 0

    def place_interrupted_at(number: int) -> bool:
        left = number

        def trace(frame: Any, event: str, _: object) -> Any:
            nonlocal left
            if "unidev" not in frame.f_code.co_filename:
                return None
            # Not as a `with` is entered or left, where no signal is delivered, and torch's scope
            # would stay on for good.
            line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
            if event == "line" and not line.lstrip().startswith("with "):
                left -= 1
                if left == 0:
                    raise KeyboardInterrupt
            return trace

        sys.settrace(trace)
        try:
            unidev.place(model, "gpu:1", optimizer=optimizer)
        except KeyboardInterrupt:
            return True
        finally:
            sys.settrace(None)
        return False

    handler = signal.getsignal(signal.SIGINT)
    while place_interrupted_at(lines + 1):
        lines += 1
        # No signal comes to the lines that hold it, so these have not put the handler back.
        signal.signal(signal.SIGINT, handler)
        assert len({x.device for x in everything}) == 1, f"at line {lines}"
        assert [x.tolist() for x in everything] == values
        if everything[0].device == GPU:  # all was done; the last lines only return
            unidev.place(model, "cpu", optimizer=optimizer)
        assert model[0].weight.data_ptr() == model[2].weight.data_ptr()
    assert lines > 300
    assert torch._C._is_torch_function_enabled()
    assert not torch.is_inference_mode_enabled()


def test_devices_between_which_torch_exchanges_no_memory_are_refused(monkeypatch) -> None:
    model = nn.Linear(2, 2)
    monkeypatch.setattr(torch, "_has_compatible_shallow_copy_type", lambda *_: False)
    with pytest.raises(unidev.UnsupportedOperation, match="build the model there"):
        unidev.place(model, "gpu:1")
    assert model.weight.device == CPU


class Metric(nn.Module):
    """Keeps a list of tensors, and moves it with ``_apply``, as metrics libraries do."""

    def __init__(self, *, fails: bool = False) -> None:
        super().__init__()
        self.seen, self._device = [torch.ones(2), torch.zeros(2)], CPU
        self.fails = fails

    def _apply(self, fn: Any, recurse: bool = True) -> Metric:
        super()._apply(fn, recurse)
        self._device = fn(torch.zeros(1, device=self._device)).device  # as torchmetrics does
        moved = [fn(x) for x in self.seen]
        if self.fails and any(x.device != CPU for x in moved):
            raise RuntimeError("this one does not move")
        self.seen = moved
        return self


def test_what_a_module_moves_by_itself_comes_along() -> None:
    model = nn.Sequential(nn.Linear(2, 2), Metric())
    model[1]._device = torch.device("cuda")  # as after torch.load(file, map_location="cpu")
    unidev.place(model, "gpu:1")
    assert [x.device for x in model[1].seen] == [GPU, GPU]
    unidev.place(model, "cpu")
    assert [x.tolist() for x in model[1].seen] == [[1.0, 1.0], [0.0, 0.0]]
    assert model[1]._device == CPU


@pytest.mark.parametrize("wrap", [lambda x: x, lambda x: nn.ModuleDict({"a": x}), nn.Sequential])
@pytest.mark.parametrize("with_net", [False, True])
def test_what_moves_itself_is_asked_where_nothing_registered_has_to_move(
    wrap: Any, with_net: bool
) -> None:
    net = unidev.place(nn.Sequential(*[nn.Linear(2, 2)] * with_net, nn.ReLU()), "gpu:1")
    metric, remembers, asked = Metric(), Remembering(), []
    net[-1].to = lambda *_: asked.append(1)
    remembers.inside = None  # and so has no tensor
    net.added, net.remembers = wrap(metric), remembers
    unidev.place(net, "gpu:1")
    assert {x.device for x in metric.seen} == {GPU}
    assert (remembers._device, metric._device, asked) == (GPU, GPU, [1])
    metric.seen[0] = metric.seen[0].cpu()
    assert unidev.device_of(unidev.place(metric, "gpu:1")) is unidev.gpu(1)


@pytest.mark.parametrize("goal", ["sim:0", 0])
def test_a_model_that_accelerate_has_dispatched_stays_with_its_hooks(goal: Any) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)).to("sim:0")
    model[1]._hf_hook = SimpleNamespace(execution_device=goal)  # as Accelerate's
    for _ in range(2):
        assert unidev.place(model, "gpu:0") is model
    with pytest.raises(unidev.UnsupportedOperation, match=r"hook of '1'.*remove_hook_from_sub"):
        unidev.place(model, "gpu:1")
    assert unidev.device_of(model) is unidev.gpu(0)
    del model[1]._hf_hook
    assert unidev.device_of(unidev.place(model, "gpu:1")) is unidev.gpu(1)


def test_what_stays_is_named_with_its_path_once_for_each_tensor() -> None:
    class Keeping(nn.Module):
        def __init__(self) -> None:
            self.early = torch.ones(2)
            super().__init__()
            self.layer = nn.utils.spectral_norm(nn.Linear(2, 2))
            self.same, self.known = self.early, self.layer.bias
            self.nested = {"a": [(torch.ones(1),)], 3: {torch.zeros(1)}}
            self.layers = [nn.Linear(2, 2), nn.Sequential(nn.BatchNorm1d(2)), self.layer]
            self.result, self.bare = self.layer.weight_orig * 2, torch.ones(1, device="meta")
            self.me = [self]
            self.me.append(self.me)

    model = nn.Sequential(Keeping())
    with pytest.warns(unidev.errors.LeftBehindWarning) as caught:
        unidev.place(model, "gpu:1")
    assert caught[0].filename == __file__
    assert len(caught) == 1
    paths = ["early", "nested.a.0.0", "nested.3.0", "layers.0.weight", "layers.0.bias"]
    paths += [f"layers.1.0.{x}" for x in ("weight", "bias", "running_mean", "running_var")]
    paths = [f"0.{path}" for path in (*paths, "layers.1.0.num_batches_tracked")]
    assert all(f"{path} on cpu:0" in str(caught[0].message) for path in paths)
    with pytest.raises(unidev.DeviceMismatchError) as error:
        unidev.check_same_device(net=model)
    elsewhere = [path for path, device in error.value.devices.items() if device is unidev.cpu()]
    assert sorted(elsewhere) == sorted(f"net.{path}" for path in paths)
    assert unidev.device_of(model) is unidev.gpu(1)


class Recorded(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layer(x) + torch.ones(2, device=x.device)
        return y


class RecordedWithValues(Recorded):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) + torch.tensor([1.0, 2.0], device=x.device)


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of torch.export itself (2.13)
def test_recorded_graphs_make_their_tensors_where_the_model_is() -> None:
    net, x = RecordedWithValues(), torch.ones(3, 2)
    expected, program = net(x), torch.export.export(net, (x,))
    moved = move_to_device_pass(copy.deepcopy(program), "sim:0")
    recorded = [make_fx(Recorded())(x), nn.Sequential(make_fx(Recorded())(x))]
    found = [program.module(), moved.module(), torch.export.unflatten(program)]
    for model, y in [(m, expected) for m in found] + [(m, m(x)) for m in recorded]:
        for device in ("gpu:1", "gpu:0", "cpu"):
            at = unidev.as_device(device).native
            assert unidev.place(model, device)(x.to(at)).device == at
            unidev.check_same_device(net=model)
        torch.testing.assert_close(model(x), y)
    graph = unidev.place(recorded[0], "gpu:0")
    code = graph.code
    with pytest.raises(unidev.FrameworkError, match="this one does not move"):
        unidev.place(nn.Sequential(graph, Metric(fails=True)), "gpu:1")
    assert graph.code == code
    with pytest.raises(unidev.UnsupportedOperation, match="the module that was exported"):
        unidev.DataParallel(graph, devices=["gpu:0", "gpu:1"])(torch.ones(6, 2, device="sim:0"))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # all of TorchScript
def test_a_trace_that_makes_tensors_elsewhere_is_named() -> None:
    x = torch.ones(3, 2)
    traced = torch.jit.trace(nn.Sequential(Recorded()), x)
    with pytest.warns(
        unidev.errors.LeftBehindWarning, match=r"0\.forward \(aten::ones: .* on cpu:0"
    ):
        unidev.place(traced, "gpu:1")
    with pytest.raises(unidev.DeviceMismatchError, match="trace the model again once it is placed"):
        unidev.check_same_device(net=traced)
    again = torch.jit.trace(unidev.place(Recorded(), "gpu:1"), x.to(GPU))
    assert unidev.place(again, "gpu:1")(x.to(GPU)).device == GPU
    with pytest.raises(unidev.UnsupportedOperation, match="the module that was exported or traced"):
        unidev.DataParallel(again, ["gpu:1", "gpu:0"])(x)
    plain = nn.Sequential(torch.jit.trace(nn.Linear(2, 2), x))
    made = unidev.replicate(plain, ["cpu", "gpu:1"])[1].parameters()
    assert {(x.device, x.is_leaf, x.requires_grad) for x in made} == {(GPU, True, True)}


class Remembering(nn.Module):
    """Remembers its device in ``to``, as Lightning's mixin for all of its kind."""

    def __init__(self, *inside: nn.Module, fails: Exception | None = None) -> None:
        super().__init__()
        self.inside = nn.ModuleList([nn.Linear(2, 2), *inside])
        self._device, self.fails, self.calls = CPU, fails, 0

    def to(self, *args: Any, **kwargs: Any) -> Remembering:
        device = torch._C._nn._parse_to(*args, **kwargs)[0]
        for module in self.modules():
            if isinstance(module, Remembering):
                module._device, module.calls = device, module.calls + 1
        if self.fails is not None:
            raise self.fails
        return super().to(*args, **kwargs)


@pytest.mark.parametrize("wrap", [lambda x: x, nn.Sequential, lambda x: nn.Sequential(Metric(), x)])
def test_what_a_module_remembers_of_its_device_follows(wrap: Any) -> None:
    inner, outer = Remembering(), None
    outer = Remembering(nn.Sequential(inner), Metric())
    model = wrap(outer)
    optimizer = torch.optim.Adam(model.parameters())
    parameters = list(model.parameters())
    for device in ("gpu:1", "cpu"):
        assert unidev.place(model, device) is model
        there = unidev.as_device(device).native
        assert (outer._device, inner._device) == (there, there)
        assert all(x.device == there for x in parameters)
    assert (outer.calls, inner.calls) == (2, 2)
    assert "_apply" not in vars(outer)
    for new, old, known in zip(
        model.parameters(), parameters, optimizer.param_groups[0]["params"], strict=True
    ):
        assert new is old is known


@pytest.mark.parametrize(
    ("fails", "kind"),
    [
        (RuntimeError("this one does not move"), unidev.FrameworkError),
        (ValueError("`.to` does not move 4-bit models"), unidev.UnsupportedOperation),
    ],
)
def test_a_module_whose_to_fails_leaves_all_where_it_was(fails: Exception, kind: Any) -> None:
    first = Remembering()
    model = nn.Sequential(first, Remembering(fails=fails), Metric())
    with pytest.raises(kind, match="does not move"):
        unidev.place(model, "gpu:1")
    assert [each._device for each in (first, model[1])] == [CPU, CPU]
    assert {x.device for x in (*model.parameters(), *model[2].seen)} == {CPU}
    assert not any("_apply" in vars(module) for module in model.modules())


def test_a_gradient_that_simulated_devices_cannot_hold_is_named() -> None:
    model = nn.Embedding(4, 2, sparse=True)
    model(torch.tensor([1])).sum().backward()
    with pytest.raises(unidev.UnsupportedOperation, match=r"'weight\.grad'"):
        unidev.place(model, "gpu:1")
    assert model.weight.device == CPU
    model.zero_grad()
    unidev.place(model, "gpu:1")


def test_extra_state_that_a_checkpoint_has_no_place_for_is_refused() -> None:
    class Counting(nn.Linear):
        def get_extra_state(self) -> dict[str, int]:
            return {"count": 3}

    with pytest.raises(unidev.UnsupportedOperation, match="'_extra_state', of type dict"):
        unidev.active_backend().models.stored(Counting(2, 2))
