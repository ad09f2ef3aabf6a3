"""Concurrent work that stops as a whole when one part fails, and work that is given up when somebody asks to stop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

from consolidator.errors import Interrupted

T = TypeVar("T")


async def gather(*work: Coroutine[Any, Any, T]) -> list[T]:
    """Return the results in order; the first error cancels the others and is raised when they have ended."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(coroutine) for coroutine in work]
    except BaseExceptionGroup as errors:
        first = errors.exceptions[0]
    else:
        return [task.result() for task in tasks]
    raise first  # outside of the except block, to keep its own cause


async def unless_stopped(work: Awaitable[T], stop: asyncio.Event | None, message: str) -> T:
    """Return the result of work that may take long; raise Interrupted at once when `stop` is set.

    What it does in a thread goes on there.
    """
    done = asyncio.ensure_future(work)
    stopping = asyncio.create_task((stop or asyncio.Event()).wait())
    try:
        await asyncio.wait((done, stopping), return_when=asyncio.FIRST_COMPLETED)
        if not done.done():
            raise Interrupted(message)
        return done.result()
    finally:
        done.cancel()
        stopping.cancel()
