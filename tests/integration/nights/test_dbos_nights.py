"""A night by DBOS in this process: it learns what a night by claims does, and leaves the process as it was."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.errors import DatabaseError, UsageError
from consolidator.jobs import engine
from consolidator.jobs.consolidation.backfill import Backfill
from consolidator.jobs.nightly import JobRunner
from consolidator.service.database import upgrade_engine
from consolidator.settings import Settings
from consolidator.testing import ModelServer
from tests.integration.conftest import OpenDatabase
from tests.nights import all_learned, assert_ledger_balances, log_workdays, query_number, query_rows
from tests.oracle import oracle, with_model
from tests.support import assert_invariants, log_events, read_memory, user_message

HOUR = timedelta(hours=1)


async def test_a_night_by_dbos_learns_what_one_by_claims_does(fresh: OpenDatabase, settings: Settings) -> None:
    memories = []
    for night_engine in ("claims", "dbos"):
        async with fresh() as database:
            await log_workdays(database, 5)
            assert isinstance(database.clock, FrozenClock)
            database.clock.advance(HOUR)
            runner = JobRunner(database, settings.model_copy(update={"night_engine": night_engine}))
            report = await runner.run_due("consolidation")
            assert report is not None
            assert (report["status"], report["units"]) == ("done", 5)
            assert await runner.run_due("consolidation") is None
            assert await all_learned(database)
            await assert_ledger_balances(database)
            await assert_invariants(database)
            memories.append(await read_memory(database))
            if night_engine == "dbos":
                states = await query_rows(database, "select distinct status from consolidator_dbos.workflow_status")
                assert states == [{"status": "SUCCESS"}]
    assert memories[0] == memories[1]
    assert await asyncio.to_thread(lambda: 1) == 1  # the loop has threads again


async def test_a_night_that_was_cancelled_in_dbos_begins_anew(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_workdays(database, 2)
    clock.advance(HOUR)
    runner = JobRunner(database, settings.model_copy(update={"night_engine": "dbos"}))
    first = await runner.run_due("consolidation")
    assert first is not None
    await log_workdays(database, 1, begin=2)
    clock.advance(HOUR)
    async with database.connection() as conn:  # as where the ledger was restored from a backup, and DBOS's schema not
        await conn.execute("update run set status = 'interrupted', finished_at = null where id = %s", [first["run"]])
    again = await runner.run_due("consolidation")
    assert again is not None
    assert (again["run"], again["status"], again["units"]) == (first["run"], "done", 3)
    assert await query_number(database, "select max(attempts) from claim where phase = 0") == 1
    await assert_ledger_balances(database)


async def test_without_the_extra_one_error_says_what_to_install(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "find_spec", lambda _: None)
    runner = JobRunner(database, settings.model_copy(update={"night_engine": "dbos"}))
    with pytest.raises(UsageError, match=r"pip install 'consolidator\[dbos\]'"):
        await runner.run_now("consolidation")


async def test_a_writer_uses_the_tables_that_the_owner_made(
    dsn: str, writer_dsn: str, clock: FrozenClock, settings: Settings
) -> None:
    settings = settings.model_copy(update={"night_engine": "dbos"})
    owner, writer = Database(dsn, clock), Database(writer_dsn, clock)
    writer.access = "writer"
    try:
        await log_workdays(writer, 1)
        clock.advance(HOUR)
        with pytest.raises(DatabaseError, match="consolidator db upgrade"):
            await JobRunner(writer, settings).run_now("consolidation")
        await upgrade_engine(owner, settings)
        report = await JobRunner(writer, settings).run_now("consolidation")
        assert (report["status"], report["units"]) == ("done", 1)
    finally:
        await owner.close()
        await writer.close()


async def test_a_backfill_obeys_the_rate_of_model_calls_without_dbos(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    for name in ("a", "b"):
        await log_events(database, name, [user_message(f"Tea is my fuel, says {name}.")], peer=name)
    clock.advance(HOUR)
    async with ModelServer(oracle) as server:
        limited = with_model(settings, server, model_calls_per_minute=6000)
        report = await Backfill(database, limited).run()
        assert report["status"] == "done"
        assert len(server.requests) == 2
    assert await query_number(database, "select count(*) from setting where name = 'model_turn'") == 1
