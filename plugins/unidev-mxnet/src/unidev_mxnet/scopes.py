"""NumPy's meaning of shapes and of Gluon's operators, for a while, in this thread."""

from __future__ import annotations

from contextlib import nullcontext

import mxnet as mx  # type: ignore[import-untyped]

from unidev_mxnet.native_calls import numpy_shapes


class numpy_semantics:  # noqa: N801  reads as the scope that it is
    """``with numpy_semantics():`` is a scoped ``mx.npx.set_np()``.

    Inside it Gluon creates ``mx.np.ndarray`` parameters, and its layers compute with them.
    ``shapes`` and ``arrays`` switch on one of the two, as far as they are on in another thread.
    """

    __slots__ = ("_arrays", "_shapes")

    def __init__(self, *, shapes: bool = True, arrays: bool = True) -> None:
        self._shapes = numpy_shapes() if shapes else nullcontext()
        self._arrays = mx.util.np_array(arrays)

    def __enter__(self) -> None:
        self._shapes.__enter__()
        self._arrays.__enter__()

    def __exit__(self, *exc_info: object) -> None:
        self._arrays.__exit__(*exc_info)
        self._shapes.__exit__(*exc_info)
