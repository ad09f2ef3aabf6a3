"""A bounded pool of driver connections: the one that was used last is taken first, and a dead one is replaced."""

from __future__ import annotations

import asyncio
import select
import time
from collections import deque
from collections.abc import Awaitable, Callable

from psycopg.pq import TransactionStatus

from consolidator.database.partitions import Connection
from consolidator.errors import DatabaseUnavailable

_IDLE_SECONDS = 60.0  # a connection that nobody took for so long is closed when another is given back


class ConnectionPool:
    """Up to `size` connections; those that are given back stay open while they are used now and then.

    `psycopg_pool` opens connections in tasks of its own, which hide why one cannot be opened and cost each use twice
    as much.
    """

    def __init__(self, connect: Callable[[], Awaitable[Connection]], size: int, wait: float) -> None:
        self._connect = connect
        self._wait = wait  # seconds for a connection that others use
        self._free = asyncio.Semaphore(size)
        self._idle: deque[tuple[Connection, float]] = deque()  # with when it was given back, in that order
        self._closed = False
        self.used = 0

    async def take(self) -> Connection:
        """Return a connection for the caller alone; raise DatabaseUnavailable if others keep all of them too long."""
        if self._free.locked():
            try:
                async with asyncio.timeout(self._wait):
                    await self._free.acquire()
            except TimeoutError as error:
                raise DatabaseUnavailable("all connections to the database are in use; try again") from error
        else:
            await self._free.acquire()  # does not wait
        self.used += 1
        try:
            while self._idle:
                conn, _ = self._idle.pop()
                if not _is_dead(conn):
                    return conn
                await conn.close()
            return await self._connect()
        except BaseException:
            self._release()
            raise

    async def give_back(self, conn: Connection) -> None:
        """Keep a connection for the next user, or close it if a transaction is open on it."""
        now = time.monotonic()
        try:
            if conn.info.transaction_status == TransactionStatus.IDLE and not self._closed:
                self._idle.append((conn, now))
            else:
                await conn.close()
            if self._idle and now - self._idle[0][1] > _IDLE_SECONDS:
                await self._idle.popleft()[0].close()
        finally:
            self._release()

    async def close_idle(self) -> None:
        """Close the connections that nobody uses; the next user gets a new one."""
        while self._idle:
            await self._idle.pop()[0].close()

    async def close(self) -> None:
        """Close all connections, those in use as they are given back."""
        self._closed = True
        await self.close_idle()

    def _release(self) -> None:
        self.used -= 1
        self._free.release()


def _is_dead(conn: Connection) -> bool:
    """Tell whether the server has closed an idle connection: its socket is readable. Costs no round trip."""
    if conn.closed:
        return True
    poll = select.poll()
    poll.register(conn.fileno(), select.POLLIN | select.POLLHUP | select.POLLERR)
    return bool(poll.poll(0))
