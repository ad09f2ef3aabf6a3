"""The lease on a session: who drives it now, kept up by a heartbeat, and lost without a word to whoever takes over.

No connection is held meanwhile. A holder that died on this machine is known by its process, and not waited for.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from datetime import timedelta
from types import TracebackType
from typing import Any, TypeVar

from consolidator.database import Database
from consolidator.errors import NotFound, SessionBusy, StaleEpoch
from consolidator.llm.redaction.redact import redact
from consolidator.process import is_gone, owner_name
from consolidator.runtime import budget
from consolidator.runtime.boundaries import around
from consolidator.store.log import lease as store
from consolidator.store.queries import Row

log = logging.getLogger("consolidator.runtime")
T = TypeVar("T")
TICK = 0.5  # seconds between two looks at whether somebody steers


def uptime() -> float:
    """Return seconds that go on while the machine sleeps, where it can tell: a lease does not sleep with it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class Steered(Exception):
    """A person wants something else now: what is in flight is cancelled."""


class Lease:
    """A session that this process drives, until it gives it back or loses it.

    `async with` keeps the lease up and gives it back at the end, whatever ended it.
    """

    def __init__(self, database: Database, row: Row, *, seconds: float, since: float) -> None:
        self.database = database
        self.session_id: str = row["id"]
        self.epoch: int = row["lease_epoch"]
        self.row = row  # as it was when the session was taken up
        self.seen: int = row["head"]  # steers up to here are known
        self.steered = asyncio.Event()
        self._lost = asyncio.Event()
        self._seconds = seconds
        self._good_until = since + seconds
        self._given_back = False
        self._ended = False
        self._beating: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Lease:
        self._beating = asyncio.create_task(self._beat())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended = True  # an error that takes the place of the heartbeat's cancellation must not keep it going
        try:
            if self._beating is not None:
                await cancelled(self._beating)
        finally:
            if not self._given_back and not self._lost.is_set():
                await asyncio.shield(self._release())

    def check(self) -> None:
        """Raise StaleEpoch where the lease may have run out: before anything that cannot be fenced."""
        if self._lost.is_set() or uptime() >= self._good_until:
            raise StaleEpoch(f"session {self.session_id}: the lease ran out before it was renewed")

    def knows(self, seq: int) -> None:
        """Note that all up to an event is known: a steer among it interrupts nothing any more."""
        self.seen = seq
        self.steered.clear()

    def gave_back(self) -> None:
        """Note that the session was given back together with its last write."""
        self._given_back = True

    async def unless_steered(self, work: Coroutine[Any, Any, T]) -> T:
        """Do work while the session is held; cancel it and raise on a steer (Steered), a lost lease (StaleEpoch)."""
        task = asyncio.create_task(work)
        signs = [asyncio.create_task(self.steered.wait()), asyncio.create_task(self._lost.wait())]
        try:
            await asyncio.wait([task, *signs], return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            await cancelled(task)
            if self._lost.is_set():
                raise StaleEpoch(f"session {self.session_id}: epoch {self.epoch} is over")
            raise Steered
        finally:
            for one in (task, *signs):
                one.cancel()
            await asyncio.gather(task, *signs, return_exceptions=True)

    async def _beat(self) -> None:
        """Renew the lease in time, and look for steers; whatever fails is tried until the lease has run out."""
        renewed = self._good_until - self._seconds
        failing = False
        low = self.row["last_event_at"]
        while True:
            await asyncio.sleep(min(TICK, self._seconds / 4))
            try:
                async with self.database.connection() as conn:
                    began = uptime()
                    if began - renewed >= self._seconds / 3:
                        until = self.database.clock.now() + timedelta(seconds=self._seconds)
                        with around("renewal"):
                            await store.renew(conn, self.session_id, self.epoch, until=until)
                        renewed, self._good_until = began, began + self._seconds
                    seen = self.seen
                    if await store.look(conn, self.session_id, self.epoch, seen=seen, low=low) and seen == self.seen:
                        self.steered.set()
                failing = False
            except StaleEpoch:
                self._lost.set()
                return
            except Exception as error:  # noqa: BLE001 - an exhausted pool, a standby, a timeout: all may pass in time
                if self._ended:
                    return
                if not failing:
                    log.warning("session %s: heartbeat missed: %s", self.session_id, _told(error))
                failing = True
                if uptime() >= self._good_until:
                    self._lost.set()
                    return

    async def _release(self) -> None:
        """Give the session back, or leave it to run out: what came of the work is not to be lost over that."""
        try:
            with around("release"):
                async with self.database.connection() as conn:
                    await store.release(conn, self.session_id, self.epoch)
        except Exception as error:  # noqa: BLE001 - see above
            log.warning("session %s could not be given back: %s", self.session_id, _told(error))


def _told(error: Exception) -> str:
    return redact(f"{type(error).__name__}: {error}")


async def cancelled(task: asyncio.Task[Any]) -> None:
    """Cancel a task and wait for its end; its own error is raised, and a cancellation of ours is not taken for its."""
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.result()


@asynccontextmanager
async def held(database: Database, session_id: str, *, seconds: float) -> AsyncIterator[Lease]:
    """Hold a session for a while; raise SessionBusy where another does, and NotFound for one that is not there."""
    lease = await acquire(database, session_id, seconds=seconds)
    if lease is None:
        raise SessionBusy(f"session {session_id} is driven by another process")
    async with lease:
        if lease.row["reserved"]:  # whoever set it aside is gone: money is only set aside by who holds the session
            with around("commit spend"):
                async with database.connection() as conn:
                    await budget.settle_open(conn, session_id, now=database.clock.now())
        yield lease


async def acquire(database: Database, session_id: str, *, seconds: float) -> Lease | None:
    """Take a session up; None where another harness drives it. Raises NotFound for a session that is not there."""
    owner = owner_name()
    async with database.connection() as conn:
        began, now = uptime(), database.clock.now()  # not after the query: the row's time must not end before ours
        until = now + timedelta(seconds=seconds)
        with around("lease"):
            found = await store.acquire(conn, session_id, owner, now=now, until=until)
        if found is None:
            held = await store.holder(conn, session_id)
            if held is None:
                raise NotFound(f"no session {session_id!r}")
            gone = held["lease_owner"]
            if gone is None or not is_gone(gone):
                return None
            with around("lease"):
                found = await store.acquire(conn, session_id, owner, now=now, until=until, gone=gone)
    return None if found is None else Lease(database, found, seconds=seconds, since=began)
