"""What works inside the tracer's scope: backward, inference, compiling, vmap and subclasses."""

from __future__ import annotations

import threading
import warnings
from typing import TYPE_CHECKING, Any

import pytest
import torch
from recorded import names_recorded_by, watch
from torch import nn

import unidev
from unidev import TransferForbiddenError

if TYPE_CHECKING:
    from unidev import PlannedTransfer

A, B = "sim:0", "sim:1"


def _to_the_cpu(x: torch.Tensor) -> torch.Tensor:
    return x.cpu()


def _refuse(moved: PlannedTransfer) -> None:
    raise TransferForbiddenError(f"not {moved.operation}")


# -- backward -------------------------------------------------------------------------------------


def test_gradients_that_cross_devices_are_told_in_the_users_thread() -> None:
    x = torch.ones(2, device=A, requires_grad=True)
    recorded: list[tuple[str, str, str, bool]] = []
    user = threading.current_thread()

    def begin(moved: PlannedTransfer) -> None:
        is_here = threading.current_thread() is user
        recorded.append((moved.operation, str(moved.source), str(moved.target), is_here))

    loss = (x.to(B) * 2).sum()
    with watch(begin):
        loss.backward(retain_graph=True)
        torch.autograd.grad(loss, x)
    assert recorded == [
        ("Tensor.backward", "gpu:1", "gpu:0", True),
        ("torch.autograd.grad", "gpu:1", "gpu:0", True),
    ]


def test_a_users_own_code_in_backward_is_told_by_the_operators() -> None:
    x = torch.ones(2, device=A, requires_grad=True)

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            return gradient.cpu().to(gradient.device)

    y = Twice.apply(x)
    y.register_hook(lambda gradient: float(gradient.sum()) and None)
    assert names_recorded_by(y.sum().backward) == [
        "Tensor.item to cpu:0", "Tensor.to to cpu:0", "Tensor.to to gpu:0",
    ]  # fmt: skip


def test_saved_tensors_on_the_cpu_and_checkpoints_are_told() -> None:
    x = torch.ones(2, device=A, requires_grad=True)

    def save_on_cpu() -> None:
        with torch.autograd.graph.save_on_cpu():
            y = x.sin()
        y.sum().backward()

    def recompute() -> None:
        run = torch.utils.checkpoint.checkpoint
        run(lambda v: v.to(B).sin().sin(), x, use_reentrant=False).sum().backward()

    assert names_recorded_by(save_on_cpu) == ["Tensor.sin to cpu:0", "Tensor.backward to gpu:0"]
    assert names_recorded_by(recompute) == [
        "Tensor.to to gpu:1", "Tensor.to to gpu:1", "Tensor.backward to gpu:0",
    ]  # fmt: skip


# -- what works inside ----------------------------------------------------------------------------


def test_inference_mode_is_seen_through() -> None:
    def infer() -> None:
        with torch.inference_mode():
            x = torch.ones(2, 2, device=A)
            x.cpu()
            (x @ x)[0, 0].item()
            bool(x[0, 0])
            nn.functional.one_hot(x[0].long())

    assert names_recorded_by(infer) == [
        "Tensor.cpu to cpu:0", "Tensor.item to cpu:0", "Tensor.__bool__ to cpu:0",
        "torch.nn.functional.one_hot to cpu:0",
    ]  # fmt: skip


def test_compiled_functions_stay_compiled_and_are_told_as_they_run() -> None:
    compilations = 0

    def backend(graph: Any, _: object) -> Any:
        nonlocal compilations
        compilations += 1
        return graph.forward

    def compiled_code() -> set[Any]:
        return {code() for code in torch._dynamo.convert_frame.input_codes.seen} - {None}

    before = compiled_code()  # of other tests
    x = torch.ones(3, device=A)
    whole = torch.compile(lambda v: v.sin().to(B).cos(), backend=backend, fullgraph=True)
    broken = torch.compile(lambda v: (v * v.sum().item()).cpu(), backend=backend)
    try:
        assert names_recorded_by(whole, x) == ["Tensor.to to gpu:1"]
        assert names_recorded_by(whole, x) == ["Tensor.to to gpu:1"]
        assert compilations == 1
        whole(x)
        whole(x)
        assert compilations == 2  # torch compiles for the modes that are open
        operations = names_recorded_by(broken, x)
        assert operations == ["Tensor.item to cpu:0", "Tensor.cpu to cpu:0"]
        assert not [code for code in compiled_code() - before if "unidev_torch" in code.co_filename]
    finally:
        torch._dynamo.reset()


def test_exported_programs_are_told_and_exporting_moves_nothing() -> None:
    class Reading(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.sin().cpu()

    x = torch.ones(2, device=A)
    exported: list[Any] = []
    assert names_recorded_by(lambda: exported.append(torch.export.export(Reading(), (x,)))) == []
    assert names_recorded_by(exported[0].module(), x) == ["Tensor.to to cpu:0"]


def test_vmap_autocast_and_subclasses_are_told() -> None:
    from torch.testing._internal.two_tensor import TwoTensor

    class Named(torch.Tensor):
        pass

    x = torch.ones(2, 3, device=A)
    two = TwoTensor(x, x.clone())

    def cast() -> None:
        with torch.autocast("sim", dtype=torch.bfloat16):
            (x @ x.T).cpu()

    assert names_recorded_by(torch.vmap(lambda v: v.to(B)), x) == ["Tensor.to to gpu:1"]
    assert names_recorded_by(cast) == ["Tensor.cpu to cpu:0"]
    assert names_recorded_by(x.as_subclass(Named).cpu) == ["Tensor.cpu to cpu:0"]
    assert names_recorded_by(lambda: two.to("cpu")) == 2 * [
        "Tensor.to to cpu:0"
    ]  # both that are in it


def test_torchscript_is_told_and_stopped_in_torchs_own_words() -> None:
    x = torch.ones(2, device=A)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer torch would rather not have it
        script = torch.jit.script(_to_the_cpu)
    assert names_recorded_by(script, x) == ["Tensor.to to cpu:0"]
    with watch(_refuse), pytest.raises(RuntimeError, match="failed in the TorchScript interpreter"):
        script(x)


def test_load_state_dict_is_stopped_in_torchs_own_words() -> None:
    model = nn.Linear(1, 1, device=A)
    before = model.weight.item()
    with watch(_refuse), pytest.raises(RuntimeError, match=r"not Module\.load_state_dict"):
        model.load_state_dict({"weight": torch.full((1, 1), 9.0), "bias": torch.ones(1)})
    assert model.weight.item() == before


def test_a_model_that_moves_keeps_its_parameters() -> None:
    model = nn.Linear(1, 1)
    weight = model.weight
    with watch(lambda _: None):
        model.to(A)
        unidev.place(model, "gpu:1")
    assert model.weight is weight
    assert weight.device == torch.device(B)


def test_unidevs_verbs_work_inside() -> None:
    recorded: list[int] = []
    with watch(lambda moved: recorded.append(moved.nbytes)):
        x = unidev.array([1.0, 2.0], device="gpu:0")
        y = unidev.copy_to(x, "gpu:1")
        unidev.to_numpy(y)
    assert recorded == [8, 8, 8]
