"""The models of GPU that simulated ones can resemble, by name, size and capability."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from unidev.contract import card_bytes

if TYPE_CHECKING:
    from unidev.contract import SimulatedGpus


@dataclass(frozen=True)
class Model:
    """What programs ask a card about; numbers of NVIDIA's data sheets and of ``nvidia-smi``."""

    name: str
    capability: tuple[int, int]
    multiprocessors: int
    memory_bytes: int
    shared_memory_optin: int = 166_912
    l2_bytes: int = 40 << 20
    threads_of_multiprocessor: int = 2048


MODELS = {
    "H100": Model("NVIDIA H100 80GB HBM3", (9, 0), 132, card_bytes("H100"), 232_448, 50 << 20),
    "A100": Model("NVIDIA A100-SXM4-80GB", (8, 0), 108, card_bytes("A100")),
    "L4": Model("NVIDIA L4", (8, 9), 58, card_bytes("L4"), 101_376, 48 << 20, 1536),
    "T4": Model("Tesla T4", (7, 5), 40, card_bytes("T4"), 65_536, 4 << 20, 1024),
}
"""By the word in ``UNIDEV_SIMULATE_LIKE``."""

UNNAMED = Model("GPU", (8, 0), 108, 0)
"""Without a model: the capability of an A100, on which most programs run."""


def model_of(word: str | None) -> Model:
    """The model that ``UNIDEV_SIMULATE_LIKE`` names, in upper or lower case."""
    return MODELS.get(word.upper(), UNNAMED) if word else UNNAMED


def memory_of(gpus: SimulatedGpus) -> int:
    """The bytes of each GPU; 0 where the host's memory is the limit."""
    if gpus.memory_bytes is not None:
        return gpus.memory_bytes
    return model_of(gpus.like).memory_bytes
