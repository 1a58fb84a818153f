"""The contract of a backend: all that a plugin may import besides ``unidev``, ``unidev.errors``.

Each name is imported on first use, so ``import unidev`` does not pay for it.
"""

from __future__ import annotations

TYPE_CHECKING = False  # not typing's: importing that takes as long as all of unidev
if TYPE_CHECKING:
    from typing import Any

    from unidev.contract.autograd import Autograd as Autograd
    from unidev.contract.backend import (
        CONTRACT_VERSION as CONTRACT_VERSION,
    )
    from unidev.contract.backend import (
        Backend as Backend,
    )
    from unidev.contract.backend import (
        BackendSpec as BackendSpec,
    )
    from unidev.contract.backend import (
        Extent as Extent,
    )
    from unidev.contract.backend import (
        Memory as Memory,
    )
    from unidev.contract.backend import (
        Simulator as Simulator,
    )
    from unidev.contract.collectives import Collectives as Collectives
    from unidev.contract.device import Device as Device
    from unidev.contract.hookspecs import hookimpl as hookimpl
    from unidev.contract.installation import (
        Build as Build,
    )
    from unidev.contract.installation import (
        Installation as Installation,
    )
    from unidev.contract.installation import (
        Wheel as Wheel,
    )
    from unidev.contract.layers import (
        Array as Array,
    )
    from unidev.contract.layers import (
        Functions as Functions,
    )
    from unidev.contract.layers import (
        Layers as Layers,
    )
    from unidev.contract.layers import (
        Model as Model,
    )
    from unidev.contract.layers import (
        Pair as Pair,
    )
    from unidev.contract.models import Models as Models
    from unidev.contract.models import Stored as Stored
    from unidev.contract.optional import (
        Unsupported as Unsupported,
    )
    from unidev.contract.optional import (
        part as part,
    )
    from unidev.contract.optional import (
        unsupported as unsupported,
    )
    from unidev.contract.peak_memory import PeakCounter as PeakCounter
    from unidev.contract.probe import Probe as Probe
    from unidev.contract.tracer import (
        Patches as Patches,
    )
    from unidev.contract.tracer import (
        PlannedTransfer as PlannedTransfer,
    )
    from unidev.contract.tracer import (
        Recording as Recording,
    )
    from unidev.contract.tracer import (
        Tracer as Tracer,
    )
    from unidev.contract.training_probe import (
        AutogradProbe as AutogradProbe,
    )
    from unidev.contract.training_probe import (
        ModelProbe as ModelProbe,
    )
    from unidev.support.build_cache import build_once as build_once
    from unidev.support.wording import kind_of as kind_of

_NAMES = {
    "contract.autograd": "Autograd",
    "contract.backend": "Backend BackendSpec CONTRACT_VERSION Extent Memory Simulator",
    "contract.collectives": "Collectives",
    "contract.device": "Device",
    "contract.hookspecs": "hookimpl",
    "contract.installation": "Build Installation Wheel",
    "contract.layers": "Functions Layers",
    "contract.models": "Models Stored",
    "contract.optional": "Unsupported part unsupported",
    "contract.peak_memory": "PeakCounter",
    "contract.probe": "Probe",
    "contract.tracer": "Patches PlannedTransfer Recording Tracer",
    "contract.training_probe": "AutogradProbe ModelProbe",
    "support.build_cache": "build_once",
    "support.wording": "kind_of",
}
HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}
"""The module of each name, below ``unidev``."""


def __getattr__(name: str) -> Any:
    from importlib import import_module

    home = HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"unidev.{home}"), name)
    return value
