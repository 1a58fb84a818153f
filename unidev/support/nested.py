"""``found_in``: objects in nested containers, by name."""

from __future__ import annotations

TYPE_CHECKING = False  # not typing's: importing that takes as long as all of unidev
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any


def found_in(
    value: Any, is_wanted: Callable[[Any], bool], name: str = ""
) -> Iterator[tuple[str, Any]]:
    """Each wanted object in nested dicts, lists and tuples, or ``value`` itself, with its name.

    ``name`` is that of ``value``; keys and positions follow it, as in ``state.momentum.0``.
    """
    if isinstance(value, (dict, list, tuple)):
        for key, child in value.items() if isinstance(value, dict) else enumerate(value):
            yield from found_in(child, is_wanted, f"{name}.{key}" if name else str(key))
    elif is_wanted(value):
        yield name, value
