"""``Device``, for those who import it from here."""

from unidev.device import Device as Device  # noqa: PLC0414  an export
