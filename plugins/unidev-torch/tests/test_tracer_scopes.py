"""The tracer's scope: nothing before, nothing after, nothing for others; and what works inside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from recorded import watch
from torch import nn, overrides
from torch.utils import _python_dispatch as dispatching

from unidev import TransferForbiddenError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from unidev import PlannedTransfer

A, B = "sim:0", "sim:1"


def forbid(moved: PlannedTransfer) -> None:
    raise TransferForbiddenError(f"not {moved.operation}")


def state_of_torch() -> tuple[object, ...]:
    """All that a scope could leave behind, in this thread and in the process."""
    flags = {name: vars(dispatching)[name] for name in vars(dispatching) if name.startswith("_is_")}
    methods = {name: vars(torch.Tensor).get(name) for name in dir(torch.Tensor)}
    return (
        flags,
        methods,
        dict(vars(torch)),
        torch._C._is_multithreading_enabled(),
        dispatching._get_current_dispatch_mode_stack(),
        overrides._get_current_function_mode_stack(),
    )


@pytest.fixture(autouse=True)
def _everything_is_as_it_was() -> Iterator[None]:
    before = state_of_torch()
    yield
    after = state_of_torch()
    for one, other in zip(before, after, strict=True):
        if isinstance(one, dict) and isinstance(other, dict):
            assert one.keys() == other.keys()
            assert all(one[name] is other[name] for name in one)
        else:
            assert one == other


# -- begin and end --------------------------------------------------------------------------------


def test_what_begin_returns_is_given_to_end_when_the_bytes_are_there() -> None:
    x, target = torch.ones(2, device=A), torch.zeros(2)
    seen: list[object] = []
    with watch(
        lambda moved: seen.append((moved.nbytes, target.tolist())) or "begun",
        lambda begun: seen.append((begun, target.tolist())),
    ):
        target.copy_(x)
    assert seen == [(8, [0.0, 0.0]), ("begun", [1.0, 1.0])]


@pytest.mark.parametrize(
    "move",
    [
        lambda x: x.to(B), lambda x: x.cpu(), lambda x: x[0].item(), lambda x: bool(x[0]),
        repr, lambda x: x.tolist(), lambda x: torch.tensor([x[0], x[1]]),
        lambda x: x[torch.tensor([0])], lambda x: torch.tensor([1.0], device=A),
        lambda x: nn.Linear(2, 2).to(A), torch.vmap(lambda v: v.cpu() + 1),
    ],
)  # fmt: skip
def test_what_begin_raises_reaches_the_user_as_it_is_and_nothing_moves(
    move: Callable[[torch.Tensor], object],
) -> None:
    x = torch.ones(2, device=A)
    before = torch.sim.memory_allocated(1)
    with watch(forbid), pytest.raises(TransferForbiddenError, match="not ") as caught:
        move(x)
    assert type(caught.value) is TransferForbiddenError
    assert caught.value.__cause__ is None
    assert torch.sim.memory_allocated(1) == before


def test_a_target_is_not_written_when_begin_raises() -> None:
    x, target = torch.ones(2, device=A), torch.zeros(2, device=B)
    with watch(forbid), pytest.raises(TransferForbiddenError):
        target.copy_(x)
    assert target.tolist() == [0.0, 0.0]


def test_what_is_raised_in_backward_reaches_the_user() -> None:
    x = torch.ones(2, device=A, requires_grad=True)
    loss = x.to(B).sum()
    with watch(forbid), pytest.raises(TransferForbiddenError):
        loss.backward()
    assert x.grad is None


# -- scopes ---------------------------------------------------------------------------------------


def test_scopes_may_end_in_any_order_and_leave_other_modes_alone() -> None:
    first: list[str] = []
    second: list[str] = []
    x = torch.ones(2, device=A)
    one, two = (watch(lambda moved, to=to: to.append(moved.operation)) for to in (first, second))
    one.__enter__()
    with torch.device(B):
        two.__enter__()
        one.__exit__(None, None, None)
        x.cpu()
        assert torch.ones(1).device == torch.device(B)
        loss = torch.ones(1, device=A, requires_grad=True).to(B).sum()
        loss.backward()
        two.__exit__(None, None, None)
        assert torch.ones(1).device == torch.device(B)
        x.cpu()
    assert (first, second) == ([], ["Tensor.cpu", "Tensor.to", "Tensor.backward"])


# -- what it costs --------------------------------------------------------------------------------


def test_the_first_operator_does_not_import_the_compiler(python: Any) -> None:
    done = python(
        "import sys, torch, unidev\n"
        "with unidev.use_backend('torch'), unidev.active_backend().tracer.watch(print, print):\n"
        "    torch.ones(2) + 1\n"
        "print('torch._dynamo' in sys.modules)"
    )
    assert done.stdout == "False\n", done.stderr
