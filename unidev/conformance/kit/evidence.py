"""A check's observations, in a few lines of JSON: extents, bytes, values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unidev.contract.device import Device

_MOST = 8
"""Entries of one name beyond this number are only counted."""
_MOST_CHARACTERS = 200


class Evidence:
    """Collected while a check runs; goes into the report whatever the outcome."""

    def __init__(self) -> None:
        self._entries: dict[str, list[Any]] = {}
        self._counts: dict[str, int] = {}
        self._devices: dict[str, None] = {}

    def add(self, name: str, value: object) -> None:
        """Add ``value`` to the entries under ``name``."""
        entries = self._entries.setdefault(name, [])
        self._counts[name] = self._counts.get(name, 0) + 1
        if len(entries) < _MOST:
            entries.append(_short(value))

    def touch(self, *devices: Device) -> None:
        """Record that the check used these devices."""
        self._devices.update(dict.fromkeys(str(device) for device in devices))

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices that the check used."""
        return tuple(self._devices)

    def as_dict(self) -> dict[str, Any]:
        """Names to values; ``… of`` gives the total if not all were kept."""
        found: dict[str, Any] = {}
        for name, entries in self._entries.items():
            found[name] = entries[0] if self._counts[name] == 1 else entries
            if self._counts[name] > len(entries):
                found[f"{name}, first {len(entries)} of"] = self._counts[name]
        return found


def _short(value: object) -> object:
    if isinstance(value, str) and len(value) > _MOST_CHARACTERS:
        return value[:_MOST_CHARACTERS] + "…"
    return value
