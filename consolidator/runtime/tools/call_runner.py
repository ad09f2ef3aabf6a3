"""Runs code that is not ours, sync or async, to an end: a value, an error, or too late. Nothing it does escapes.

What ignores its cancellation is left behind after a short grace; a thread cannot be stopped, and never holds the exit.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pydantic_core import to_jsonable_python

from consolidator.runtime.tools.outcome import Outcome

GRACE = 1.0  # seconds that a cancelled function has to clean up


@dataclass(frozen=True, slots=True)
class Ended:
    """How a function ended; its value is what JSON can hold."""

    value: Any = None
    error: BaseException | None = None
    late: bool = False


async def run(function: Callable[[], Any], within: float | None) -> Ended:
    """Run a function, in a thread where it is not async; pass on only our own cancellation, after the function's."""
    work = asyncio.create_task(_ended(function))
    try:
        done, _ = await asyncio.wait({work}, timeout=within)
    except asyncio.CancelledError:
        await _stopped(work)
        raise
    if not done:
        await _stopped(work)
        return Ended(late=True)
    return Ended(error=asyncio.CancelledError()) if work.cancelled() else work.result()


async def _stopped(work: asyncio.Task[Ended]) -> None:
    work.cancel()
    await asyncio.wait({work}, timeout=GRACE)


async def _ended(function: Callable[[], Any]) -> Ended:
    """Return what came of a function; the widest net there is, since what it catches becomes part of the log."""
    try:
        value = function() if _is_async(function) else await _in_thread(function)
        if inspect.isawaitable(value):
            value = await value
        return Ended(_jsonable(value))
    except (asyncio.CancelledError, KeyboardInterrupt):  # ours, or the person's at the terminal
        raise
    except BaseException as error:  # noqa: BLE001 - a tool may raise anything; the outcome records it
        return Ended(error=error)


def _is_async(function: Callable[[], Any]) -> bool:
    inner = getattr(function, "func", function)  # of a partial
    return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(getattr(inner, "__call__", None))  # noqa: B004


async def _in_thread(function: Callable[[], Any]) -> Any:
    """Run a function in a thread of its own: a pool would fill up with those that hang, and wait for them at exit."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[Ended] = loop.create_future()
    context = contextvars.copy_context()

    def settle(how: Ended) -> None:
        if not ended.done():
            ended.set_result(how)

    def work() -> None:
        try:
            how = Ended(context.run(function))
        except BaseException as error:  # noqa: BLE001 - handed to the one that waits
            how = Ended(error=error)
        with suppress(RuntimeError):  # nobody waits any more: the loop is closed
            loop.call_soon_threadsafe(settle, how)

    threading.Thread(target=work, name="tool", daemon=True).start()
    how = await ended
    if how.error is not None:
        raise how.error
    return how.value


def _jsonable(value: Any) -> Any:
    """Return a value as JSON can hold it: models and dataclasses as objects, anything odd as its own words."""
    if isinstance(value, Outcome):
        content = _jsonable(value.content)
        patch = None if value.patch is None else _jsonable(dict(value.patch))
        return Outcome(content, value.status, value.reason, patch)
    if value is None or isinstance(value, str):
        return value or ""
    return to_jsonable_python(value, bytes_mode="base64", fallback=str)
