"""Steps of workers whose gradients travel in several buckets; the tests of PyTorch's run them."""

from __future__ import annotations

import json
import os
import signal
import tempfile
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

import unidev
from unidev.parallel.exchange import engines, overlap

if TYPE_CHECKING:
    from collections.abc import Callable

WIDTH = 16


def in_small_buckets(name: str, *arguments: Any) -> Any:
    """The result of a function of this module, by gloo, in buckets of a few layers, by hooks."""
    engines.QUICK_BYTES = 0
    overlap.FIRST_BYTES = overlap.BUCKET_BYTES = 3 << 10
    overlap.HOOK_S = 0.0
    torch.manual_seed(0)
    return globals()[name](*arguments)


def one_by_one(calls: list[tuple[str, ...]]) -> dict[tuple[str, ...], Any]:
    """The results of several functions of this module, each as ``in_small_buckets`` calls it."""
    sound, results = overlap.Step.backward_is_done, {}
    for call in calls:
        results[call] = in_small_buckets(*call)
        overlap.Step.backward_is_done = sound  # type: ignore[method-assign]  # not `counted`
    return results


class Chain(nn.Module):
    """Layers one after another, and what is special about some of them."""

    def __init__(self, kind: str = "plain", at: int = 3) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(8))
        self.kind = kind
        self.at = at
        if kind == "tied":
            self.layers[6].weight = self.layers[1].weight
        if kind == "normed":
            self.norm = nn.BatchNorm1d(WIDTH)
        if kind == "integer_buffer":
            self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        if kind == "unused":
            self.unused = nn.Linear(WIDTH, 40)
            self.empty = nn.Parameter(torch.zeros(0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The first worker leaves out half of the layers, in every other step of kind "half"."""
        last = len(self.layers)
        if self.kind == "half" and unidev.group().rank == 0:
            last = last // 2
        again = self.kind == "recomputed"
        for layer in self.layers[:last]:
            x = Recomputed.apply(layer, x, *layer.parameters()) if again else torch.tanh(layer(x))
        return self.norm(x) if self.kind == "normed" else x


class Passing(torch.autograd.Function):
    """Its input, and something to do in backward."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, work: Callable[[], None]) -> torch.Tensor:
        """``x``."""
        ctx.work = work
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        """The gradient, after the work."""
        ctx.work()
        return gradients[0], None


class Recomputed(torch.autograd.Function):
    """``tanh`` of a layer, whose backward makes the gradients of its parameters by another."""

    @staticmethod
    def forward(ctx: Any, layer: nn.Module, x: torch.Tensor, *parameters: torch.Tensor) -> Any:
        """Without a graph."""
        ctx.found = layer, x, parameters
        return torch.tanh(layer(x))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        """With one of its own."""
        layer, x, parameters = ctx.found
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            y = torch.tanh(layer(x))
        return None, *torch.autograd.grad(y, (x, *parameters), gradients)


def rows() -> tuple[torch.Tensor, torch.Tensor]:
    """This worker's own, of which it has more the higher its rank."""
    rank = unidev.group().rank
    made = torch.Generator().manual_seed(rank)
    x, y = (torch.rand(2 + rank, WIDTH, generator=made) for _ in range(2))
    return unidev.as_in_device((x, y), unidev.group().device)


def loss_of(net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The mean of squares."""
    if getattr(net, "kind", "") == "penalised":
        weights = [layer.weight for layer in net.layers]  # type: ignore[union-attr]
        inner = torch.autograd.grad(net(x).square().mean(), weights, create_graph=True)
        return nn.functional.mse_loss(net(x), y) + sum(each.square().sum() for each in inner)
    return nn.functional.mse_loss(net(x), y)


def through(net: Chain, work: Callable[[], None]) -> Callable[..., torch.Tensor]:
    """A loss in whose backward ``work`` is done after half of the layers."""

    def loss(net: Chain, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        for number, layer in enumerate(net.layers):
            x = torch.tanh(layer(x))
            if number == len(net.layers) // 2:
                x = Passing.apply(x, work)  # type: ignore[no-untyped-call]
        return nn.functional.mse_loss(x, y)

    return loss


def digest(gradients: dict[str, torch.Tensor]) -> str:
    """Of all bits."""
    whole = b"".join(unidev.to_numpy(x.float()).tobytes() for x in gradients.values())
    return blake2b(whole, digest_size=8).hexdigest()


def counted() -> list[int]:
    """How many buckets had begun at the end of each backward; grows with each step."""
    sound, begun = overlap.Step.backward_is_done, list[int]()

    def backward_is_done(self: Any) -> None:
        begun.append(len(self._running.finishing) if self._running is not None else 0)
        sound(self)

    overlap.Step.backward_is_done = backward_is_done  # type: ignore[method-assign]
    return begun


def narrow_error(reduce_dtype: str) -> float:
    """The largest error of gradients that travel in this dtype, relative to the largest of each."""
    net = unidev.place(Chain(), unidev.group().device)
    parallel = unidev.DataParallel(net, reduce_dtype=reduce_dtype)
    of = unidev.value_and_grad(loss_of)
    (_, exact), (_, found) = (of(parallel, *rows()) for _ in range(2))
    assert all(x.dtype == torch.float32 for x in found.values())
    return max(float((found[name] - x).abs().max() / x.abs().max()) for name, x in exact.items())


def beside_the_end(kind: str, reduction: str) -> dict[str, Any]:
    """Four steps of a net, against the workers' own gradients, gathered and combined here."""
    net, begun, group = Chain(kind), counted(), unidev.group()
    if kind == "narrow":
        net.to(torch.bfloat16)
    unidev.place(net, group.device)
    x, y = (each.to(next(net.parameters()).dtype) for each in rows())
    alone = unidev.value_and_grad(loss_of)
    parallel = unidev.DataParallel(net, reduction=reduction)
    weights = torch.tensor([float(2 + rank) for rank in range(group.size)])
    factors = weights / weights.sum() if reduction == "mean" else torch.ones(group.size)
    differences = []
    for number in range(4):
        buffers = {name: each.clone() for name, each in net.named_buffers()}
        own_loss, own = alone(net, x, y)
        net.load_state_dict(buffers, strict=False)
        loss, gradients = alone(parallel, x, y)
        everybodys = group.all_gather({"loss": own_loss, **own})
        for name, found in {"loss": loss, **gradients}.items():
            parts = zip(everybodys, factors, strict=True)
            expected = sum(each[name].float() * factor for each, factor in parts)
            limit = 1e-2 if kind == "narrow" else 1e-5
            if not torch.allclose(found.float().cpu(), expected.cpu(), rtol=limit, atol=1e-6):
                differences.append(f"step {number}: {name}")
        unidev.sgd(parallel, gradients, lr=0.1)
    (plan,) = parallel._overlap.plans.values()
    return {
        "buckets": len(plan.stages),
        "begun_early": begun[-1],
        "differences": differences,
        "digest": digest(gradients),
        "hooks": sum(len(each._backward_hooks or ()) for each in net.parameters()),
    }


def _after(work: Callable[[], None]) -> dict[str, Any]:
    """Two sound steps, one with ``work`` in its backward, and a sound one."""
    loops = 3
    net = Chain()
    parallel, heard = unidev.DataParallel(net), ""
    for number in range(loops + 1):
        loss = through(net, work if number == loops - 1 else lambda: None)
        try:
            _, gradients = unidev.value_and_grad(loss)(parallel, *rows())
        except (unidev.FrameworkError, unidev.CollectiveError, KeyboardInterrupt) as error:
            if number == loops:
                raise
            heard = f"{type(error).__name__}: {error}"
    return {"heard": heard, "digest": digest(gradients)}


def raising_in_backward() -> dict[str, Any]:
    """On the second worker."""
    return _after(_raise if unidev.group().rank else lambda: None)


def all_raising_in_backward() -> dict[str, Any]:
    """On both."""
    return _after(_raise)


def interrupted_in_backward() -> dict[str, Any]:
    """The second worker goes on, although it has been told to end."""

    def interrupt() -> None:
        if unidev.group().rank:
            raise KeyboardInterrupt

    return _after(interrupt)


def interrupted_at_the_end() -> str:
    """What a worker hears that goes on after the second was interrupted in waiting."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    parallel = unidev.DataParallel(Chain())
    unidev.value_and_grad(loss_of)(parallel, *rows())
    if unidev.group().rank:
        overlap.Step._finish = interrupt  # type: ignore[method-assign]
    with suppress(KeyboardInterrupt, unidev.CollectiveError):
        unidev.value_and_grad(loss_of)(parallel, *rows())
    try:
        unidev.group().barrier()
    except unidev.CollectiveError as error:
        return str(error)
    return ""


def killed_in_backward() -> dict[str, Any]:
    """The second worker, when its exchange has begun."""

    def kill() -> None:
        if unidev.group().rank:
            os.kill(os.getpid(), signal.SIGKILL)

    return _after(kill)


def _raise() -> None:
    raise ValueError("it is enough")


def exchanging_in_backward() -> dict[str, Any]:
    """A sum over the workers in each backward."""
    net, begun = Chain(), counted()
    parallel, group = unidev.DataParallel(net), unidev.group()
    sums: list[float] = []

    def exchange() -> None:
        sums.append(group.all_reduce(torch.ones(1)).item())

    for _ in range(3):
        unidev.value_and_grad(through(net, exchange))(parallel, *rows())
    wrong = [f"a sum of {each}" for each in sums if each != group.size]
    return {"begun_early": sum(begun), "differences": wrong}


def exchanging_later() -> None:
    """A sum over the workers in the third backward alone."""

    def exchange() -> None:
        unidev.group().all_reduce(torch.ones(1))

    _after(exchange)


def freezing() -> list[bool]:
    """For each structure, whether memory is kept for its gradients; layers are frozen in turn."""
    net = Chain()
    net.layers.append(nn.Linear(WIDTH, 1 << 16))  # small ones get new memory each time
    parallel = unidev.DataParallel(net)
    for layer in net.layers[:3]:
        layer.requires_grad_(False)
        for _ in range(3):
            unidev.value_and_grad(lambda net, x, _: net(x).mean())(parallel, *rows())
    return [any(plan.memory) for plan in parallel._overlap.plans.values() if plan is not None]


def traced() -> dict[str, Any]:
    """The trace of three steps, of which the last has hooks."""
    net = Chain()
    parallel, group = unidev.DataParallel(net), unidev.group()
    with tempfile.TemporaryDirectory() as folder, unidev.trace_transfers() as trace:
        for _ in range(3):
            unidev.value_and_grad(loss_of)(parallel, *rows())
        file = Path(folder) / f"{group.rank}.json"
        trace.to_chrome_trace(file)
        events = json.loads(file.read_text())["traceEvents"]
    return {
        "exchanges": [(each.seconds, each.hidden_s) for each in trace.exchanges],
        "text": str(trace),
        "events": [each["name"] for each in events if each.get("cat") == "exchange"],
    }


def another_loss() -> list[float]:
    """A loss in float32, then in float64, then in float32."""
    net = Chain()
    parallel, losses = unidev.DataParallel(net), []
    for number in range(4):

        def loss(net: Chain, x: torch.Tensor, y: torch.Tensor, number: int = number) -> Any:
            return loss_of(net, x, y).to(torch.float64 if number == 2 else torch.float32)

        found, gradients = unidev.value_and_grad(loss)(parallel, *rows())
        unidev.sgd(parallel, gradients, lr=0.1)
        losses.append(float(found))
    return losses
