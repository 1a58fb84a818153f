"""NumPy's meaning of shapes and of Gluon's operators, for a while, in this thread."""

from __future__ import annotations

import mxnet as mx  # type: ignore[import-untyped]

from unidev_mxnet.native_calls import numpy_shapes


class numpy_semantics:  # noqa: N801  reads as the scope that it is
    """``with numpy_semantics():`` is a scoped ``mx.npx.set_np()``.

    Inside it Gluon creates ``mx.np.ndarray`` parameters, and its layers compute with them.
    """

    __slots__ = ("_arrays", "_shapes")

    def __enter__(self) -> None:
        self._shapes = numpy_shapes()
        self._shapes.__enter__()
        self._arrays = mx.util.np_array(True)
        self._arrays.__enter__()

    def __exit__(self, *exc_info: object) -> None:
        self._arrays.__exit__(*exc_info)
        self._shapes.__exit__(*exc_info)
