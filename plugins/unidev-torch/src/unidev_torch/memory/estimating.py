"""A step on PyTorch's fake tensors, which have shapes and dtypes, but no memory."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch._subclasses import fake_tensor
from torch.optim.optimizer import Optimizer, _default_to_fused_or_foreach

from unidev.contract import Estimator, StepMemory
from unidev.errors import InvalidDataError, UnsupportedOperation
from unidev_torch.memory.blocks import Blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

_OPERATION = "estimate_memory"


class TorchEstimator(Estimator):
    """By ``FakeTensorMode``: also for models that the machine has no room for."""

    takes_no_memory = True

    def run(
        self,
        step: Callable[..., object],
        arguments: Sequence[Any],
        leaves: Sequence[Any],
        shapes: Mapping[int, tuple[int, ...]],
    ) -> StepMemory:
        """Counts the storages on the device of the parameters, or else of the first tensor.

        Tensors on the device ``meta`` are taken to be on the first GPU, or on the CPU.
        """
        mode = fake_tensor.FakeTensorMode()
        made: dict[int, Any] = {}
        with _Likenesses(mode, self._home(), shapes):
            likenesses = _copied(arguments, leaves, made)
        fakes = [made.get(id(each), each) for each in leaves]
        _choose_foreach(leaves, fakes)
        models = [each for each in fakes if isinstance(each, nn.Module)]
        optimizers = [each for each in fakes if isinstance(each, Optimizer)]
        parameters = [*{id(x): x for x in _parameters(models, optimizers)}.values()]
        tensors = [each for each in fakes if isinstance(each, torch.Tensor)]
        given = [*parameters, *(x for model in models for x in model.buffers()), *tensors]
        device = self.counted_device(parameters or given)
        blocks = Blocks(device)
        blocks.begin(parameters, given)
        hooks = [
            x.register_post_accumulate_grad_hook(blocks.note_gradient)
            for x in parameters
            if x.requires_grad
        ]
        try:
            for _ in range(2):
                _run(step, likenesses, mode, blocks)
                blocks.end_step(parameters, optimizers)
        finally:
            for hook in hooks:
                hook.remove()
        return StepMemory(device, blocks.at_peak())

    def _home(self) -> torch.device:
        kind = "gpu" if self.backend.device_count("gpu") else "cpu"
        found: torch.device = self.backend.device(kind, 0).native
        return found


class _Likenesses(fake_tensor.FakeCopyMode):
    """Lets ``copy.deepcopy`` make fake tensors of tensors: ties and optimizers' references stay."""

    def __init__(
        self,
        mode: fake_tensor.FakeTensorMode,
        home: torch.device,
        shapes: Mapping[int, tuple[int, ...]],
    ) -> None:
        super().__init__(mode)
        self._home = home
        self._shapes = shapes

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        is_copy = func is torch.Tensor.__deepcopy__
        if is_copy or func is torch._C.TensorBase.clone:
            x = args[0]
            shape = self._shapes.get(id(x))
            if x.is_meta or shape is not None:
                made = self._empty(x, shape)
                if is_copy:
                    args[1][id(x)] = made
                return made
        return super().__torch_function__(func, types, args, kwargs)

    def _empty(self, x: torch.Tensor, shape: tuple[int, ...] | None) -> torch.Tensor:
        device = self._home if x.is_meta else x.device
        with self.fake_mode:
            if shape is None:
                made = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=device)
            else:
                made = torch.empty(shape, dtype=x.dtype, device=device)
        return made.requires_grad_(x.requires_grad)


def _copied(arguments: Sequence[Any], leaves: Sequence[Any], made: dict[int, Any]) -> Any:
    """Likenesses of ``arguments``, added to ``made`` by the ``id`` of what they stand for."""
    try:
        likenesses = copy.deepcopy(tuple(arguments), made)
        for each in leaves:
            if isinstance(each, Optimizer):
                _complete(each, made[id(each)], made)
    except TypeError as error:
        raise UnsupportedOperation(
            f"{_OPERATION} of these arguments", f"Python cannot copy one of them: {error}"
        ) from error
    return likenesses


def _complete(real: Optimizer, fake: Any, made: dict[int, Any]) -> None:
    """Give a copied optimizer what ``Optimizer.__getstate__`` leaves out (2.13).

    ``LBFGS`` has a list of parameters there, and a scheduler its own ``step``, bound to the real
    optimizer, by which it knows that the optimizer makes its step first, and else warns.
    """
    for name, value in vars(real).items():
        if name not in vars(fake) and name != "step":
            vars(fake)[name] = copy.deepcopy(value, made)
    if hasattr(real.step, "_wrapped_by_lr_sched"):

        def step(*arguments: Any, **options: Any) -> Any:
            fake._opt_called = True
            return type(fake).step(fake, *arguments, **options)

        vars(step)["_wrapped_by_lr_sched"] = True
        fake.step = step


def _run(
    step: Callable[..., object],
    arguments: Sequence[Any],
    mode: fake_tensor.FakeTensorMode,
    blocks: Blocks,
) -> None:
    saved = torch.autograd.graph.saved_tensors_hooks(blocks.note_activation, lambda x: x)
    try:
        with mode, blocks, saved:
            step(*arguments)
    except (
        fake_tensor.DataDependentOutputException,
        fake_tensor.DynamicOutputShapeException,
        fake_tensor.UnsupportedOperatorException,
    ) as error:
        raise UnsupportedOperation(
            f"{_OPERATION} of this step",
            f"its tensors have no values, and {error.func} needs them, or cannot do without",
            "https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/"
            "torch.compiler_fake_tensor.html",
        ) from error
    except (AttributeError, RuntimeError, TypeError) as error:
        reason = _reason(str(error))
        if reason is None:
            raise
        raise UnsupportedOperation(f"{_OPERATION} of this step", f"{reason}: {error}") from error
    except AssertionError as error:
        if "FakeTensor" not in str(error):
            raise
        raise InvalidDataError(
            "the step uses a tensor that is not among its arguments: pass the model, its optimizer "
            "and all tensors after the step, as in estimate_memory(step, net, optimizer, x, y). "
            f"{error}"
        ) from error


def _reason(text: str) -> str | None:
    """Why a step cannot be run on fake tensors, by the words of PyTorch's error; None: its own."""
    if "couldn't swap" in text.lower():
        return (
            "it converts or moves the model, whose fake tensors PyTorch does not let go: do that "
            "before, and pass the model as it is then"
        )
    if "FakeTensor" in text or "not supported for tensor subclasses" in text:
        return (
            "its tensors have no values, and something other than PyTorch's operations needs them: "
            "read numbers with .item() or .tolist(), and leave the rest out of the step"
        )
    return None


def _choose_foreach(arguments: Sequence[Any], likenesses: Sequence[Any]) -> None:
    """Let optimizers of fake tensors compute as those of real ones do: by lists of tensors.

    PyTorch asks for exact types: fake tensors would be updated one by one, with less memory.
    """
    for real, fake in zip(arguments, likenesses, strict=True):
        if not isinstance(real, Optimizer):
            continue
        for group, its_likeness in zip(real.param_groups, fake.param_groups, strict=True):
            if group.get("foreach") is None and not group.get("fused") and "foreach" in group:
                probes: list[torch.Tensor] = [
                    nn.Parameter(torch.empty(0, dtype=x.dtype, device=like.device))
                    for x, like in zip(group["params"], its_likeness["params"], strict=True)
                ]
                _, its_likeness["foreach"] = _default_to_fused_or_foreach(
                    probes, differentiable=bool(group.get("differentiable")), use_fused=False
                )


def _parameters(models: Iterable[nn.Module], optimizers: Iterable[Optimizer]) -> Any:
    for model in models:
        yield from model.parameters()
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            yield from group["params"]
