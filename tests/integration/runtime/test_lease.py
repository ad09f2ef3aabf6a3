"""The lease is kept up whatever befalls its heartbeat, and never believed to last longer than its row says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import psycopg
import pytest
import sqlalchemy.exc

from consolidator.clock import FrozenClock
from consolidator.database import Connection, Database
from consolidator.errors import StaleEpoch
from consolidator.runtime.session import lease
from consolidator.runtime.turn import sessions as turn_sessions
from consolidator.store.sessions import sessions
from consolidator.store.turns import lease as store
from consolidator.testing import ModelServer, ScriptedReply
from consolidator.testing.kill_points import interrupt_at
from tests.integration.locks import wait_for_lock
from tests.reuse import dsn, emptied
from tests.runtime import KEY, SECRET, open_agent, send_and_collect
from tests.support import PATIENCE, log_events, user_message

__all__ = ["dsn", "emptied"]  # fixtures
SECONDS = 60.0
ERRORS = [
    sqlalchemy.exc.TimeoutError(f"the pool is exhausted, {SECRET}"),
    psycopg.errors.ReadOnlySqlTransaction(f"not on this one, {SECRET}"),
    psycopg.errors.QueryCanceled(f"statement timeout, {SECRET}"),
    psycopg.OperationalError(f"connection refused, {SECRET}"),
]


class FlakyDatabase(Database):
    """A database of which nothing can be had while it has an error."""

    error: Exception | None = None
    refused = 0

    @asynccontextmanager
    async def connection(self, *, for_step: bool = False) -> AsyncIterator[Connection]:
        """Raise the error, if there is one."""
        if self.error is not None:
            self.refused += 1
            raise self.error
        async with super().connection(for_step=for_step) as conn:
            yield conn


@pytest.fixture
async def flaky_database(dsn: str, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FlakyDatabase]:
    """A database on whose clock leases run out, and whose heartbeats come at once; it has a session `s`."""
    monkeypatch.setattr(lease, "POLL_SECONDS", 0.001)
    monkeypatch.setattr(lease, "uptime", lambda: clock.now().timestamp())
    opened = FlakyDatabase(dsn, clock)
    await log_events(opened, "s", [user_message("hello")])
    yield opened
    await opened.close()


async def acquire(database: Database) -> lease.Lease:
    """Take the session up."""
    acquired = await lease.acquire_lease(database, "s", seconds=SECONDS)
    assert acquired is not None
    return acquired


async def refused(database: FlakyDatabase) -> None:
    """Wait until the heartbeat was refused again and again."""
    async with asyncio.timeout(PATIENCE):
        while database.refused < 3:  # noqa: ASYNC110 - the database has no event for it
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
async def test_a_heartbeat_outlives_any_error(
    flaky_database: FlakyDatabase, clock: FrozenClock, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    renewed = asyncio.Event()
    with interrupt_at(1, lambda _: renewed.set(), "after renewal"):
        async with await acquire(flaky_database) as acquired:
            flaky_database.error = error
            await refused(flaky_database)
            flaky_database.error = None
            clock.advance(timedelta(seconds=SECONDS / 2))
            async with asyncio.timeout(PATIENCE):
                await renewed.wait()
            acquired.check_valid()
    assert type(error).__name__ in caplog.text
    assert SECRET not in caplog.text


async def test_who_cannot_renew_until_the_lease_has_run_out_has_lost_it(
    flaky_database: FlakyDatabase, clock: FrozenClock
) -> None:
    async with asyncio.timeout(PATIENCE), await acquire(flaky_database) as acquired:
        flaky_database.error = ERRORS[0]
        await refused(flaky_database)
        clock.advance(timedelta(seconds=SECONDS))
        with pytest.raises(StaleEpoch):
            await acquired.run_unless_steered(asyncio.Event().wait())


async def test_a_session_that_cannot_be_given_back_does_not_hide_what_came_of_the_work(
    flaky_database: FlakyDatabase,
) -> None:
    async def work() -> None:
        async with await acquire(flaky_database):
            flaky_database.error = ERRORS[0]
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await work()


async def test_a_lease_begins_before_the_wait_for_its_row(flaky_database: FlakyDatabase, clock: FrozenClock) -> None:
    async with flaky_database.transaction() as conn:
        await sessions.lock(conn, ["s"])
        taking = asyncio.create_task(acquire(flaky_database))
        await wait_for_lock(flaky_database)
        clock.advance(timedelta(seconds=SECONDS / 2))
    acquired = await taking
    acquired.check_valid()
    clock.advance(timedelta(seconds=SECONDS / 2))
    assert acquired.session.lease_until == clock.now()
    with pytest.raises(StaleEpoch):
        acquired.check_valid()


async def test_a_lease_begins_after_the_wait_for_a_connection(
    dsn: str, flaky_database: FlakyDatabase, clock: FrozenClock
) -> None:
    single = Database(dsn, clock, pool_size=1)
    try:
        async with single.connection():
            taking = asyncio.create_task(acquire(single))
            await asyncio.sleep(0)  # it has asked for the connection
            clock.advance(timedelta(seconds=SECONDS / 2))
        acquired = await taking
    finally:
        await single.close()
    assert acquired.session.lease_until == clock.now() + timedelta(seconds=SECONDS)


async def test_what_was_sent_is_recorded_even_where_another_has_taken_the_session_over(
    database: Database, clock: FrozenClock
) -> None:
    await log_events(database, "s", [user_message("hello")])
    acquired = await acquire(database)
    marks = {"settled": 1, "delivered": 1, "head": 1, "pending": False, "channel": "direct", "now": clock.now()}
    async with database.connection() as conn:
        stale = acquired.epoch - 1
        sent = {"message": "m", "upto": 1, "started": 1}
        assert await store.release_settled(conn, "s", stale, **marks, **sent) is None
        assert (await sessions.get(conn, "s")).lease_owner is not None
        recorded = await (await conn.execute("select message_id, upto_seq from delivery")).fetchall()
        assert recorded == [("m", 1)]
        assert await store.release_settled(conn, "s", acquired.epoch, **marks) is False
        assert (await sessions.get(conn, "s")).lease_owner is None


async def test_a_message_whose_sender_goes_away_leaves_its_session_to_others(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed, may_go_on = asyncio.Event(), asyncio.Event()
    append = turn_sessions.append_message

    async def slow(*args: Any, **options: Any) -> Any:
        appended = await append(*args, **options)
        committed.set()
        await may_go_on.wait()
        return appended

    monkeypatch.setattr(turn_sessions, "append_message", slow)
    async with (
        ModelServer(answers=lambda _: ScriptedReply("hi")) as server,
        open_agent(database, server) as agent,
    ):
        session = await agent.open(KEY)
        sending = asyncio.create_task(send_and_collect(session, "hello"))
        await committed.wait()
        sending.cancel()
        may_go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await sending
        async with database.connection() as conn:
            row = await sessions.get(conn, session.id)
    assert (row.pending, row.lease_owner) == (True, None)
