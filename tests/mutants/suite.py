"""What the suite itself has to notice: lies, side effects, crashes and hangs."""

from __future__ import annotations

import os
import time

from mutants.mutant import mutant, replace, replace_value, toy_mutant

_A_PROBE_THAT_LIES = "smoke.probe_calibrated"


@mutant(_A_PROBE_THAT_LIES, around=".probe:NumpyProbe.extents")
def the_probe_lies(sound, self, x):
    """Every tensor object has its own address: the address of the wrapper, not of the bytes."""
    from unidev.contract.backend import Extent

    return [Extent(id(x), max(x.nbytes, 1))]


@mutant(_A_PROBE_THAT_LIES, around=".probe:NumpyProbe.extents")
def the_probe_says_same(sound, self, x):
    """Every tensor has one address: that of the allocator's arena, not of its block."""
    from unidev.contract.backend import Extent

    return [Extent(4096, 2**40)]


@mutant(_A_PROBE_THAT_LIES)
def the_probe_keeps_large_arrays(backend):
    """What the probe makes is the array itself if that is large and aligned: JAX's own calls."""
    from unidev.backends.numpy_backend.probe import NumpyProbe
    from unidev.backends.numpy_backend.simulated_array import SimulatedArray

    make = NumpyProbe.make

    @replace(NumpyProbe)
    def make(self, array, device, make=make):
        if array.nbytes < 100_000 or array.ctypes.data % 64:
            return make(self, array, device)
        return SimulatedArray.place(array, device) if device.kind == "gpu" else array.view()


@mutant("copy.gradient_reaches_the_source")
def says_unsupported_but_works(backend):
    """An ability is declared missing, and is there: a table of abilities kept by hand."""
    from unidev.backends.numpy_backend.probe import NumpyProbe
    from unidev.contract.backend import Unsupported

    class Works(Unsupported):
        """Says no, and does it."""

        def __call__(self, *_arguments, **_options):
            return _arguments[1]

    replace_value(NumpyProbe, "gradient", Works("NumPy has no autograd"))


@mutant("smoke.globals_restored", around="from_numpy")
def reseeds_the_global_generator(make, self, array, dtype, device):
    """Making a tensor seeds the framework's generator: ``mx.random.seed`` on first use."""
    import numpy as np

    np.random.seed(0)
    return make(self, array, dtype, device)


@mutant("smoke.globals_restored", around="copy_to")
def copying_changes_a_global_policy(copy, self, x, device, non_blocking):
    """A setting of the process is changed on the way: TF's ``set_soft_device_placement``."""
    import numpy as np

    np.seterr(over="raise")
    return copy(self, x, device, non_blocking)


# Of the toy, since mutants themselves import NumPy.
@toy_mutant("smoke.other_backend_imports_nothing", profile="tensor", on_discovery=True)
def imports_its_framework_when_found(backend):
    """The plugin imports its framework to register: ``import torch`` at the top of the module."""
    import toy_backend.framework  # noqa: F401  the import is all that it does


@toy_mutant("smoke.other_backend_imports_nothing", result="pass", profile="tensor")
def imports_its_framework_when_loaded(backend):
    """The plugin imports its framework when it is loaded: sound, and what the check allows."""


@mutant(
    "copy.disjoint_on_the_same_device",
    "copy.lands_on_the_device_asked_for",
    result="crash",
    around="copy_to",
)
def crash(sound, self, x, device, non_blocking):
    """The process is gone: DLPack of a TF string tensor, ``.numpy()`` of a sparse one of Paddle."""
    os.abort()


@mutant("copy.disjoint_on_the_same_device", result="timeout", around="copy_to")
def hang(sound, self, x, device, non_blocking):
    """It never comes back: frameworks in a child that was forked after they had begun."""
    while True:
        time.sleep(1)
