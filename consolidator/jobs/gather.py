"""Concurrent work that stops as a whole when one part fails."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

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
