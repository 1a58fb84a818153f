from __future__ import annotations

import numpy as np
import pytest

import unidev

KINDS = {
    "bytes": np.array([b"a"]),
    "long": np.zeros(2, np.longdouble),
    "a record array": np.zeros(2, "i4,f4").view(np.recarray),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_array_is_copied_to_the_bit(kind: str) -> None:
    x = KINDS[kind]
    y = unidev.copy_to(x, "cpu")
    assert (type(y), y.dtype, y.shape) == (type(x), x.dtype, x.shape)
    assert y.tobytes() == x.tobytes()
    assert y.flags.writeable
    assert not np.shares_memory(x, y)
    assert unidev.as_in_device(x, "cpu") is x


def test_a_likeness_has_the_mask_and_the_order() -> None:
    x = np.ma.masked_array([1, 2], mask=[True, False])
    assert unidev.ones_like(x).mask.tolist() == [True, False]
    assert unidev.zeros_like(np.asfortranarray(np.ones((2, 3)))).flags.f_contiguous


def test_a_subclass_cannot_be_moved_to_a_simulated_gpu_and_says_so(two_gpus: None) -> None:
    x = np.zeros(2, "i4,f4").view(np.recarray)
    with pytest.raises(unidev.UnsupportedOperation, match=r"moving a recarray to gpu:1.*asarray"):
        unidev.copy_to(x, "gpu:1")
    with pytest.raises(unidev.UnsupportedOperation, match=r"MaskedArray to gpu:1.*x\.filled\("):
        unidev.copy_to(np.ma.zeros(2), "gpu:1")


def test_an_array_of_objects_is_refused_as_its_copy_would_share_them() -> None:
    shared: list[int] = []
    for x in (np.array([shared, None], "O"), np.zeros(1, [("a", "O")])):
        for call in (lambda x: unidev.copy_to(x, "cpu"), unidev.to_numpy):
            with pytest.raises(unidev.UnsupportedDtypeError, match=r"copy\.deepcopy"):
                call(x)
        with pytest.raises(unidev.UnsupportedDtypeError):
            unidev.shares_memory(x, x)


@pytest.mark.parametrize("spec", ["bfloat16", "float", "f8", "O", np.void, np.dtype("U3"), int])
def test_other_dtypes_are_refused_with_those_there_are(spec: object) -> None:
    with pytest.raises(unidev.UnsupportedDtypeError, match=r"it has bool, int8, .*complex128"):
        unidev.array([1], dtype=spec)
