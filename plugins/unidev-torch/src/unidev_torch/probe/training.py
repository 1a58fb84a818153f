"""Sample modules and optimizers, and gradients, using torch's own calls."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from unidev.contract import AutogradProbe, ModelProbe
from unidev_torch import probe

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from unidev.contract import Array, Device

_WIDTH = 4


class Sample(nn.Module):
    """Two dense layers that share a weight, a layer used twice, a frozen one, statistics."""

    scale: torch.Tensor
    shift: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(_WIDTH, _WIDTH)
        self.second = nn.Linear(_WIDTH, _WIDTH)
        self.second.weight = self.first.weight
        self.norm = nn.BatchNorm1d(_WIDTH)
        self.inner = nn.Sequential(nn.Linear(_WIDTH, _WIDTH), nn.Tanh())
        self.again = self.inner
        self.last = nn.Linear(_WIDTH, _WIDTH)
        self.last.bias.requires_grad_(False)
        self.register_buffer("scale", torch.full((_WIDTH,), 0.5))
        self.register_buffer("shift", torch.full((_WIDTH,), 0.25), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Uses every layer."""
        y = self.norm(self.second(torch.tanh(self.first(x))))
        y = self.again(self.inner(y) * self.scale + self.shift)
        found: torch.Tensor = self.last(y)
        return found


class Remembering(nn.Sequential):
    """Keeps its device in an attribute."""

    device = torch.device("cpu")

    def to(self, *args: Any, **options: Any) -> Remembering:
        """Remembers the device, then moves."""
        self.device = torch._C._nn._parse_to(*args, **options)[0]
        return super().to(*args, **options)


class Forking(nn.Linear):
    """Passes on its input, too."""

    def forward(self, x: torch.Tensor) -> Any:
        """The result, and ``x``, in a container."""
        return {"both": (super().forward(x), [x])}


class Joining(nn.Linear):
    """Takes what ``Forking`` returns."""

    def forward(self, given: Any) -> torch.Tensor:
        """Apply the layer to the sum of both."""
        y, (x,) = given["both"]
        return super().forward(x + y)


class Refusing(nn.Linear):
    """Refuses every move, as quantized layers do."""

    def to(self, *_arguments: Any, **_options: Any) -> Refusing:
        """Raises, in words of its own."""
        raise ValueError("this layer stays where it is")


class Wrapping(torch.optim.Optimizer):
    """Leaves the work to another."""

    def __init__(self, parameters: Any, defaults: dict[str, Any]) -> None:
        super().__init__(parameters, defaults)
        self.inner = torch.optim.SGD(self.param_groups, lr=0.05, momentum=0.9)

    def step(self, closure: Any = None) -> Any:
        """That of the other."""
        return self.inner.step(closure)


class Unbuilt(nn.Sequential):
    """Lazy layers, with the sample's shapes."""

    def __init__(self) -> None:
        with warnings.catch_warnings():  # lazy modules warn that they are new, since 2021
            warnings.simplefilter("ignore", UserWarning)
            super().__init__(nn.LazyLinear(_WIDTH), nn.LazyBatchNorm1d(), nn.LazyLinear(_WIDTH))


class TorchModelProbe(ModelProbe):
    """Probe of :class:`Sample` and SGD with momentum."""

    def model(self) -> nn.Module:
        """Fills the weights without a random generator."""
        model = Sample()
        with torch.no_grad():
            for number, x in enumerate(model.parameters()):
                x.copy_(torch.sin(torch.arange(x.numel()) * 0.7 + number).reshape(x.shape))
        return model

    def tensors(self, model: nn.Module) -> Mapping[str, torch.Tensor]:
        """Named as in ``named_parameters`` and ``named_buffers``."""
        named = dict(model.named_parameters(remove_duplicate=False))
        gradients = {f"{name}.grad": x.grad for name, x in named.items() if x.grad is not None}
        return {**named, **dict(model.named_buffers(remove_duplicate=False)), **gradients}

    def objects(self, model: nn.Module) -> Sequence[object]:
        """Parameters and modules."""
        return [*model.parameters(), *model.modules()]

    def tied(self, model: Any) -> Sequence[tuple[torch.Tensor, torch.Tensor]]:
        """The shared weight of the first and the second layer."""
        return [(model.first.weight, model.second.weight)]

    def shared(self, model: Any) -> Sequence[tuple[object, object]]:
        """The layer used twice."""
        return [(model.inner, model.again)]

    def frozen(self, model: nn.Module) -> frozenset[str]:
        """Parameters that require no gradient."""
        return frozenset(name for name, x in model.named_parameters() if not x.requires_grad)

    def is_training(self, model: nn.Module) -> bool | None:
        """``model.training``."""
        return model.training

    def set_inference(self, model: nn.Module) -> None:
        """``model.eval()``."""
        model.eval()

    def forward(self, model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        """Runs every module in inference mode, then restores each one's own mode."""
        modes = [(module, module.training) for module in model.modules()]
        model.eval()
        try:
            with torch.no_grad():
                found: torch.Tensor = model(x)
                return found
        finally:
            for module, mode in modes:
                module.training = mode

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        """SGD with momentum, and a tensor among the settings."""
        (x, *_), scales = model.parameters(), torch.ones(2)
        group = {"params": [*model.parameters()], "scales": scales.to(x.device)}
        return torch.optim.SGD([group], lr=0.05, momentum=0.9)

    def step(self, model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> None:
        """An ordinary training step."""
        optimizer.zero_grad()
        model(x).square().sum().backward()
        optimizer.step()
        for parameter in model.parameters():
            if not parameter.requires_grad:
                parameter.grad = torch.full_like(parameter, 0.5)

    def optimizer_tensors(self, optimizer: torch.optim.Optimizer) -> Mapping[str, torch.Tensor]:
        """The momenta, and tensors among the settings."""
        parameters = [x for group in optimizer.param_groups for x in group["params"]]
        settings = {
            f"{number}.{key}": value
            for number, group in enumerate(optimizer.param_groups)
            for key, value in group.items()
            if isinstance(value, torch.Tensor)
        }
        return settings | {
            f"{number}.{key}": value
            for number, x in enumerate(parameters)
            for key, value in optimizer.state.get(x, {}).items()
            if isinstance(value, torch.Tensor) and key != "step"
        }

    def add_hook(self, model: nn.Module, call: Callable[[], None]) -> None:
        """A forward hook, and one of a parameter's gradient."""
        model.register_forward_hook(lambda *_: call())
        next(model.parameters()).register_hook(lambda _: call())  # type: ignore[no-untyped-call]

    def unbuilt(self) -> nn.Module:
        """A model of lazy layers."""
        return Unbuilt()

    def joining(self) -> nn.Module:
        """A ``Sequential`` of two layers, of the same weights each time."""
        model = nn.Sequential(Forking(_WIDTH, _WIDTH), Joining(_WIDTH, _WIDTH))
        with torch.no_grad():
            for x in model.parameters():
                x.copy_(torch.sin(torch.arange(x.numel()) * 0.7).reshape(x.shape))
        return model

    def unsaved(self, _: nn.Module) -> frozenset[str]:
        """By ``persistent=False``."""
        return frozenset({"shift"})

    def compiled(self) -> Any:
        """By ``torch.compile``, without a compiler for the machine."""
        return torch.compile(self.model().get_submodule("first"), backend="eager")

    def remembering(self, refuses: bool) -> tuple[nn.Module, Callable[[], object]]:
        """A module that overrides ``to``, as Lightning's do."""
        model = Remembering(nn.Linear(_WIDTH, _WIDTH))
        others = [Refusing(_WIDTH, _WIDTH)] if refuses else []
        return nn.Sequential(model, *others), lambda: model.device

    def keeping(self, x: torch.Tensor) -> nn.Module:
        """In a list, of which torch registers nothing."""
        model = nn.Linear(_WIDTH, _WIDTH)
        model.kept = [x]  # type: ignore[assignment]  # neither a tensor nor a module
        return model

    def embedding(self, device: Device) -> tuple[torch.Tensor, torch.Tensor]:
        """``backward`` stores the gradient in ``weight.grad``."""
        layer = nn.Embedding(_WIDTH, 2, device=device.native)
        layer(torch.tensor([1, 2, 1], device=device.native)).sum().backward()
        gradient = layer.weight.grad
        assert gradient is not None
        return layer.weight, gradient

    def wrapping_optimizer(
        self, model: nn.Module
    ) -> tuple[torch.optim.Optimizer, Callable[[], Mapping[str, torch.Tensor]]]:
        """SGD with momentum in another one."""
        made = Wrapping(model.parameters(), {})
        return made, lambda: self.optimizer_tensors(made.inner)

    def counting_optimizer(self, model: nn.Module, is_other: bool) -> torch.optim.Optimizer:
        """Adam, with two groups."""
        first, *others = model.parameters()
        betas = (0.5, 0.9) if is_other else (0.8, 0.99)
        groups: list[dict[str, Any]] = [
            {"params": others},
            {"params": [first], "lr": 0.07 if is_other else 0.02, "betas": betas},
        ]
        return torch.optim.Adam(groups, lr=0.01 if is_other else 0.05)

    def holding(
        self, parameters: Mapping[str, torch.Tensor], buffers: Mapping[str, torch.Tensor]
    ) -> nn.Module:
        """A module without a ``forward``, most of whose buffers are views of one storage."""
        model = nn.Module()
        made: dict[int, nn.Parameter] = {}
        for name, x in parameters.items():
            if id(x) not in made:
                made[id(x)] = nn.Parameter(x.clone())
            model.register_parameter(name, made[id(x)])
        for number, (name, x) in enumerate(_side_by_side(buffers).items()):
            model.register_buffer(name, x.clone() if number % 4 == 3 else x)
        return model


def _side_by_side(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Copies of these in one storage, one after the other, wherever their dtypes may begin.

    As FSDP and ``torch._utils._flatten_dense_tensors`` lay them out, but of any dtypes.
    """
    raw = torch.zeros(4 + sum(x.nbytes + x.itemsize for x in tensors.values()), dtype=torch.uint8)
    found, begin = {}, 4
    for name, x in tensors.items():
        begin = -(-begin // x.itemsize) * x.itemsize
        flat = raw[begin : begin + x.nbytes].view(x.dtype)
        found[name] = flat.reshape(x.shape).copy_(x)
        begin += x.nbytes
    return found


class _Passing(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gradients: Sequence[torch.Tensor], *xs: torch.Tensor) -> torch.Tensor:
        ctx.gradients = gradients
        return xs[0].new_ones(())

    @staticmethod
    def backward(ctx: Any, *_: torch.Tensor) -> Any:
        return None, *ctx.gradients


class TorchAutogradProbe(AutogradProbe):
    """Uses ``backward``; ``unidev_torch.autograd`` uses ``torch.autograd.grad``."""

    def gradients(
        self,
        function: Callable[..., torch.Tensor],
        arrays: Sequence[Array],
        devices: Sequence[Device],
    ) -> Sequence[torch.Tensor | None]:
        """``x.grad`` after ``backward``."""
        xs = [
            probe.make(array, device).requires_grad_()
            for array, device in zip(arrays, devices, strict=True)
        ]
        total = function(*xs).sum()
        if total.requires_grad:
            total.backward()  # type: ignore[no-untyped-call]
        return [x.grad for x in xs]

    def second_order(
        self, function: Callable[[torch.Tensor], torch.Tensor], array: Array, device: Device
    ) -> torch.Tensor:
        """``backward`` through a gradient made with ``create_graph=True``."""
        x = probe.make(array, device).requires_grad_()
        (first,) = torch.autograd.grad(function(x).sum(), x, create_graph=True)
        first.sum().backward()  # type: ignore[no-untyped-call]
        if x.grad is None:
            raise AssertionError("no second-order gradient reached the source")
        return x.grad

    def recomputed(self, function: Callable[..., torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        """Reentrant checkpointing, which does nothing for an ``x`` without gradients."""
        found: torch.Tensor = checkpoint(function, x.requires_grad_(), use_reentrant=True)
        return found

    def passing(self, xs: Sequence[torch.Tensor], gradients: Sequence[torch.Tensor]) -> Any:
        """A ``torch.autograd.Function``."""
        return _Passing.apply(gradients, *xs)  # type: ignore[no-untyped-call]

    def taken(self, x: torch.Tensor, rows: Sequence[int]) -> torch.Tensor:
        """By a list."""
        return x[list(rows)]

    def is_differentiable(self, x: torch.Tensor) -> bool:
        """``x.requires_grad``."""
        return x.requires_grad
