"""Importing MXNet 1.9.1, which was written for versions of NumPy with ``numpy.bool``."""

from __future__ import annotations

import importlib
import sys
import warnings
from typing import TYPE_CHECKING

from unidev.errors import PluginError

if TYPE_CHECKING:
    from unidev.contract import Backend


def load_backend() -> type[Backend]:
    """MXNet's backend, whose module imports MXNet like any program."""
    import_mxnet()
    from unidev_mxnet.backend import MxnetBackend

    return MxnetBackend


def import_mxnet() -> None:
    """Import MXNet, unless the program has done so, and restore NumPy except for one name.

    ``numpy.bool``, missing from NumPy 1.24 to 1.26, stays as ``numpy.bool_``: MXNet uses it not
    only during import, but whenever an array is indexed with a condition.

    Raises:
        PluginError: MXNet does not run on the installed NumPy; names a version that works.
    """
    import numpy as np

    if "mxnet" not in sys.modules and int(np.__version__.partition(".")[0]) >= 2:
        raise PluginError(
            f"MXNet 1.9.1 does not run on NumPy {np.__version__}, which has removed functions "
            "that MXNet imports. Install the last NumPy that has them: "
            "pip install 'numpy==1.26.4'",
            backend="mxnet",
        )
    with warnings.catch_warnings():
        # MXNet uses deprecated functions of NumPy, and distutils: its users cannot change that, and
        # the warnings are fatal where warnings are errors. Reading the name already warns on a
        # NumPy that deprecates it.
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", FutureWarning)
        if not hasattr(np, "bool"):
            np.bool = np.bool_  # type: ignore[attr-defined]
        importlib.import_module("mxnet")
