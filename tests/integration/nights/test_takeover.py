"""What a night takes over: units of dead processes, digests of an older version, missing sources."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.errors import NotFound
from consolidator.jobs.consolidation.backfill import Backfill
from consolidator.jobs.ledger import BackfillFilter, Ledger
from consolidator.jobs.nightly import JobRunner
from consolidator.process import owner_name
from consolidator.service.log import erasure
from consolidator.settings import Settings
from consolidator.store.nights import runs
from tests.integration.locks import dead_owner_name
from tests.nights import log_workdays, query_number
from tests.support import assert_invariants, log_events, read_memory, run_job, user_message

HOUR = timedelta(hours=1)


async def test_what_a_dead_process_of_this_machine_held_is_free_at_once(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_workdays(database, 3)
    clock.advance(HOUR)
    dead = Ledger(database, settings, owner=dead_owner_name())
    now = clock.now()
    async with database.connection() as conn:
        run = await runs.start(
            conn, job="consolidation", scheduled_at=now, trigger="schedule", owner=dead.owner, now=now
        )
        await runs.add_units(conn, run.id, "session", ["coder-00", "coder-01", "coder-02"])
        await runs.claim_units(conn, run.id, phase=0, owner=dead.owner, now=now, until=now + HOUR, limit=3)
    mine = Ledger(database, settings, run_id=run.id)
    await mine.release_dead_owners()
    assert await query_number(database, "select count(*) from claim where status = 'open'") == 3


async def test_what_a_living_process_or_another_machine_holds_stays_theirs(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    now = clock.now()
    for unit, owner in (("a", owner_name()), ("b", "elsewhere/1/2/1/2/x"), ("c", "no such form")):
        async with database.connection() as conn:
            run = await runs.start(
                conn, job="consolidation", scheduled_at=now, trigger="schedule", owner=owner, now=now
            )
            await runs.add_units(conn, run.id, "session", [unit])
            await runs.claim_units(conn, run.id, phase=0, owner=owner, now=now, until=now + HOUR)
    await Ledger(database, settings, run_id=run.id).release_dead_owners()
    assert await query_number(database, "select count(*) from claim where status = 'leased'") == 3


async def test_a_digest_of_an_older_version_is_folded_anew_and_loses_nothing(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_workdays(database, 4)
    clock.advance(HOUR)
    await run_job(database, settings)
    before = await read_memory(database)
    async with database.connection() as conn:
        await conn.execute("update digest set version = 'older', sequence = '', seqs = '', keys = '', counts = ''")
    for n in range(4):
        await log_events(database, f"coder-{n:02d}", [user_message("thank you")])
    clock.advance(HOUR)
    await run_job(database, settings)
    assert (await read_memory(database))["procedure"] == before["procedure"]
    assert await query_number(database, "select count(*) from digest where version = 'older'") == 0
    await assert_invariants(database)


async def test_a_digest_of_an_older_version_stays_where_its_events_are_gone(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_workdays(database, 3)
    clock.advance(HOUR)
    await run_job(database, settings)
    clock.advance(timedelta(days=60))
    await JobRunner(database, settings).run_now("retention")
    before = await read_memory(database)
    async with database.connection() as conn:
        await conn.execute("update digest set version = 'older'")
    await log_events(database, "coder-00", [user_message("thank you")])
    clock.advance(HOUR)
    await run_job(database, settings)
    assert (await read_memory(database))["procedure"] == before["procedure"]


async def test_a_source_that_is_missing_does_not_keep_the_others_from_being_imported(
    database: Database, settings: Settings, tmp_path: Path
) -> None:
    chat = tmp_path / "chat.json"
    chat.write_text('[{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]')
    sources = [f"openai-messages:{tmp_path / 'nowhere'}", f"openai-messages:{chat}"]
    done = await JobRunner(database, settings.model_copy(update={"sources": sources})).run_now("import")
    assert (done["events"] > 0, done["problem_count"], done["status"]) == (True, 1, "done")
    assert "nowhere" in done["problems"][0]


async def test_a_fork_that_appears_while_a_person_thinks_is_erased_too(database: Database, settings: Settings) -> None:
    await log_events(database, "parent", [user_message("my name is Ann")])
    planned = await erasure.plan_erasure(database, session="parent")
    await log_events(
        database, "fork", [user_message("my name is Ann")], parent_id="parent", root_id="parent", kind="fork"
    )
    done = await erasure.erase_sessions(database, settings, planned, reason="asked to")
    assert done["sessions"] == 2
    assert await query_number(database, "select count(*) from session") == 0


@pytest.mark.usefixtures("agents_apart")
async def test_a_merge_is_not_opened_again_in_a_run_that_has_ended(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_workdays(database, 1)
    clock.advance(HOUR)
    done = await run_job(database, settings)
    async with database.connection() as conn:
        await runs.add_units(conn, done["run"], "merge", ["coder"], phase=1, reopen=True)
    assert await query_number(database, "select count(*) from claim where status <> 'done'") == 0


async def test_a_backfill_with_nothing_to_read_leaves_no_run_behind(database: Database, settings: Settings) -> None:
    with pytest.raises(NotFound):
        await Backfill(database, settings, session_filter=BackfillFilter(session="nothing")).run()
    assert await query_number(database, "select count(*) from run") == 0
