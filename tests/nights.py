"""Helpers for tests of the nightly jobs: working days to learn from, locks that stop a job, queries and dumps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import Any
from unittest import mock

import psycopg
from psycopg import sql

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.models.event import NewEvent
from consolidator.models.payload import EventType
from consolidator.settings import Settings
from consolidator.store.calls import error_records
from consolidator.store.memory import learned
from tests.databases import Row
from tests.forks import Fork
from tests.support import PATIENCE, assistant_response, call_and_result, later, log_events, run_job, user_message


def booking_events(number: int) -> list[NewEvent]:
    """Look up a customer, then their booking by its id, then change it: nine events."""
    user, booking = f"user_{number}", f"BK{number:04d}"
    return [
        user_message(f"Please move my booking, I am {user}"),
        *call_and_result("a", "get_user", {"user_id": user}, {"user_id": user, "bookings": [booking]}),
        *call_and_result("b", "get_booking", {"booking_id": booking}, {"booking_id": booking, "cabin": "economy"}),
        *call_and_result("c", "move_booking", {"booking_id": booking, "day": "monday"}, "moved"),
        assistant_response("It is moved."),
    ]


def cancelled_booking_events(number: int) -> list[NewEvent]:
    """Cancel a booking: beside these, the steps of `booking_events` predict better than their pairs; five events."""
    booking = f"BK{number:04d}"
    return [
        user_message(f"Please cancel {booking}"),
        *call_and_result("a", "get_booking", {"booking_id": booking}, {"booking_id": booking, "cabin": "economy"}),
        *call_and_result("b", "cancel_booking", {"booking_id": booking}, "cancelled"),
    ]


def failed_command_events(number: int) -> list[NewEvent]:
    """A failed command and its fix: five events."""
    wrong, right = {"command": f"pytets tests/unit_{number}.py"}, {"command": f"pytest tests/unit_{number}.py"}
    return [
        user_message("Run the tests"),
        *call_and_result("d", "Bash", wrong, "bash: pytets: command not found", "error"),
        *call_and_result("d", "Bash", right, "3 passed"),
    ]


def stated_fact(text: str = "From now on, always use tabs for indentation.") -> list[NewEvent]:
    """A message that states a fact: one event."""
    return [user_message(text)]


def approval_granted(word: str = "ApprovalGranted", command: str = "git push origin main") -> NewEvent:
    """A granted approval."""
    return NewEvent(EventType(word), {"call_id": "p", "tool": "Bash", "arguments": {"command": command}})


def workday_events(number: int) -> list[NewEvent]:
    """A session that teaches a procedure, a solution and a fact: sixteen events."""
    return [*stated_fact(), *booking_events(number), *failed_command_events(number), approval_granted()]


async def log_workdays(
    database: Database, count: int, *, begin: int = 0, agent: str = "coder", **columns: Any
) -> list[str]:
    """Log `count` working days, one session each; return the session ids."""
    names = [f"{agent}-{begin + n:02d}" for n in range(count)]
    for n, name in enumerate(names, begin):
        await log_events(database, name, workday_events(n), agent=agent, **{"project": "shop", **columns})
    return names


async def query_rows(database: Database, query: str, *values: Any) -> list[Row]:
    """Return the rows of a query as dicts."""
    async with database.connection() as conn, conn.cursor(row_factory=psycopg.rows.dict_row) as cursor:
        await cursor.execute(query, values or None)
        return await cursor.fetchall()


async def query_number(database: Database, query: str, *values: Any) -> int:
    """Return the single number that a query selects."""
    (row,) = await query_rows(database, query, *values)
    return int(next(iter(row.values())))


async def dump_tables(database: Database, *, leave_out: tuple[str, ...] = ()) -> dict[str, list[Any]]:
    """Return every row of every table in order; the rows of partitions belong to their parent."""
    tables = await query_rows(
        database,
        "select relname as name from pg_class where relkind in ('r', 'p') and not relispartition "
        "and relnamespace = current_schema()::regnamespace order by 1",
    )
    rows_by_table = {}
    async with database.connection() as conn:
        for name in (table["name"] for table in tables):
            if name not in leave_out:
                query = sql.SQL("select t::text from {} t order by 1").format(sql.Identifier(name))
                rows_by_table[name] = await (await conn.execute(query)).fetchall()
    return rows_by_table


async def assert_ledger_balances(database: Database) -> None:
    """Assert that each unit and each run that ended saw = learned + nothing + deferred + dead, and ended all units."""
    claims = await query_rows(database, "select * from claim")
    assert all(c["seen"] == c["learned"] + c["nothing"] + c["deferred"] + c["dead"] for c in claims)
    for run in await query_rows(database, "select * from run where status in ('done', 'failed')"):
        own_claims = [c for c in claims if c["run_id"] == run["id"]]
        # Retention deletes the claims of old runs; their reports keep the sums.
        if own_claims and run["job"] in ("consolidation", "backfill") and run["error"] is None:
            for name in ("seen", "learned", "nothing", "deferred", "dead"):
                assert run["report"][name] == sum(c[name] for c in own_claims)
            assert all(c["status"] in ("done", "dead") for c in own_claims)


async def all_learned(database: Database) -> bool:
    """Tell whether no session has events to learn from."""
    return await query_number(database, "select count(*) from session where due") == 0


@contextmanager
def hold_locks(dsn: str, statement: str, *values: Any) -> Iterator[psycopg.Connection[Any]]:
    """Hold the locks of a statement, in a transaction of its own, until the block ends."""
    with psycopg.connect(dsn, options="-c search_path=consolidator") as conn:
        conn.execute(statement, values or None)
        yield conn
        conn.rollback()


@contextmanager
def start_cli(*arguments: str, environment: Mapping[str, str]) -> Iterator[Fork]:
    """Start the command line; kill it when the block ends."""
    process = Fork(arguments, environment=environment)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


async def wait_for_lock_waiters(dsn: str, minimum: int = 1) -> None:
    """Wait until at least `minimum` connections wait for a lock."""
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as conn, asyncio.timeout(PATIENCE):
        query = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
        while True:
            row = await (await conn.execute(query)).fetchone()
            if row is not None and row[0] >= minimum:
                return
            await asyncio.sleep(0.02)


def wait_until_signal_taken(process: Fork) -> None:
    """Wait until a process has no pending signal."""
    while True:
        with open(f"/proc/{process.pid}/status", encoding="utf-8") as status:
            pending = [int(line.split()[1], 16) for line in status if line.startswith(("SigPnd", "ShdPnd"))]
        if not any(pending):
            return


async def wait_until_counted(database: Database, query: str, *values: Any) -> None:
    """Wait until a counting query returns more than 0."""
    async with asyncio.timeout(PATIENCE):
        while True:
            if await query_number(database, query, *values):
                return
            await asyncio.sleep(0.02)


@asynccontextmanager
async def open_replica(database: Database) -> AsyncIterator[Database]:
    """Open the database a second time, as another replica does: with its own pool and the same clock."""
    owner_dsn = database.owner_dsn if database.owner_dsn != database.dsn else None
    other = Database(database.dsn, database.clock, owner_dsn=owner_dsn)
    try:
        yield other
    finally:
        await other.close()


async def run_next_night(database: Database, clock: FrozenClock, settings: Settings, **span: float) -> dict[str, Any]:
    """Advance the clock, by an hour unless `span` says otherwise, and run a consolidation."""
    clock.set(later(clock.now(), **(span or {"hours": 1})))
    return await run_job(database, settings)


@contextmanager
def limit_records(number: int) -> Iterator[None]:
    """Have solutions be made of so many of the latest error records."""
    queries = error_records.list_of_fingerprints, error_records.count_with_news, learned.save_failed_again
    with ExitStack() as stack:
        for query in queries:
            stack.enter_context(mock.patch.dict(query._defaults, latest=number))
        yield
