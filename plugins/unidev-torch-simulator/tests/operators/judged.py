"""What one operator does on a simulated GPU, beside what it does on the CPU."""

from __future__ import annotations

import contextlib
import math
import warnings
from itertools import islice
from typing import TYPE_CHECKING, Any
from unittest import SkipTest

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_map

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OPERATORS = {op.full_name: op for op in op_db}

SAMPLES = 100
"""Of each operator and dtype, evenly from the first ones to the last."""
OF_SO_MANY = 200
LARGEST = 20_000
"""Elements of all tensors of a sample."""

SPARSE_SAMPLES = 20
"""Of each sparse layout, the first ones."""
_SPARSE = (
    torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc
)  # fmt: skip

_CPU = torch.device("cpu")
_UNINITIALISED = frozenset(
    {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"}
)
"""Operators whose results have no values yet."""

_STAY_ON_THE_CPU = frozenset({"tensor_split"})
"""Operators whose arguments of integers are on the CPU, on CUDA too."""

_MIX_DEVICES = frozenset(
    {"broadcast_tensors", "expand_as", "reshape_as", "resize_as_", "view_as"}  # for its shape
    | {"to"}  # for its device
    | {"nn.functional.ctc_loss"}  # moves the targets
    | {"diff"}  # of order 0 ignores the others
)
"""Operators that take tensors of two devices, on CUDA too."""

_TAKE_NUMBERS = frozenset(
    """
    __getitem__ _unsafe_masked_index add addcmul allclose as_strided_scatter atan2 atleast_1d
    atleast_2d atleast_3d copysign dist div eq float_power floor_divide fmax fmin fmod ge gt
    heaviside histogram hypot index_fill index_put isclose ldexp le lerp linalg.pinv
    linalg.vecdot linspace logical_and logical_or logical_xor logspace lt masked_fill max
    maximum min minimum mul narrow ne pow remainder rsub select_scatter sub true_divide where
    xlogy
    nn.functional.batch_norm nn.functional.binary_cross_entropy_with_logits
    nn.functional.cosine_embedding_loss nn.functional.gaussian_nll_loss
    nn.functional.hinge_embedding_loss nn.functional.kl_div nn.functional.l1_loss
    nn.functional.linear nn.functional.margin_ranking_loss
    nn.functional.multilabel_soft_margin_loss nn.functional.pairwise_distance
    nn.functional.poisson_nll_loss nn.functional.scaled_dot_product_attention
    nn.functional.soft_margin_loss
    """.split()  # noqa: SIM905  70 names
)
"""Operators that take some CPU tensor without dimensions for a number, on CUDA too.

Also all of ``masked.``, ``special.`` and the reflected ones.
"""

_ANOTHER_FORMULA = frozenset(
    {"nn.functional.scaled_dot_product_attention", "nn.functional.linear_cross_entropy"}
)
"""Operators for which PyTorch has another formula on other devices, which rounds differently."""
_THEN_WITHIN = {torch.float32: 1e-4, torch.float16: 5e-2, torch.bfloat16: 2e-1}

_WIDE = {torch.float16: torch.float32, torch.bfloat16: torch.float32}
_WIDE |= {torch.complex32: torch.complex64}
"""What stands in where the CPU lacks a dtype that CUDA has: its result is rounded."""


class Difference(AssertionError):
    """The simulated GPU does something else than the CPU."""


class _CpuRefuses(Exception):
    """There is nothing to compare with."""


def judge(name: str, dtype_name: str, device: torch.device) -> str:
    """``right``, ``not on the CPU``, or what is wrong, beginning with ``refused`` or ``wrong``."""
    op, dtype = OPERATORS[name], getattr(torch, dtype_name)
    where = "cpu"
    if dtype not in op.supported_dtypes("cpu"):
        # torch.fft has half precision for no other name.
        is_named = device.type == "cuda" or not name.startswith("fft.")
        if not is_named or dtype not in _WIDE or dtype not in op.supported_dtypes("cuda"):
            return "not on the CPU"
        where = "cuda"
    has_gradient = op.supports_autograd and dtype in op.supported_backward_dtypes(where)
    torch.manual_seed(0)
    is_mixed = op.name in _MIX_DEVICES
    takes_numbers = op.name in _TAKE_NUMBERS | _MIX_DEVICES | _STAY_ON_THE_CPU
    takes_numbers = takes_numbers or op.name.startswith(("masked.", "special.", "__r"))
    count = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample in _samples(op, dtype, has_gradient):
            is_lacking = where != "cpu"
            try:
                with contextlib.suppress(_CpuRefuses):
                    _compare_forms(op, sample, device, dtype, is_lacking=is_lacking)
                    count += 1
                    is_mixed = is_mixed or _refuses_a_mixture(op, sample, device)
                    is_dense = all(
                        each.layout == torch.strided for each in _tensors(_parts(sample))
                    )
                    if is_dense and not takes_numbers:
                        _takes_no_number(op, sample, device)
            except NotImplementedError as error:
                return f"refused: {_line(error)} for {_line(sample.summary())}"
            except Exception as error:  # noqa: BLE001  this is what is looked for
                kind = "" if isinstance(error, Difference) else f"{type(error).__name__}: "
                return f"wrong: {kind}{_line(error)} for {_line(sample.summary())}"
    return "right" if count else "not on the CPU"


def _compare_forms(
    op: Any, sample: Any, device: torch.device, dtype: torch.dtype, *, is_lacking: bool
) -> None:
    try:
        _Comparison(op, sample, device, dtype if is_lacking else None).of_all_forms()
    except Difference:
        if is_lacking or dtype not in _WIDE:
            raise
        # The CPU may round more often, which is coarser.
        _Comparison(op, sample, device, dtype).of_all_forms()


def _line(text: object) -> str:
    return " ".join(str(text).split())[:400]


# -- arguments ------------------------------------------------------------------------------------


def _samples(op: Any, dtype: torch.dtype, has_gradient: bool) -> Iterator[Any]:
    every = op.sample_inputs("cpu", dtype, requires_grad=has_gradient)
    if op.name == "linalg.lstsq":  # whose other drivers CUDA refuses
        every = (sample for sample in every if sample.kwargs["driver"] == "gels")
    if op.name == "renorm" and dtype.is_complex:  # NaN on the CPU, which takes float64 for it
        every = (sample for sample in every if sample.args[0] != math.inf)
    small = [each for each in islice(every, OF_SO_MANY) if _size(each) <= LARGEST]
    step = max(1, math.ceil(len(small) / SAMPLES))
    yield from small[::step]
    if dtype not in op.supported_dtypes("cpu"):
        return  # no sparse ones to compare with
    for layout in filter(op.supports_sparse_layout, _SPARSE):
        with contextlib.suppress(NotImplementedError, SkipTest):  # torch lists no samples of some
            every = op.sample_inputs_sparse(layout, "cpu", dtype, requires_grad=False)
            yield from [each for each in islice(every, SPARSE_SAMPLES) if _size(each) <= LARGEST]


def _size(sample: Any) -> int:
    return sum(each.numel() for each in _tensors(_parts(sample)))


def _parts(sample: Any) -> tuple[Any, Any, Any]:
    return sample.input, sample.args, sample.kwargs


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [each for each in tree_flatten(tree)[0] if isinstance(each, torch.Tensor)]


def _moved(
    tree: Any, place_of: Callable[[int, torch.Tensor], torch.device], device: torch.device
) -> Any:
    """The same arguments: new leaves, each where ``place_of`` its number has it, or on a device."""
    moved: dict[int, torch.Tensor] = {}

    def move(each: Any) -> Any:
        if isinstance(each, torch.Tensor):
            if id(each) not in moved:  # one tensor given twice stays one
                new = each.detach().to(place_of(len(moved), each), copy=True)
                moved[id(each)] = new.requires_grad_(each.requires_grad)
            return moved[id(each)]
        is_cpu = each == "cpu" or (isinstance(each, torch.device) and each == _CPU)
        return device if is_cpu else each

    return tree_map(move, tree)


# -- one sample -----------------------------------------------------------------------------------


class _Comparison:
    """An operator's results, gradients and other forms for one sample."""

    def __init__(
        self, op: Any, sample: Any, device: torch.device, lacking: torch.dtype | None
    ) -> None:
        self._op = op
        self._sample = sample
        self._device = device
        self._lacking = lacking  # a dtype that the CPU does not have here

    def _widened(self, tree: Any) -> Any:
        def widen(each: Any) -> Any:
            if isinstance(each, torch.Tensor) and each.dtype in _WIDE:
                return each.detach().to(_WIDE[each.dtype]).requires_grad_(each.requires_grad)
            return _WIDE.get(each, each) if isinstance(each, torch.dtype) else each

        return tree_map(widen, tree) if self._lacking else tree

    def _rounded(self, dtype: torch.dtype) -> torch.dtype:
        if self._lacking is None or dtype not in _WIDE.values():
            return dtype
        real = torch.bfloat16 if self._lacking == torch.bfloat16 else torch.float16
        return torch.complex32 if dtype == torch.complex64 else real

    def of_all_forms(self) -> None:
        """The operator itself, in place, and with ``out=``."""
        op = self._op

        def call(first: Any, *args: Any, **kwargs: Any) -> Any:
            return self._sample.output_process_fn_grad(op(first, *args, **kwargs))

        expected = self._compare_call("the result", call)
        with torch.no_grad():
            if op.inplace_variant is not None and not self._sample.broadcasts_input:
                with contextlib.suppress(_CpuRefuses):
                    self._compare_call("the result in place", op.inplace_variant, as_leaves=False)
            if op.supports_out and isinstance(expected, torch.Tensor):
                for shape in (expected.shape, (0,)):
                    with contextlib.suppress(_CpuRefuses):
                        form = self._with_out(shape, expected.dtype)
                        self._compare_call("the result in out=", form, as_leaves=False)

    def _compare_call(self, what: str, call: Any, *, as_leaves: bool = True) -> Any:
        stays = self._op.name in _STAY_ON_THE_CPU

        def place_of(_: int, tensor: torch.Tensor) -> torch.device:
            return _CPU if stays and tensor.dtype == torch.int64 else self._device

        parts = _parts(self._sample)
        here = self._widened(_moved(parts, lambda _, __: _CPU, _CPU))
        there = _moved(parts, place_of, self._device)
        if not as_leaves:
            for each in _tensors((here, there)):
                each.requires_grad_(False)
        before = torch.get_rng_state()
        try:
            expected = call(here[0], *here[1], **here[2])
        except Exception as error:
            raise _CpuRefuses from error
        is_drawn = not torch.equal(before, torch.get_rng_state())
        has_values = not is_drawn and self._op.name not in _UNINITIALISED
        # Without a tensor or a device among the arguments, the default device is meant.
        with contextlib.nullcontext() if _tensors(there) else self._device:
            found = call(there[0], *there[1], **there[2])
        self._compare(what, found, expected, has_values=has_values)
        if not stays:
            self._compare("an argument, then", there, here, has_values=has_values)
        if as_leaves:
            self._compare_gradients((found, there), (expected, here), has_values=has_values)
        return expected

    def _compare_gradients(self, found: Any, expected: Any, *, has_values: bool) -> None:
        outputs, inputs = (_with_gradient(each) for each in expected)
        if not outputs or not inputs:
            return
        generator = torch.Generator().manual_seed(0)
        weights = [
            torch.randn(x.shape, dtype=x.dtype, generator=generator).to(self._rounded(x.dtype))
            for x in outputs
        ]
        given = [weight.to(x.dtype) for weight, x in zip(weights, outputs, strict=True)]
        try:
            wanted = torch.autograd.grad(outputs, inputs, given, allow_unused=True)
        except Exception:  # noqa: BLE001  the CPU has no gradient here
            return
        outputs, inputs = (_with_gradient(each) for each in found)
        weights = [weight.to(x.device) for weight, x in zip(weights, outputs, strict=True)]
        found = torch.autograd.grad(outputs, inputs, weights, allow_unused=True)
        self._compare("a gradient", found, wanted, has_values=has_values)

    def _compare(self, what: str, found: Any, expected: Any, *, has_values: bool) -> None:
        ours, theirs = tree_flatten(found)[0], tree_flatten(expected)[0]
        if len(ours) != len(theirs):
            raise Difference(f"{what} has {len(ours)} parts, on the CPU {len(theirs)}")
        for x, y in zip(ours, theirs, strict=True):
            if type(x) is not type(y):
                raise Difference(f"{what} is a {type(x).__name__}, on the CPU {type(y).__name__}")
            if isinstance(x, torch.Tensor):
                self._compare_tensors(what, x, y, has_values=has_values)
            elif has_values and isinstance(x, bool | int | float | complex) and not _is_same(x, y):
                raise Difference(f"{what} is {x}, on the CPU {y}")

    def _compare_tensors(
        self, what: str, x: torch.Tensor, y: torch.Tensor, *, has_values: bool
    ) -> None:
        # A sample may name `cuda` itself.
        device = self._device if y.device == _CPU else y.device
        if x.device != device:
            raise Difference(f"{what} is on {x.device}")
        y = y.to(self._rounded(y.dtype))
        rounds = self._op.name in _ANOTHER_FORMULA or self._lacking is not None
        has_strides = not rounds and x.layout == y.layout == torch.strided
        for word in ("dtype", "layout", "shape", *(["stride"] if has_strides else [])):
            ours, theirs = (
                each.stride() if word == "stride" else getattr(each, word) for each in (x, y)
            )
            if ours != theirs:
                raise Difference(f"{what} has the {word} {ours}, on the CPU {theirs}")
        if not has_values:
            return
        within = _THEN_WITHIN.get(x.dtype) if rounds else None
        x, y = x.detach().cpu(), y.detach().cpu()
        try:
            if self._lacking is None:
                torch.testing.assert_close(x, y, equal_nan=True, rtol=within, atol=within)
            else:
                _check_rounded(x, y)
        except AssertionError as error:
            raise Difference(f"{what}: {error}") from None

    def _with_out(self, shape: Any, dtype: torch.dtype) -> Callable[..., Any]:
        def call(first: Any, *args: Any, **kwargs: Any) -> Any:
            (device, *_) = [x.device for x in _tensors((first, args, kwargs))] or [None]
            own = dtype if device in (_CPU, None) else self._rounded(dtype)
            # Initialised: fft.ihfft2 on one axis leaves it as it is, on the CPU too (seen in 2.13).
            out = torch.ones(shape, dtype=own, device=device)
            return self._op(first, *args, **kwargs, out=out)

        return call


def _check_rounded(x: torch.Tensor, y: torch.Tensor) -> None:
    """Of a composite each step is rounded, and ``y`` is once: 2 % of the largest value, or 0.005.

    Raises:
        AssertionError: they differ by more.
    """
    x, y = (each.to(_WIDE.get(each.dtype, each.dtype)) for each in (x, y))
    is_there = x.isfinite() & y.isfinite()  # a step may overflow
    if is_there.any():
        largest, error = y[is_there].abs().max(), (x - y)[is_there].abs().max()
        assert error <= 0.02 * largest + 0.005, f"it differs by {error}, of {largest}"
    assert 2 * is_there.sum() >= y.isfinite().sum(), "it is not finite where the rounded one is"


def _is_same(x: complex, y: complex) -> bool:
    return x == y or (math.isnan(abs(x)) and math.isnan(abs(y)))


def _with_gradient(tree: Any) -> list[torch.Tensor]:
    return [each for each in _tensors(tree) if each.requires_grad]


# -- mixtures of devices --------------------------------------------------------------------------


def _refuses_a_mixture(op: Any, sample: Any, device: torch.device) -> bool:
    """Whether the sample can be mixed: floating tensors with dimensions, no indices and numbers.

    Raises:
        Difference: one of them on the CPU was taken.
    """
    tensors = _different_tensors(sample)
    if len(tensors) < 2 or not all(x.dim() and x.is_floating_point() for x in tensors):
        return False
    for chosen in range(len(tensors)):
        mixed = _moved(
            _parts(sample), lambda number, _, one=chosen: _CPU if number == one else device, device
        )
        try:
            op(mixed[0], *mixed[1], **mixed[2])
        except RuntimeError as error:
            # The second one of convolutions.
            if "device" in str(error).lower() or "Input type (" in str(error):
                continue
            raise
        raise Difference(f"argument {chosen} on the CPU, among others on {device}, is taken")
    return True


def _takes_no_number(op: Any, sample: Any, device: torch.device) -> None:
    """Each tensor in turn is one without dimensions, of the CPU: all are refused, by any error.

    Raises:
        Difference: one was taken.
    """
    tensors = _different_tensors(sample)
    for chosen in range(len(tensors)) if len(tensors) > 1 else ():
        mixed = _moved(_parts(sample), lambda *_: device, device)
        one = _different_tensors(mixed)[chosen]
        number = (one.reshape(-1)[0] if one.numel() else one.new_zeros(())).detach().cpu()
        given = tree_map(
            lambda each, one=one, number=number: number if each is one else each, mixed
        )
        try:
            op(given[0], *given[1], **given[2])
        except Exception:  # noqa: BLE001  its shape may be wrong, too
            continue
        raise Difference(f"argument {chosen} as a number of the CPU is taken")


def _different_tensors(tree: Any) -> list[torch.Tensor]:
    parts = tree if isinstance(tree, tuple) else _parts(tree)
    return list({id(each): each for each in _tensors(parts)}.values())
