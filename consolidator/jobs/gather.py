"""Work done side by side, of which nothing goes on once some of it has failed."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def gather(*work: Coroutine[Any, Any, T]) -> list[T]:
    """Return what each gives, in order; the first error ends the others, and is raised when they have ended."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in work]
    except BaseExceptionGroup as errors:
        first = errors.exceptions[0]
    else:
        return [task.result() for task in tasks]
    raise first  # out here, so that it keeps its own cause
