"""The memory of well-known cards, by the words that ``unidev simulate --like`` takes."""

from __future__ import annotations

CARD_BYTES = {"H100": 80 << 30, "A100": 80 << 30, "L4": 24 << 30, "T4": 16 << 30}
"""As the data sheets have it; the driver keeps some of it for itself."""
