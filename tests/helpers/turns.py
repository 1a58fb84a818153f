"""Asynchronous tasks that take turns."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def in_turns(*functions: Callable[[], Iterable[Any]]) -> list[list[Any]]:
    """Run tasks of these generators in one loop, a step of each in turn; the results of each."""

    async def task(function: Callable[[], Iterable[Any]], seen: list[Any]) -> None:
        for result in function():
            seen.append(result)
            await asyncio.sleep(0)

    async def main() -> list[list[Any]]:
        seen: list[list[Any]] = [[] for _ in functions]
        await asyncio.gather(*map(task, functions, seen))
        return seen

    return asyncio.run(main())
