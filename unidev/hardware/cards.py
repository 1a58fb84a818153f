"""The memory of well-known cards, by the words that ``unidev simulate --like`` takes."""

from __future__ import annotations

CARD_BYTES = {"H100": 80 << 30, "A100": 80 << 30, "L4": 24 << 30, "T4": 16 << 30}
"""As the data sheets have it; the driver keeps some of it for itself."""


def card_bytes(word: str) -> int:
    """The memory of the card that ``unidev simulate --like`` calls ``word``: ``H100``, in bytes."""
    return CARD_BYTES[word]
