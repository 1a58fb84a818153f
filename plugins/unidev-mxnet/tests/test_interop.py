"""``convert`` between NumPy and MXNet."""

from __future__ import annotations

import numpy as np
import pytest

import unidev
from unidev.errors import UnsupportedOperation


def test_bool_is_copied_and_stays_bool() -> None:
    x = np.array([True, False])
    with pytest.raises(UnsupportedOperation, match="do not exchange this dtype"):
        unidev.convert(x, "mxnet", copy=False)
    y = unidev.convert(x, "mxnet")
    assert y.dtype == np.bool_
    assert unidev.convert(y, "numpy").tolist() == [True, False]


def test_a_copy_has_read_its_source_when_it_returns() -> None:
    x = np.ones(10**6, np.float32)
    y = unidev.convert(x, "mxnet", copy=True)
    x[:] = 0
    assert float(y.sum()) == 10**6
