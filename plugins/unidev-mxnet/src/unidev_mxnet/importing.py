"""Importing MXNet 1.9.1, which was written for a NumPy that still had ``numpy.bool``."""

from __future__ import annotations

import importlib
import sys
import warnings
from typing import TYPE_CHECKING

from unidev import PluginError

if TYPE_CHECKING:
    from unidev.contract import Backend


def load_backend() -> type[Backend]:
    """MXNet's backend, whose module imports MXNet as any program does."""
    import_mxnet()
    from unidev_mxnet.backend import MxnetBackend

    return MxnetBackend


def import_mxnet() -> None:
    """Import MXNet, unless the program has done so, and leave NumPy as it was but for one name.

    ``numpy.bool``, gone from NumPy 1.24 to 1.26, stays as ``numpy.bool_``: MXNet asks for it not
    only while it is imported, but whenever an array is indexed with a condition.

    Raises:
        PluginError: the NumPy that is installed is not one that MXNet runs on; says which is.
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
        # MXNet asks for functions that NumPy deprecated, and for distutils: nothing to be done
        # about by whoever uses it, and fatal where warnings are errors. The first look is what
        # warns on a NumPy that has the name but deprecates it.
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", FutureWarning)
        if not hasattr(np, "bool"):
            np.bool = np.bool_  # type: ignore[attr-defined]
        importlib.import_module("mxnet")
