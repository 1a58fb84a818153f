"""A plugin whose framework can have simulated GPUs called ``cuda``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

PLUGIN = """
import sys
import unidev

class FakeSimulator(unidev.Simulator):
    prepared = None

    def start(self, count):
        print("start", count)

    def start_as(self, gpus):
        print("start", gpus.count, "as", gpus.name, gpus.memory_bytes, gpus.like)

    def refusal(self, gpus):
        if gpus.name in (None, "cuda"):
            return None
        return "its GPUs can only be called cuda: set UNIDEV_SIMULATE_AS=cuda"

    def before_import(self, gpus):
        if "fakeframework" in sys.modules:
            raise unidev.SimulationError("too late: import unidev before fakeframework")
        FakeSimulator.prepared = gpus
        print("prepare", gpus.count, "as", gpus.name, gpus.memory_bytes, gpus.like)

def load():
    import fakeframework
    from unidev.backends.numpy_backend.backend import NumpyBackend

    class Fake(NumpyBackend):
        tensor_types = ()

        def native_name(self, kind, index):
            return f"cuda:{index}" if kind == "gpu" else "cpu"

    return Fake

@unidev.hookimpl
def unidev_register_backend():
    return unidev.BackendSpec(
        name="fake", contract_version=3, framework="fakeframework", install="pip install it",
        load=load, simulator=FakeSimulator,
    )
"""


def write_plugin(folder: Path) -> None:
    """Write ``fakeplugin``, ``fakeframework`` and its entry point, found by what has ``folder``."""
    (folder / "fakeplugin.py").write_text(PLUGIN)
    (folder / "fakeframework.py").write_text("print('import')\n")
    info = folder / "fakeplugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fakeplugin\nVersion: 1.0")
    (info / "entry_points.txt").write_text("[unidev]\nfake = fakeplugin\n")
