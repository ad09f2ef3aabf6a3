"""One open database for all of a process's threads and event loops, on an event loop of its own.

It is opened when it is first used, and closed by its last user or when the process ends.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar
from weakref import WeakSet

from consolidator.service.database import Database, open_database
from consolidator.settings import Settings

Result = TypeVar("Result")
_EXIT_SECONDS = 30
_lock = threading.Lock()
_shared: dict[tuple[str, ...], SharedDatabase] = {}  # by address


class SharedDatabase:
    """The database of some settings; what uses it runs in its thread."""

    def __init__(self, settings: Settings) -> None:
        self.users: WeakSet[Any] = WeakSet()
        self._settings = settings
        self._opened: Future[Database] = Future()
        self._loop = asyncio.new_event_loop()
        self._closing = asyncio.Event()
        self._thread = threading.Thread(target=self._serve, name="consolidator-database", daemon=True)
        self._thread.start()

    @property
    def is_usable(self) -> bool:
        """Whether it is open or being opened, in this process: not closed, refused, or open before a fork."""
        return self._thread.is_alive() and not (self._opened.done() and self._opened.exception() is not None)

    async def run(self, call: Callable[[Database], Awaitable[Result]]) -> Result:
        """Return what a call gives, from any event loop. Raises what opening the database raised."""
        database = await asyncio.shield(asyncio.wrap_future(self._opened))

        async def run_call() -> Result:
            return await call(database)

        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(run_call(), self._loop))

    async def close(self) -> None:
        """Close the database; an embedded server ends if no other process uses it."""
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._closing.set)
        await asyncio.to_thread(self._thread.join)

    def close_at_exit(self) -> None:
        """Close the database while the interpreter ends, when no thread can be started any more."""
        if self.is_usable and self._opened.done():
            database = self._opened.result()
            with suppress(Exception):
                asyncio.run_coroutine_threadsafe(database.engine.dispose(), self._loop).result(_EXIT_SECONDS)
            if database.server is not None:
                database.server.stop_blocking()

    def _serve(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            try:
                runner.run(self._hold_open())
            except BaseException as error:
                if self._opened.done():
                    raise
                self._opened.set_exception(error)

    async def _hold_open(self) -> None:
        async with open_database(self._settings) as database:
            self._opened.set_result(database)
            await self._closing.wait()


def join_shared_database(settings: Settings, user: Any) -> SharedDatabase:
    """Return the process's database for these settings; `user` is one of its users until it leaves or is collected."""
    url = "" if settings.database_url is None else settings.database_url.get_secret_value()
    address = (url, str(settings.home), str(settings.postgres_bin), str(settings.clock))
    with _lock:
        shared = _shared.get(address)
        if shared is None or not shared.is_usable:
            shared = _shared[address] = SharedDatabase(settings)
        shared.users.add(user)
        return shared


async def leave_shared_database(shared: SharedDatabase, user: Any) -> None:
    """Close the database if `user` was its last one."""
    with _lock:
        shared.users.discard(user)
        if shared.users:
            return
        for address in [address for address, other in _shared.items() if other is shared]:
            del _shared[address]
    await shared.close()


def _close_all_at_exit() -> None:
    for shared in list(_shared.values()):
        shared.close_at_exit()


atexit.register(_close_all_at_exit)
os.register_at_fork(after_in_child=_shared.clear)  # a forked process has none of its parent's threads
