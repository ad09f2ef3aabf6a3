"""One open database for all of a process's threads and event loops, on an event loop of its own.

It is opened when it is first used, and closed by its last user or when the process ends. Synchronous code reaches it,
too: it waits in its own thread for what runs on that loop.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar
from weakref import WeakSet

from consolidator.errors import UsageError
from consolidator.service.database import Database, open_database
from consolidator.settings import Settings, load_settings

Result = TypeVar("Result")
_EXIT_SECONDS = 30
_lock = threading.Lock()
_shared: dict[tuple[str, ...], SharedDatabase] = {}  # by address


class SharedDatabase:
    """The database of some settings; what uses it runs in its thread."""

    def __init__(self, settings: Settings) -> None:
        self.users: WeakSet[DatabaseUse] = WeakSet()
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

    def run_blocking(self, work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Return what a coroutine gives that runs on the database's loop; this thread waits, and cancels it if stopped.

        Raises what opening the database raised.
        """
        self._opened.result()
        future = asyncio.run_coroutine_threadsafe(work(), self._loop)
        try:
            return future.result()
        except BaseException:  # such as a KeyboardInterrupt: it must not go on unseen
            future.cancel()
            raise

    def close(self) -> None:
        """Close the database and wait for that; an embedded server ends if no other process uses it."""
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join()

    def close_at_exit(self) -> None:
        """Close the database while the interpreter ends, when no thread can be started any more."""
        if self.is_usable and self._opened.done():
            database = self._opened.result()
            with suppress(Exception):
                asyncio.run_coroutine_threadsafe(database.close_idle(), self._loop).result(_EXIT_SECONDS)
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


class DatabaseUse:
    """How one object of a program reaches the database: the process's shared one, or an open one of the program's own.

    The shared one is opened when it is first used. A `database` is used on the event loop that it was opened on.
    """

    def __init__(self, database: Database | None, settings: Settings | None) -> None:
        if database is not None and settings is not None:
            raise UsageError("a database has settings already: leave settings out")
        self._database = database
        self._settings = settings
        self._shared: SharedDatabase | None = None
        self.is_closed = False  # its owner may open it again by using it

    @property
    def settings(self) -> Settings:
        """The settings, those of the environment where there are no others."""
        if self._settings is None:
            self._settings = load_settings()
        return self._settings

    async def run(self, call: Callable[[Database], Awaitable[Result]]) -> Result:
        """Return what a call gives, from any event loop. Raises what opening the database raised."""
        if self._database is not None:
            return await call(self._database)
        return await self._join().run(call)

    def run_blocking(self, work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Return what a coroutine gives, from synchronous code; what it runs may use this object, too.

        Raises UsageError for a database of the program's own.
        """
        if self._database is not None:
            raise UsageError("a database that is open on an event loop cannot be used without one: leave it out")
        return self._join().run_blocking(work)

    def close(self) -> None:
        """Leave the shared database, and wait until it is closed if this was its last user."""
        self.is_closed = True
        shared, self._shared = self._shared, None
        if shared is not None and _leave(shared, self):
            shared.close()

    def _join(self) -> SharedDatabase:
        if self._shared is None or not self._shared.is_usable:
            self._shared = _join(self.settings, self)
        return self._shared


def _join(settings: Settings, user: DatabaseUse) -> SharedDatabase:
    """Return the process's database for these settings; `user` is one of its users until it leaves or is collected."""
    url = "" if settings.database_url is None else settings.database_url.get_secret_value()
    address = (url, str(settings.home), str(settings.postgres_bin), str(settings.clock))
    with _lock:
        shared = _shared.get(address)
        if shared is None or not shared.is_usable:
            shared = _shared[address] = SharedDatabase(settings)
        shared.users.add(user)
        return shared


def _leave(shared: SharedDatabase, user: DatabaseUse) -> bool:
    """Stop being a user of the database; tell whether none is left."""
    with _lock:
        shared.users.discard(user)
        if shared.users:
            return False
        for address in [address for address, other in _shared.items() if other is shared]:
            del _shared[address]
    return True


def _close_all_at_exit() -> None:
    for shared in list(_shared.values()):
        shared.close_at_exit()


atexit.register(_close_all_at_exit)
os.register_at_fork(after_in_child=_shared.clear)  # a forked process has none of its parent's threads
