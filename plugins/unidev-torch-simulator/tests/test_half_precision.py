"""Products in half precision: computed in float32 and rounded once, forward and backward."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HALVES = (torch.float16, torch.bfloat16)
ops = torch.ops.unidev_sim
GPU = torch.device("sim", 1)


@pytest.fixture(autouse=True)
def _by_float32() -> Iterator[None]:
    """Also where the CPU has instructions for one of them."""
    before = [ops.exchange_is_slow(dtype, True) for dtype in HALVES]
    yield
    for dtype, is_slow in zip(HALVES, before, strict=True):
        ops.exchange_is_slow(dtype, is_slow)


def in_out(function: Any) -> Callable[..., torch.Tensor]:
    def call(*given: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            # Of another size: it is resized.
            out = torch.empty(0, dtype=given[0].dtype, device=given[0].device)
            assert function(*given, out=out) is out
        return out

    return call


def in_place(name: str) -> Callable[..., torch.Tensor]:
    def call(first: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            written = first.detach().clone()
            assert getattr(written, name)(*others) is written
        return written

    return call


PRODUCTS: dict[str, tuple[Callable[..., torch.Tensor], str]] = {
    "mm": (torch.mm, "nk km"),
    "mm out": (in_out(torch.mm), "nk km"),
    "bmm": (torch.bmm, "bnk bkm"),
    "bmm out": (in_out(torch.bmm), "bnk bkm"),
    "addmm": (lambda *x: torch.addmm(*x, beta=0.5, alpha=2), "m nk km"),
    "addmm out": (in_out(torch.addmm), "nm nk km"),
    "addmm_": (in_place("addmm_"), "nm nk km"),
    "baddbmm": (torch.baddbmm, "nm bnk bkm"),
    "baddbmm_": (in_place("baddbmm_"), "bnm bnk bkm"),
    "addbmm": (torch.addbmm, "nm bnk bkm"),
    "addbmm_": (in_place("addbmm_"), "nm bnk bkm"),
    "addmv": (torch.addmv, "n nk k"),
    "mv": (torch.mv, "nk k"),
    "dot": (torch.dot, "k k"),
    "linear": (functional.linear, "nk mk m"),
    "matmul": (torch.matmul, "bnk km"),
    "conv1d": (lambda *x: functional.conv1d(*x, padding=1), "bcn mc3 m"),
    "conv2d": (lambda *x: functional.conv2d(*x, stride=2, padding=1), "bcnk mc33 m"),
    "conv3d": (lambda *x: functional.conv3d(*x, padding=1), "bc2nk mc333"),
    "conv_transpose2d": (functional.conv_transpose2d, "bcnk cm33 m"),
}


def tensors(draw: random.Random, shapes: str, dtype: torch.dtype) -> list[torch.Tensor]:
    """Of drawn sizes, 0 among them, and in drawn layouts."""
    choices = {"b": [0, 1, 3], "n": [1, 5, 32], "m": [1, 7, 33], "c": [4], "k": [0, 1, 6, 300]}
    if "c" in shapes:  # a convolution
        choices["k"] = [1, 6, 65]
    sizes = {letter: draw.choice(each) for letter, each in choices.items()}
    found = []
    for word in shapes.split():
        shape = [sizes.get(letter) or int(letter.isdigit() and letter) for letter in word]
        kind = draw.choice(["plain", "transposed", "strided", "expanded"])
        if kind == "transposed" and len(shape) > 1:
            x = torch.randn(*shape[:-2], shape[-1], shape[-2]).to(dtype).transpose(-1, -2)
        elif kind == "strided":
            x = torch.randn(*shape, 2).to(dtype)[..., 1]
        elif kind == "expanded":
            x = torch.randn(1, *shape[1:]).to(dtype).expand(shape)
        else:
            x = torch.randn(shape).to(dtype)
        found.append(x)
    return found


def placed(given: list[torch.Tensor], **to: Any) -> list[torch.Tensor]:
    """Leaves with the strides of the given ones."""
    return [
        torch.empty(0, dtype=x.dtype)
        .set_(x.untyped_storage(), x.storage_offset(), x.shape, x.stride())
        .to(**to)
        .requires_grad_()
        for x in given
    ]


def outcome(function: Any, given: list[torch.Tensor]) -> list[torch.Tensor]:
    """The result and the gradients, in float64 on the CPU."""
    result = function(*given)
    found = [result]
    if result.requires_grad:
        generator = torch.Generator().manual_seed(0)
        weight = torch.randn(result.shape, generator=generator).to(torch.bfloat16)  # in all exactly
        found += torch.autograd.grad(result, given, weight.to(result.dtype).to(result.device))
    assert all(x.device == given[0].device and x.dtype == given[0].dtype for x in found)
    return [x.detach().cpu().double() for x in found]


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_is_float64s_rounded_once(name: str, dtype: torch.dtype) -> None:
    function, shapes = PRODUCTS[name]
    seed = random.randrange(10**6)
    draw = random.Random(seed)
    torch.manual_seed(seed)
    half_ulp = torch.finfo(dtype).eps / 2
    for _ in range(6):
        given = tensors(draw, shapes, dtype)
        exact = outcome(function, placed(given, dtype=torch.float64))
        own = outcome(function, placed(given, dtype=dtype))
        found = outcome(function, placed(given, device=GPU))
        for x, y, by_cpu in zip(found, exact, own, strict=True):
            assert x.shape == y.shape
            # Sums in float32 err by far less than a rounding; near zero float16 has no more digits.
            rest = 2e-5 * (1 + y.abs().amax() if y.numel() else 1)
            assert ((x - y).abs() <= half_ulp * y.abs() + rest).all(), f"seed {seed}"
            assert not y.numel() or (x - y).abs().max() <= (by_cpu - y).abs().max() + rest


def test_torch_says_which_the_cpu_has_and_the_others_are_converted() -> None:
    x = torch.ones(4, 4, dtype=torch.float16, device=GPU)
    for is_slow in (True, False):
        ops.exchange_is_slow(torch.float16, is_slow)
        with torch.profiler.profile() as profile:
            x @ x
        assert ("aten::_to_copy" in {each.key for each in profile.key_averages()}) == is_slow


@pytest.mark.filterwarnings("ignore:ComplexHalf")
def test_other_precisions_are_refused_as_ever() -> None:
    x = torch.ones(2, 2, dtype=torch.float16, device=GPU)
    for other in (x.float(), x.bfloat16()):
        with pytest.raises(RuntimeError, match="same dtype"):
            x @ other
        with pytest.raises(RuntimeError, match="dtype"):
            torch.mm(x, x, out=other)
    z = torch.ones(3, dtype=torch.complex32, device=GPU)
    with pytest.raises(RuntimeError, match="single memory location"):
        torch.sin(z[1:], out=z[:-1])
