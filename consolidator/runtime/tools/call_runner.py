"""Runs an author's function, sync or async, to an end: a value, an error or a timeout. No exception of it escapes.

A function that ignores its cancellation is left behind after a short grace period. A thread cannot be stopped, but it
never delays the exit of the process.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

from pydantic_core import to_jsonable_python

from consolidator.runtime.session.outcome import Outcome

MAX_ITEMS = 10_000  # of an iterator that a tool returns
GRACE = 1.0  # seconds that a cancelled function has to clean up


@dataclass(frozen=True, slots=True)
class FunctionResult:
    """How a function ended: with a value that JSON can hold, an error, or a timeout."""

    value: Any = None
    error: BaseException | None = None
    timed_out: bool = False


async def run_function(function: Callable[[], Any], seconds: float | None) -> FunctionResult:
    """Run a function for at most `seconds`, in a thread where it is not async.

    Raises only CancelledError, when the caller itself is cancelled, and only after the function has ended.
    """
    task = asyncio.create_task(_call(function))
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        await _cancel(task)
        raise
    if not done:
        await _cancel(task)
        return FunctionResult(timed_out=True)
    return FunctionResult(error=asyncio.CancelledError()) if task.cancelled() else task.result()


async def _cancel(task: asyncio.Task[FunctionResult]) -> None:
    task.cancel()
    await asyncio.wait({task}, timeout=GRACE)


async def _call(function: Callable[[], Any]) -> FunctionResult:
    """Call a function and catch whatever it raises: the log records it."""
    try:
        value = function() if _is_async(function) else await _run_in_thread(function)
        if inspect.isawaitable(value):
            value = await value
        return FunctionResult(_to_json(value))
    except (asyncio.CancelledError, KeyboardInterrupt):  # ours, or the person's at the terminal
        raise
    except BaseException as error:  # noqa: BLE001 - a tool may raise anything; the outcome records it
        return FunctionResult(error=error)


def _is_async(function: Callable[[], Any]) -> bool:
    inner = getattr(function, "func", function)  # of a partial
    return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(getattr(inner, "__call__", None))  # noqa: B004


async def _run_in_thread(function: Callable[[], Any]) -> Any:
    """Run a function in its own thread: a pool would fill up with hanging threads and wait for them at exit."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[FunctionResult] = loop.create_future()
    context = contextvars.copy_context()

    def set_result(result: FunctionResult) -> None:
        if not future.done():
            future.set_result(result)

    def run() -> None:
        try:
            result = FunctionResult(context.run(function))
        except BaseException as error:  # noqa: BLE001 - raised again in the task that waits
            result = FunctionResult(error=error)
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(set_result, result)

    threading.Thread(target=run, name="tool", daemon=True).start()
    result = await future
    if result.error is not None:
        raise result.error
    return result.value


def _to_json(value: Any) -> Any:
    """Return a value as JSON can hold it: models and dataclasses as objects, anything else as its `str`."""
    if isinstance(value, Outcome):
        content = _to_json(value.content)
        patch = None if value.patch is None else _to_json(dict(value.patch))
        return Outcome(content, value.status, value.reason, patch, value.change)
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, Iterator):  # it may have no end
        items = list(islice(value, MAX_ITEMS + 1))
        value = [*items[:MAX_ITEMS], "[... more left out ...]"] if len(items) > MAX_ITEMS else items
    return to_jsonable_python(value, bytes_mode="base64", fallback=str)
