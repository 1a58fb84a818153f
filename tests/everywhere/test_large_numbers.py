"""Numbers beyond 64 bits, in dtypes that hold them, on every backend that is installed here."""

from importlib.util import find_spec

import pytest

import unidev
from unidev.backends.discovery import backend_specs

HERE = [name for name, spec in backend_specs().items() if find_spec(spec.framework) is not None]


@pytest.mark.filterwarnings("ignore:No ccache")  # a remark of Paddle, while it is imported
@pytest.mark.parametrize("value", [-(2**63) - 1, 2**64, -(2**100), 2**63])
@pytest.mark.parametrize("backend", HERE)
def test_full_takes_integers_of_more_than_64_bits(backend: str, value: int) -> None:
    with unidev.use_backend(backend):
        for dtype in ("float32", "float64"):
            x = unidev.full((2,), value, dtype=dtype)
            assert unidev.to_numpy(x).tolist() == [float(value)] * 2
        with pytest.raises(unidev.InvalidDataError, match="int64 cannot hold"):
            unidev.full((), value, dtype="int64")
        assert unidev.to_numpy(unidev.arange(-1, 2**63, 10**30)).tolist() == [-1]
