"""Asynchronous tasks that take turns, and threads that run at once."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


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


def in_threads(function: Callable[[Any], Any], arguments: Sequence[Any]) -> list[Any]:
    """What the function returns for each argument, all at once, in as many threads."""
    with ThreadPoolExecutor(len(arguments)) as threads:
        return list(threads.map(function, arguments))


def in_a_thread(function: Callable[[], Any]) -> Any:
    """What the function returns in another thread, which has ended then."""
    return in_threads(lambda _: function(), [None])[0]
