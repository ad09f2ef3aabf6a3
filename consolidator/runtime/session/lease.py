"""The lease on a session: which process drives it now. A heartbeat renews it; whoever takes over need not ask.

No database connection is held meanwhile. A holder that died on this machine is recognised by its process and not
waited for.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, TypeVar

from consolidator.database import Connection, Database
from consolidator.errors import NotFound, SessionBusy, StaleEpoch
from consolidator.llm.redaction.redact import redact
from consolidator.models.event import NewEvent, with_principals
from consolidator.models.session import SessionRow
from consolidator.process import has_ended, owner_name
from consolidator.runtime.session.boundaries import boundary
from consolidator.store.log import events
from consolidator.store.log.events import AppendResult, AppendStatement
from consolidator.store.queries import Bound, fetch_together
from consolidator.store.turns import lease as store
from consolidator.store.turns import spend
from consolidator.store.turns.context import load_view

log = logging.getLogger("consolidator.runtime")
T = TypeVar("T")
POLL_SECONDS = 0.5  # between two checks for a steer
RENEWALS = 3  # of a lease before it would run out


def uptime() -> float:
    """Return seconds since the machine started, its sleep included where the system can tell: leases do not sleep."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class Steered(Exception):
    """A person steered: what is in flight is cancelled."""


class Lease:
    """A session that this process drives, until it releases or loses it.

    `async with` renews the lease and releases it at the end, whatever ended the block.
    """

    def __init__(self, database: Database, rows: Sequence[list[Any]], *, seconds: float, since: float) -> None:
        self.database = database
        self.rows: Sequence[list[Any]] | None = rows  # of `open_end`, as they were when the lease was acquired
        session: SessionRow = rows[0][0]
        self.session_id: str = session.id
        self.epoch: int = session.lease_epoch
        self.session = session  # as it was when the lease was acquired
        self.open_task: str | None = session.open_task  # as far as this process knows
        self.seen_to: int = session.head  # steers up to here are known
        self._is_steered = self._is_lost = False
        self._work = asyncio.timeout(None)  # what runs; entered by `run_unless_steered`
        self._seconds = seconds
        self._good_until = since + seconds  # by `uptime`
        self.is_released = False  # by the last write
        self._ended = False
        self._heartbeat: asyncio.Task[None] | None = None
        self._first_beat: asyncio.TimerHandle | None = None  # most turns end before it

    async def __aenter__(self) -> Lease:
        self._first_beat = asyncio.get_running_loop().call_later(self._poll_seconds, self._start_heartbeat)
        return self

    def _start_heartbeat(self) -> None:
        self._heartbeat = asyncio.create_task(self._renew())

    @property
    def _poll_seconds(self) -> float:
        return min(POLL_SECONDS, self._seconds / 4)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended = True  # an error that hides the cancellation must not keep the heartbeat running
        try:
            if self._first_beat is not None:
                self._first_beat.cancel()
            if self._heartbeat is not None:
                await cancel_and_wait(self._heartbeat)
        finally:
            if not self.is_released and not self._is_lost:
                await asyncio.shield(self.release())

    async def append(
        self, conn: Connection, new: Sequence[NewEvent], *, now: datetime, statement: AppendStatement | None = None
    ) -> AppendResult:
        """Append events as the session's holder, in the open task; raise StaleEpoch if another harness holds it."""
        appended = await events.append(
            conn,
            self.session_id,
            with_principals(new),
            now=now,
            epoch=self.epoch,
            open_task=self.open_task,
            statement=statement,
        )
        self.open_task = appended.open_task
        return appended

    def check_valid(self) -> None:
        """Raise StaleEpoch if the lease may have run out. Call it before any effect that the database cannot fence."""
        if self._is_lost or uptime() >= self._good_until:
            raise StaleEpoch(f"session {self.session_id}: the lease ran out before it was renewed")

    def mark_seen(self, seq: int) -> None:
        """Note that everything up to an event is known: a steer up to there interrupts nothing any more."""
        self.seen_to = seq
        self._is_steered = False

    async def run_unless_steered(self, work: Awaitable[T]) -> T:
        """Run work while the session is held; cancel it on a steer (raises Steered) or a lost lease (StaleEpoch)."""
        work_until = asyncio.timeout(None)
        try:
            async with work_until:
                self._work = work_until
                if self._is_steered or self._is_lost:
                    self._cancel_work()
                return await work
        except TimeoutError as error:
            if not work_until.expired():
                raise
            if self._is_lost:
                raise StaleEpoch(f"session {self.session_id}: epoch {self.epoch} is over") from error
            raise Steered from error

    def steer(self) -> None:
        """Cancel what runs, or else what runs next, unless that has seen the steer."""
        self._is_steered = True
        self._cancel_work()

    def _lose(self) -> None:
        self._is_lost = True
        self._cancel_work()

    def _cancel_work(self) -> None:
        with suppress(RuntimeError):  # nothing runs
            self._work.reschedule(0)

    async def _renew(self) -> None:
        """Renew the lease in time and check for steers. Retry any failure until the lease has run out."""
        renewed_at = self._good_until - self._seconds
        failing = False
        low = self.session.last_event_at
        while True:
            try:
                async with self.database.connection() as conn:
                    now = uptime()
                    if now - renewed_at >= self._seconds / RENEWALS:
                        until = self.database.clock.now() + timedelta(seconds=self._seconds)
                        with boundary("renewal"):
                            await store.renew(conn, self.session_id, self.epoch, until=until)
                        renewed_at, self._good_until = now, now + self._seconds

                    seen_to = self.seen_to
                    steered = await store.poll_steering(conn, self.session_id, self.epoch, seen_seq=seen_to, low=low)
                    if steered and seen_to == self.seen_to:
                        self.steer()
                failing = False
            except StaleEpoch:
                self._lose()
                return
            except Exception as error:  # noqa: BLE001 - an exhausted pool, a standby, a timeout: all may pass
                if self._ended:
                    return
                if not failing:
                    log.warning("session %s: heartbeat missed: %s", self.session_id, _describe(error))
                failing = True
                if uptime() >= self._good_until:
                    self._lose()
                    return
            await asyncio.sleep(self._poll_seconds)

    async def release(self) -> None:
        """Release the session, or let the lease run out: a failure here must not hide the result of the work."""
        try:
            with boundary("release"):
                async with self.database.connection() as conn:
                    await store.release(conn, self.session_id, self.epoch)
        except Exception as error:  # noqa: BLE001 - see above
            log.warning("session %s could not be released: %s", self.session_id, _describe(error))


def _describe(error: Exception) -> str:
    return redact(f"{type(error).__name__}: {error}")


async def cancel_and_wait(task: asyncio.Task[Any]) -> None:
    """Cancel a task and wait for its end; raise its own error. A cancellation of the caller is not mistaken for it."""
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.result()


@asynccontextmanager
async def hold_session(
    database: Database, session_id: str, *, seconds: float, lease: Lease | None = None
) -> AsyncIterator[Lease]:
    """Hold a session for the block, by a new lease if there is none yet. Raises SessionBusy and NotFound."""
    lease = lease or await acquire_lease(database, session_id, seconds=seconds)
    if lease is None:
        raise SessionBusy(f"session {session_id} is driven by another process")
    async with lease:
        if lease.session.reserved:  # by a dead process: only a holder of the session reserves money
            with boundary("commit spend"):
                async with database.connection() as conn:
                    await spend.settle_open(conn, session_id, database.clock.now())
        yield lease


def open_end(session_id: str) -> list[Bound]:
    """Return what a step reads first: the session with the fold of its past, and after it the open end of its log."""
    return [query.together(session_id) for query in (load_view, events.read_open_end)]


async def acquire_lease(database: Database, session_id: str, *, seconds: float) -> Lease | None:
    """Acquire a session's lease; None if another harness holds it. Raises NotFound."""
    owner, dead_owner = owner_name(), None
    async with database.connection() as conn:
        since, now = uptime(), database.clock.now()  # before the query: ours must not end after the row's
        until = now + timedelta(seconds=seconds)
        while True:
            acquire = store.acquire.together(session_id, owner, now=now, until=until, dead_owner=dead_owner)
            with boundary("lease"):
                rows = await fetch_together(conn, [acquire, *open_end(session_id)])
            if rows[0]:
                return Lease(database, rows[1:], seconds=seconds, since=since)
            holders = await store.get_holder(conn, session_id)
            if not holders:
                raise NotFound(f"no session {session_id!r}")
            if dead_owner is not None or holders[0] is None or not has_ended(holders[0]):
                return None
            dead_owner = holders[0]
