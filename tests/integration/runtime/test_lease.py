"""The lease is kept up whatever befalls its heartbeat, and never believed to last longer than its row says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import psycopg
import pytest
import sqlalchemy.exc

from consolidator.clock import FrozenClock
from consolidator.database import Connection, Database
from consolidator.errors import StaleEpoch
from consolidator.runtime import lease
from consolidator.store.log import sessions
from consolidator.testing.kill_points import interrupted_at
from tests.integration.locks import waiting
from tests.reuse import dsn, emptied
from tests.runtime import SECRET
from tests.support import PATIENCE, log_events, user_message

__all__ = ["dsn", "emptied"]  # fixtures
SECONDS = 60.0
ERRORS = [
    sqlalchemy.exc.TimeoutError(f"the pool is exhausted, {SECRET}"),
    psycopg.errors.ReadOnlySqlTransaction(f"not on this one, {SECRET}"),
    psycopg.errors.QueryCanceled(f"statement timeout, {SECRET}"),
    psycopg.OperationalError(f"connection refused, {SECRET}"),
]


class Poor(Database):
    """A database of which nothing can be had while it has an error."""

    error: Exception | None = None
    refused = 0

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Raise the error, if there is one."""
        if self.error is not None:
            self.refused += 1
            raise self.error
        async with super().connection() as conn:
            yield conn


@pytest.fixture
async def poor(dsn: str, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Poor]:
    """A database on whose clock leases run out, and whose heartbeats come at once; it has a session `s`."""
    monkeypatch.setattr(lease, "POLL_SECONDS", 0.001)
    monkeypatch.setattr(lease, "uptime", lambda: clock.now().timestamp())
    opened = Poor(dsn, clock)
    await log_events(opened, "s", [user_message("hello")])
    yield opened
    await opened.close()


async def taken_up(database: Database) -> lease.Lease:
    """Take the session up."""
    held = await lease.acquire_lease(database, "s", seconds=SECONDS)
    assert held is not None
    return held


async def refused(database: Poor) -> None:
    """Wait until the heartbeat was refused again and again."""
    async with asyncio.timeout(PATIENCE):
        while database.refused < 3:  # noqa: ASYNC110 - the database has no event for it
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
async def test_a_heartbeat_outlives_any_error(
    poor: Poor, clock: FrozenClock, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    renewed = asyncio.Event()
    with interrupted_at(1, lambda _: renewed.set(), "after renewal"):
        async with await taken_up(poor) as held:
            poor.error = error
            await refused(poor)
            poor.error = None
            clock.advance(timedelta(seconds=SECONDS / 2))
            async with asyncio.timeout(PATIENCE):
                await renewed.wait()
            held.check_valid()
    assert type(error).__name__ in caplog.text
    assert SECRET not in caplog.text


async def test_who_cannot_renew_until_the_lease_has_run_out_has_lost_it(poor: Poor, clock: FrozenClock) -> None:
    async with asyncio.timeout(PATIENCE), await taken_up(poor) as held:
        poor.error = ERRORS[0]
        await refused(poor)
        clock.advance(timedelta(seconds=SECONDS))
        with pytest.raises(StaleEpoch):
            await held.run_unless_steered(asyncio.Event().wait())


async def test_a_session_that_cannot_be_given_back_does_not_hide_what_came_of_the_work(poor: Poor) -> None:
    async def work() -> None:
        async with await taken_up(poor):
            poor.error = ERRORS[0]
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await work()


async def test_a_lease_begins_before_the_wait_for_its_row(poor: Poor, clock: FrozenClock) -> None:
    async with poor.transaction() as conn:
        await sessions.lock(conn, ["s"])
        taking = asyncio.create_task(taken_up(poor))
        await waiting(poor)
        clock.advance(timedelta(seconds=SECONDS / 2))
    held = await taking
    held.check_valid()
    clock.advance(timedelta(seconds=SECONDS / 2))
    assert held.session.lease_until == clock.now()
    with pytest.raises(StaleEpoch):
        held.check_valid()


async def test_a_lease_begins_after_the_wait_for_a_connection(dsn: str, poor: Poor, clock: FrozenClock) -> None:
    single = Database(dsn, clock, pool_size=1)
    single.engine.pool._max_overflow = 0  # type: ignore[attr-defined]
    try:
        async with single.connection():
            taking = asyncio.create_task(taken_up(single))
            await asyncio.sleep(0)  # it has asked for the connection
            clock.advance(timedelta(seconds=SECONDS / 2))
        held = await taking
    finally:
        await single.close()
    assert held.session.lease_until == clock.now() + timedelta(seconds=SECONDS)
