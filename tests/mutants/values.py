"""Copies that are copies, of something a little different: values, dtypes, shapes, views."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mutants.mutant import around, in_place_of, mutant, replace_value
from unidev.tensors import generator

if TYPE_CHECKING:
    from collections.abc import Callable


def _change_copies(backend: Any, change: Callable[[Any], Any]) -> None:
    """Let ``change`` edit what is copied: a plain array that the copy owns, and gives back."""

    @around(backend)
    def copy_to(copy: Any, self: Any, x: Any, device: Any, non_blocking: bool) -> Any:
        made = change(np.asarray(copy(self, x, device, non_blocking)).view(np.ndarray))
        return self._on(made, device)


@mutant("copy.values_bit_exact")
def nan_payload_flushed(backend):
    """Every NaN becomes the default one: what WebGPU and ``-ffast-math`` kernels may do."""

    def canonical(made):
        if made.dtype.kind == "f":
            made[np.isnan(made)] = np.nan
        return made

    _change_copies(backend, canonical)


@mutant("copy.values_bit_exact")
def negative_zero_lost(backend):
    """-0.0 becomes 0.0: a copy by ``x + 0``, the recipe of many a TensorFlow answer."""
    _change_copies(backend, lambda made: made + 0 if made.dtype.kind == "f" else made)


@mutant("copy.values_bit_exact")
def subnormals_flushed(backend):
    """Subnormal numbers become 0: ``torch.set_flush_denormal``, TF's threads."""

    def flush(made):
        if made.dtype.kind == "f":
            made[np.abs(made) < np.finfo(made.dtype).smallest_normal] = 0
        return made

    _change_copies(backend, flush)


@mutant("copy.float64_and_int64_not_narrowed", "copy.values_bit_exact")
def float64_narrowed(backend):
    """float64 becomes float32: MPS, which has none, and JAX without ``jax_enable_x64``."""

    _change_copies(
        backend, lambda made: made.astype("float32") if made.dtype == np.float64 else made
    )


@mutant("copy.float64_and_int64_not_narrowed")
def int64_values_narrowed(backend):
    """int64 in name, int32 on the way: JAX without ``jax_enable_x64``."""

    def through_int32(made):
        return made.astype("int32").astype("int64") if made.dtype == np.int64 else made

    _change_copies(backend, through_int32)


@mutant("create.each_dtype_on_each_device", "errors.unsupported_dtype", around="from_numpy")
def unknown_dtype_becomes_another(make, self, array, dtype, device):
    """uint16 silently becomes something else: Paddle takes it for bfloat16 through DLPack."""
    return make(self, array, "int32" if dtype == "uint16" else dtype, device)


@mutant("copy.shape_kept")
def copy_squeezes(backend):
    """Dimensions of length 1 are lost: a copy by way of ``numpy.squeeze`` or a foreign format."""

    _change_copies(backend, np.squeeze)


@mutant("copy.zero_d")
def zero_d_becomes_one_d(backend):
    """``()`` becomes ``(1,)``: MXNet without ``np_shape``, and ``numpy.ascontiguousarray``."""

    _change_copies(backend, np.atleast_1d)


@mutant("create.zero_d", around="from_numpy")
def new_zero_d_becomes_one_d(make, self, array, dtype, device):
    """A number becomes a tensor of one dimension: MXNet in a thread without ``np_shape``."""
    return make(self, array.reshape(array.shape or (1,)), dtype, device)


@mutant("copy.zero_size")
def zero_size_loses_its_shape(backend):
    """``(0, 3)`` becomes ``(0,)``: MXNet without ``np_shape`` takes a 0 for "not known"."""
    _change_copies(backend, lambda made: made if made.size else made.reshape(0))


@mutant("create.zero_size", around="from_numpy")
def new_zero_size_loses_its_shape(make, self, array, dtype, device):
    """``(0, 3)`` becomes ``(0,)`` when it is made: MXNet without ``np_shape``."""
    return make(self, array if array.size else array.reshape(0), dtype, device)


@mutant("copy.from_a_view", around="copy_to")
def copy_reads_a_view_in_memory_order(copy, self, x, device, non_blocking):
    """A view's strides are overlooked: ``memcpy`` of what is not contiguous."""
    import numpy as np

    packed = x.view(np.ndarray).ravel(order="K").reshape(x.shape)
    return (
        self._on(packed.copy(), device)
        if not x.flags.c_contiguous
        else copy(self, x, device, non_blocking)
    )


@mutant("copy.from_a_view", around="copy_to")
def copy_of_a_view_is_a_view(copy, self, x, device, non_blocking):
    """Contiguous tensors are copied, views of them shared: ``x.contiguous()`` the wrong way."""
    if not x.flags.c_contiguous and self.device_of(x) is device:
        return x.view()
    return copy(self, x, device, non_blocking)


@mutant("copy.from_a_broadcast", around="copy_to")
def broadcast_collapsed(copy, self, x, device, non_blocking):
    """The repeated dimension is copied once: the storage is copied, not the tensor."""
    once = x[tuple(slice(0, 1) if step == 0 else slice(None) for step in x.strides)]
    return copy(self, once if x.size > 1 else x, device, non_blocking)


@mutant("copy.strings_ragged_sparse", around="copy_to")
def text_returns_self(copy, self, x, device, non_blocking):
    """What is no number is passed along: ``tf.identity`` of a string tensor."""
    return x if x.dtype.kind in "USV" else copy(self, x, device, non_blocking)


@mutant("values.tensors_convert_as_lists_do")
def small_numbers_grow_in_float16(backend):
    """4e-24 as float16 is 7e-05: Paddle's own cast."""

    cast = backend.cast

    def grow(self, x, dtype, device):
        made = cast(self, x, dtype, device)
        if np.dtype(dtype) == np.float16 and x.dtype.kind == "f":
            plain = np.asarray(x).view(np.ndarray)
            made.view(np.ndarray)[(plain > 0) & (plain < 1e-20)] = 7e-5
        return made

    replace_value(backend, "cast", grow)


@mutant("values.of_a_seed")
def seeds_have_32_bits(backend):
    """Two seeds give one sequence: ``numpy.random.seed``, had it not refused the longer one."""
    seed = generator.seed

    @in_place_of(seed)
    def of_32_bits(n):
        return seed(n % 2**32)
