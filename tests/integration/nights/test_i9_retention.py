"""I9: retention prunes only prefixes that were learned from and spares what is still read; memory loses nothing."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from consolidator.clock import FrozenClock
from consolidator.context.build import ContextRequest, advance_history, build_context
from consolidator.database import Connection, Database, partitions
from consolidator.errors import NotFound
from consolidator.jobs import retention
from consolidator.jobs.retention import prune
from consolidator.models.event import NewEvent
from consolidator.models.injection import InjectionRow
from consolidator.models.payload import EventType
from consolidator.runtime.lineage.checkpoints import create_checkpoint, delete_checkpoint, restore_checkpoint
from consolidator.runtime.lineage.children import create_child
from consolidator.service.memory.explain import explain
from consolidator.settings import Settings
from consolidator.store.log import events
from consolidator.store.log import retention as retention_store
from consolidator.store.memory import injections
from consolidator.store.sessions import sessions
from consolidator.store.sessions.lineage import load_lineage
from consolidator.store.turns import generation
from tests import nights
from tests.nights import dump_tables, log_workdays, query_number, query_rows, run_next_night, workday_events
from tests.support import assert_invariants, assistant_response, later, log_events, read_memory, tool_call, user_message

MONTH = timedelta(days=30)
ENDED = NewEvent(EventType.SESSION_END, {})
LENGTH = len(workday_events(0))


async def fold_whole(database: Database, session_id: str) -> None:
    """Fold all of a session into its summary, as its turns do bit by bit."""
    async with database.connection() as conn:
        while await advance_history(conn, session_id):
            continue


async def mark_settled(database: Database, session_id: str) -> None:
    """Mark that nothing in a session waits for an answer."""
    async with database.connection() as conn:
        await conn.execute("update session set settled_to = head, pending = false where id = %s", [session_id])


async def remaining_seqs(database: Database) -> dict[str, tuple[int, int]]:
    """Return the first and last remaining seq of each session."""
    rows = await query_rows(
        database, "select session_id, min(seq) as first, max(seq) as last from event group by 1 order by 1"
    )
    return {row["session_id"]: (row["first"], row["last"]) for row in rows}


async def test_what_is_past_retention_and_learned_from_goes_and_nothing_else(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    """A9."""
    await log_events(database, "old", [*workday_events(0), ENDED])
    await log_events(database, "grown", workday_events(1))
    await run_next_night(database, clock, settings)
    clock.advance(timedelta(days=20))
    await log_events(database, "grown", [*workday_events(2), ENDED])
    await run_next_night(database, clock, settings)
    clock.advance(timedelta(days=15))
    pruned = await prune(database, older_than=MONTH)
    assert (pruned.sessions, pruned.events) == (2, 2 * LENGTH + 1)
    assert await remaining_seqs(database) == {"grown": (LENGTH + 1, 2 * LENGTH + 1)}
    assert not pruned.spared
    await assert_invariants(database)
    assert (await prune(database, older_than=MONTH)).events == 0


async def test_what_was_not_learned_from_is_spared_with_all_that_follows_it(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    """A10."""
    await log_events(database, "half", [*workday_events(0), tool_call("z", "get_user", {})])
    await log_events(database, "new", workday_events(1))
    await run_next_night(database, clock, settings)
    await log_events(database, "half", [user_message("and then?")])
    clock.advance(timedelta(days=40))
    pruned = await prune(database, older_than=MONTH)
    assert await remaining_seqs(database) == {"half": (LENGTH + 1, LENGTH + 2)}
    assert pruned.as_json()["spared"] == {"not learned from": 2}
    await assert_invariants(database)


async def test_the_window_of_an_open_session_is_spared(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    many = [user_message(f"message {n}") for n in range(300)]
    await log_events(database, "open", many)
    await log_events(database, "ended", [*many, ENDED])
    await run_next_night(database, clock, settings)
    clock.advance(timedelta(days=40))
    for name in ("open", "ended"):
        await log_events(database, name, [user_message("still here")])
    await run_next_night(database, clock, settings)
    pruned = await prune(database, older_than=MONTH)
    assert await remaining_seqs(database) == {"ended": (302, 302), "open": (302 - retention.CONTEXT_WINDOW, 301)}
    assert pruned.as_json()["spared"] == {"window of an open session": retention.CONTEXT_WINDOW - 1}


async def test_an_open_session_that_is_written_to_while_pruning_looks_elsewhere_keeps_its_window(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    many = [user_message(f"message {n}") for n in range(299)]
    await log_events(database, "quiet", [user_message("large " * 9000), *many])
    await log_events(database, "ended", [*workday_events(0), ENDED])
    await run_next_night(database, clock, settings)
    clock.advance(timedelta(days=40))
    async with database.transaction() as conn:  # quiet when retention reads it, not when it marks it
        await events.append(conn, "quiet", [user_message("still here")], now=clock.now())
        pruning = asyncio.create_task(prune(database, older_than=MONTH))
        await nights.wait_for_lock_waiters(database.dsn)
    pruned = await pruning
    assert await remaining_seqs(database) == {"quiet": (1, 301)}
    assert (pruned.sessions, pruned.events, pruned.blobs) == (1, LENGTH + 1, 0)
    assert pruned.as_json()["spared"] == {"changed meanwhile": 300}
    await assert_invariants(database)
    clock.advance(timedelta(days=1))
    pruned = await prune(database, older_than=MONTH)
    assert await remaining_seqs(database) == {"quiet": (302 - retention.CONTEXT_WINDOW, 301)}
    assert (pruned.sessions, pruned.events, pruned.blobs) == (1, 301 - retention.CONTEXT_WINDOW, 1)
    await assert_invariants(database)


async def test_what_a_live_fork_reads_is_spared_however_far_up(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_events(database, "root", [*workday_events(0), ENDED])
    fork = await create_child(database, settings, "root")
    await log_events(database, fork.id, [user_message("another way"), assistant_response("so be it"), ENDED])
    clock.advance(timedelta(days=40))
    again = await create_child(database, settings, fork.id)
    await log_events(database, again.id, [user_message("a third way")])
    await run_next_night(database, clock, settings)
    pruned = await prune(database, older_than=MONTH)
    assert pruned.events == 0
    assert pruned.as_json()["spared"] == {"read by a child or a checkpoint": LENGTH + 1 + 4}
    clock.advance(timedelta(days=40))
    pruned = await prune(database, older_than=MONTH)
    assert not pruned.spared
    assert await remaining_seqs(database) == {}
    await assert_invariants(database)


async def test_of_a_long_log_a_live_fork_keeps_its_window_alone(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_events(database, "root", [*(user_message(f"message {n}") for n in range(500)), ENDED])
    await run_next_night(database, clock, settings)
    clock.advance(timedelta(days=40))
    fork = await create_child(database, settings, "root")
    await fold_whole(database, fork.id)
    await mark_settled(database, fork.id)
    await prune(database, older_than=MONTH)
    first = fork.head - retention.CONTEXT_WINDOW + 1
    assert (await remaining_seqs(database))["root"] == (first, 501)
    async with database.connection() as conn:
        context = await build_context(conn, fork.id, ContextRequest(budget=100_000))
        lineage = await load_lineage(conn, fork.id, await sessions.get(conn, fork.id))
    assert lineage.readable_after == first - 1
    assert context.truncated
    assert (context.first_seq, context.over_budget) == (first, False)
    await assert_invariants(database)


async def test_a_checkpoint_keeps_what_a_restore_reads_until_it_expires(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    """B14."""
    await log_events(database, "root", [*(user_message(f"message {n}") for n in range(500)), ENDED])
    await run_next_night(database, clock, settings)
    clock.advance(timedelta(days=40))
    await fold_whole(database, "root")
    checkpoint = await create_checkpoint(database, "root", label="here", at=400)
    before = await _context_of_restored(database, settings, checkpoint.id)
    await prune(database, older_than=MONTH)
    assert (await remaining_seqs(database))["root"] == (1, 501)  # the log alone says what stood at 400
    assert before == await _context_of_restored(database, settings, checkpoint.id)
    await delete_checkpoint(database, checkpoint.id)
    fork = await create_child(database, settings, "root")
    await fold_whole(database, fork.id)
    await mark_settled(database, fork.id)
    await prune(database, older_than=MONTH)
    assert (await remaining_seqs(database))["root"] == (503 - retention.CONTEXT_WINDOW, 501)
    late = await create_checkpoint(database, "root", time_to_live=timedelta(days=2))
    assert late.fold["upto"] == 501  # what the log no longer says
    assert await _context_of_restored(database, settings, late.id)
    clock.advance(timedelta(days=3))
    with pytest.raises(NotFound):
        await restore_checkpoint(database, settings, late.id)
    await prune(database, older_than=MONTH)
    assert await query_number(database, "select count(*) from checkpoint") == 0


async def test_what_a_fork_begins_to_read_while_pruning_looks_elsewhere_is_spared(
    database: Database, dsn: str, clock: FrozenClock, settings: Settings
) -> None:
    await log_events(database, "root", [*workday_events(0), ENDED])
    await run_next_night(database, clock, settings)
    clock.advance(timedelta(days=40))
    async with await psycopg.AsyncConnection.connect(dsn) as conn:  # as the owner: a writer may not lock it
        await conn.execute("lock table pruning in share row exclusive mode")  # when it is about to mark the session
        pruning = asyncio.create_task(prune(database, older_than=MONTH, max_share=1.0, run_id=None))
        await nights.wait_for_lock_waiters(database.dsn)
        await create_child(database, settings, "root")
    pruned = await pruning
    assert pruned.events == 0
    assert (await remaining_seqs(database))["root"] == (1, LENGTH + 1)
    await assert_invariants(database)


async def _context_of_restored(database: Database, settings: Settings, checkpoint_id: str) -> list[dict[str, Any]]:
    restored = await restore_checkpoint(database, settings, checkpoint_id)
    async with database.connection() as conn:
        messages = (await build_context(conn, restored.id, ContextRequest("window", last=50))).messages
        await sessions.retire(conn, restored.id, hide=True)
        await conn.execute("update session set status = 'ended' where id = %s", [restored.id])
    return messages


async def test_whole_days_are_dropped_and_the_rest_goes_in_bounded_batches(
    database: Database, clock: FrozenClock, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "BATCH", 4)
    await log_workdays(database, 2)
    clock.advance(timedelta(days=1))
    await log_workdays(database, 1, begin=2)
    await log_events(database, "stays", [tool_call("z", "get_user", {})])  # so its day cannot be dropped whole
    await run_next_night(database, clock, settings)
    days = [name for name, _ in await _partitions(database)]
    clock.advance(timedelta(days=40))
    pruned = await prune(database, older_than=MONTH)
    assert pruned.partitions == ["event_20260301", "event_20260302", *days_up_to(days, 12)]
    assert next(name for name, _ in await _partitions(database)) == "event_20260303"
    assert await remaining_seqs(database) == {"stays": (1, 1)}
    await assert_invariants(database)


def days_up_to(days: list[str], last: int) -> list[str]:
    return [day for day in days if "event_20260303" < day <= f"event_202603{last:02d}"]


async def _partitions(database: Database) -> list[tuple[str, Any]]:
    async with database.connection() as conn:
        return await partitions.list_attached(conn)


async def log_streamed_answer(database: Database, session: str, message: str, *, pieces: int = 3) -> None:
    """Log an answer in chunks that were all delivered: three events."""
    began = NewEvent(EventType.THINKING_START, {"message_id": message, "model": "m"})
    await log_events(database, session, [user_message("Go."), began])
    now = database.clock.now()
    async with database.transaction() as conn:
        at: dict[str, Any] = {"started": await _head(conn, session), "now": now}
        await generation.append_chunks(conn, session, message, ["a word "] * pieces, after=0, epoch=0, **at)
        await generation.record_delivery(conn, session, message, "direct", upto=pieces, **at)
    await log_events(
        database, session, [NewEvent(EventType.ASSISTANT_RESPONSE, {"message_id": message, "text": "a word " * pieces})]
    )


async def _head(conn: Connection, session: str) -> int:
    return int((await sessions.get(conn, session)).head)


async def chunk_days(database: Database) -> list[str]:
    """Return the names of the chunk partitions."""
    async with database.connection() as conn:
        return [name for name, _ in await partitions.list_attached(conn, "generation_chunk")]


MESSAGE_OUTPUT = (
    "select session_id, message_id, count(*) as pieces from generation_chunk group by 1, 2 order by 1, 2",
    "select session_id, message_id, max(upto_seq) as pieces from delivery group by 1, 2 order by 1, 2",
)


async def count_message_output(database: Database) -> dict[str, int]:
    """Return how many chunks remain of each message; assert that as many are recorded as delivered."""
    chunks, deliveries = [
        {f"{row['session_id']} {row['message_id']}": row["pieces"] for row in await query_rows(database, query)}
        for query in MESSAGE_OUTPUT
    ]
    assert chunks == deliveries
    return chunks


async def test_what_was_said_in_pieces_goes_with_its_events_in_whole_days_or_in_batches(
    database: Database, clock: FrozenClock, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "BATCH", 4)
    await log_streamed_answer(database, "first", "m1", pieces=9)
    clock.advance(timedelta(days=1))
    await log_streamed_answer(database, "second", "m2", pieces=9)
    await log_streamed_answer(database, "open", "m3")
    await run_next_night(database, clock, settings)
    clock.advance(timedelta(days=40))
    await log_streamed_answer(database, "open", "m4")
    kept = {"open m3": 3, "open m4": 3}
    assert await count_message_output(database) == {"first m1": 9, "second m2": 9, **kept}
    await prune(database, older_than=MONTH)
    assert await count_message_output(database) == kept
    assert (await chunk_days(database))[0] == "generation_chunk_20260303"
    assert "generation_chunk_20260304" not in await chunk_days(database)
    assert f"generation_chunk_{clock.now():%Y%m%d}" in await chunk_days(database)
    await assert_invariants(database)


async def test_pieces_that_a_crash_left_behind_their_events_go_the_next_night(
    database: Database, clock: FrozenClock, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    await log_streamed_answer(database, "one", "m1")
    await run_next_night(database, clock, settings)
    clock.advance(timedelta(days=40))
    with monkeypatch.context() as patch:
        patch.setattr("consolidator.store.log.retention.delete_output", raise_killed)
        with pytest.raises(RuntimeError):
            await prune(database, older_than=MONTH)
    assert await remaining_seqs(database) == {}
    await prune(database, older_than=MONTH)
    assert await count_message_output(database) == {}


async def raise_killed(*_: Any, **__: Any) -> None:
    raise RuntimeError("killed")


async def test_quotes_and_explanations_outlive_the_events(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_workdays(database, 3)
    await run_next_night(database, clock, settings)
    before = await explain_all(database)
    assert {explanation["kind"] for explanation in before} == {"fact", "procedure", "solution"}
    clock.advance(timedelta(days=40))
    await prune(database, older_than=MONTH)
    assert await remaining_seqs(database) == {}
    after = await explain_all(database)
    for then, now in zip(before, after, strict=True):
        assert [proof["log"] for proof in now["evidence"]] == ["pruned"] * len(then["evidence"])
        assert now["lines"] == then["lines"]
        assert [proof["quote"] for proof in now["evidence"]] == [proof["quote"] for proof in then["evidence"]]
        assert all(proof["quote"] for proof in now["evidence"])


async def explain_all(database: Database) -> list[dict[str, Any]]:
    ids = await query_rows(
        database, "select id from fact union select id from procedure union select id from solution order by 1"
    )
    return [await explain(database, row["id"]) for row in ids]


async def test_no_count_falls_by_pruning_and_the_next_night_goes_on_from_it(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_workdays(database, 3)
    await run_next_night(database, clock, settings)
    before = await read_memory(database)
    clock.advance(timedelta(days=40))
    await prune(database, older_than=MONTH)
    assert await read_memory(database) == before
    await log_workdays(database, 1, begin=3)
    await log_events(
        database, "coder-00", workday_events(0)[1:], project="shop"
    )  # a session that lost its beginning goes on
    await run_next_night(database, clock, settings)
    after = await read_memory(database)
    best = {title: support for _, title, support, *_ in after["procedure"]}
    assert best
    assert all(best[title] == support + 1 for _, title, support, *_ in before["procedure"])
    await assert_invariants(database)


async def test_a_dry_run_says_the_same_numbers_and_changes_nothing(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_workdays(database, 2)
    await log_events(database, "large", [user_message("large " * 9000), ENDED])
    await log_events(database, "half", [*workday_events(0), tool_call("z", "get_user", {})])
    await run_next_night(database, clock, settings)
    clock.advance(timedelta(days=40))
    before, days = await dump_tables(database), await _partitions(database)
    rehearsed = await prune(database, older_than=MONTH, dry_run=True)
    assert await dump_tables(database) == before
    assert await _partitions(database) == days
    pruned = await prune(database, older_than=MONTH)
    assert {**rehearsed.as_json(), "dry_run": False} == pruned.as_json()
    assert (pruned.events, pruned.blobs) == (3 * LENGTH + 2, 1)


async def test_a_blob_goes_when_no_event_names_it_and_its_grace_is_over(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    shared, alone = user_message("shared " * 9000), user_message("alone " * 9000)
    await log_events(database, "old", [shared, alone, ENDED])
    await run_next_night(database, clock, settings)
    clock.advance(timedelta(days=40))
    await log_events(database, "young", [shared])
    assert await query_number(database, "select count(*) from blob") == 2
    pruned = await prune(database, older_than=MONTH)
    assert pruned.blobs == 1
    assert (
        await query_number(
            database, "select count(*) from blob join blob_ref using (sha256) where session_id = 'young'"
        )
        == 1
    )
    await run_next_night(database, clock, settings)
    clock.advance(timedelta(days=40))
    assert (await prune(database, older_than=MONTH)).blobs == 1
    assert await query_number(database, "select count(*) from blob") == 0


async def test_a_blob_just_named_is_not_collected_before_its_event_is_there(
    database: Database, clock: FrozenClock
) -> None:
    with nights.hold_locks(
        database.dsn,
        "insert into blob values ('\\x00', 'text/plain', 1, 'x', %s)", clock.now() - timedelta(hours=1),
    ) as writing:  # fmt: skip
        writing.commit()
        assert (await prune(database, older_than=MONTH)).blobs == 0
        clock.advance(timedelta(days=2))
        assert (await prune(database, older_than=MONTH)).blobs == 1


async def prepare_retention(database: Database, clock: FrozenClock, settings: Settings) -> dict[str, int]:
    """Log and learn, so that retention has a day to drop; return up to where each session may be pruned."""
    await log_workdays(database, 3)
    await run_next_night(database, clock, settings)
    clock.advance(timedelta(days=40))
    return {f"coder-{n:02d}": LENGTH for n in range(3)}


async def assert_pruned(database: Database) -> None:
    await prune(database, older_than=MONTH)
    await assert_invariants(database)
    tables = await query_rows(
        database, "select relname from pg_class where relname like '%%\\_20260302%%' and relkind = 'r'"
    )
    assert tables == []
    assert await remaining_seqs(database) == {}
    assert await query_number(database, "select count(*) from session where pruned_to = head") == 3


async def test_a_crash_after_marking_is_mended_by_the_next_night(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    limits = await prepare_retention(database, clock, settings)
    async with database.owner_connection() as conn:
        pruning = await retention_store.begin_pruning(conn, run_id=None, cutoff=clock.now(), override=True)
    for name, upto in limits.items():
        await retention._mark_pruned(database, {name: upto}, pruning)
        await assert_invariants(database)  # readers begin after the mark, so nothing is torn
    await assert_pruned(database)


# Of a version that detached concurrently, then dropped.
DROP_COMMENT = "consolidator: everything in here is past retention and learned from; to be dropped"


@pytest.mark.parametrize("parent", partitions.PARTITIONED_TABLES)
async def test_a_crash_between_detaching_and_dropping_is_mended_by_the_next_night(
    database: Database, clock: FrozenClock, settings: Settings, parent: str
) -> None:
    limits = await prepare_retention(database, clock, settings)
    async with database.owner_connection() as conn:
        pruning = await retention_store.begin_pruning(conn, run_id=None, cutoff=clock.now(), override=True)
    for name, upto in limits.items():
        await retention._mark_pruned(database, {name: upto}, pruning)
    async with database.owner_connection() as conn:
        await conn.execute(f"comment on table {parent}_20260302 is '{DROP_COMMENT}'")
        await conn.execute(f"alter table {parent} detach partition {parent}_20260302 concurrently")
    await assert_invariants(database)
    await assert_pruned(database)


@pytest.mark.parametrize("parent", partitions.PARTITIONED_TABLES)
async def test_a_detachment_cut_off_half_way_is_mended_by_the_next_night(
    database: Database, clock: FrozenClock, settings: Settings, parent: str
) -> None:
    limits = await prepare_retention(database, clock, settings)
    async with database.owner_connection() as conn:
        pruning = await retention_store.begin_pruning(conn, run_id=None, cutoff=clock.now(), override=True)
    for name, upto in limits.items():
        await retention._mark_pruned(database, {name: upto}, pruning)
    async with nights.open_replica(database) as other, other.owner_connection() as conn:
        await conn.execute(f"comment on table {parent}_20260302 is '{DROP_COMMENT}'")
        with nights.hold_locks(database.owner_dsn, f"select count(*) from {parent}_20260302"):
            detach = f"alter table {parent} detach partition {parent}_20260302 concurrently"
            dropping = asyncio.create_task(conn.execute(detach.encode()))
            await nights.wait_for_lock_waiters(database.owner_dsn)
            await conn.cancel_safe()
            with pytest.raises(Exception, match="cancel"):
                await dropping
            pending = await query_number(database, "select count(*) from pg_inherits where inhdetachpending")
            assert pending == 1
    await assert_invariants(database)
    await assert_pruned(database)


@pytest.mark.parametrize("parent", partitions.PARTITIONED_TABLES)
async def test_a_day_that_is_being_read_is_left_for_the_next_night(
    database: Database, clock: FrozenClock, settings: Settings, monkeypatch: pytest.MonkeyPatch, parent: str
) -> None:
    await prepare_retention(database, clock, settings)
    with (
        monkeypatch.context() as patch,
        nights.hold_locks(database.owner_dsn, f"select count(*) from {parent}_20260302"),
    ):
        patch.setattr(partitions, "DROP_ATTEMPTS", 1)
        await prune(database, older_than=MONTH)
        await prune(database, older_than=MONTH)
    await assert_pruned(database)


async def test_two_replicas_may_prune_at_once(database: Database, clock: FrozenClock, settings: Settings) -> None:
    await prepare_retention(database, clock, settings)
    async with nights.open_replica(database) as other:
        with nights.hold_locks(database.dsn, "select from session order by id for update"):  # both wait before marking
            both = asyncio.gather(prune(database, older_than=MONTH), prune(other, older_than=MONTH))
            await nights.wait_for_lock_waiters(database.dsn, 2)
        await both
    await assert_pruned(database)


async def test_pruning_waits_for_nobody_who_is_learning(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_workdays(database, 2)
    await run_next_night(database, clock, settings)
    clock.set(later(clock.now(), days=40))
    await log_workdays(database, 2, begin=1)  # coder-01 continues, coder-02 is new
    working = asyncio.create_task(run_next_night(database, clock, settings))
    with nights.hold_locks(database.dsn, "lock table digest in exclusive mode"):
        await nights.wait_for_lock_waiters(database.dsn)
        pruned = await prune(database, older_than=MONTH)
    done = await working
    assert pruned.events == LENGTH  # coder-01 is spared for its open window
    assert done["seen"] == 2 * LENGTH
    await assert_invariants(database)


async def test_what_hooks_showed_is_counted_for_a_year(database: Database, clock: FrozenClock) -> None:
    def row(name: str, age: timedelta) -> InjectionRow:
        return InjectionRow(name, "s", "a", None, "prompt", [], 9, None, {}, None, clock.now() - age)

    async with database.connection() as conn:
        await injections.add(conn, row("old", timedelta(days=366)))
        await injections.add(conn, row("new", timedelta(days=364)))
    await prune(database, older_than=MONTH)
    assert [kept["id"] for kept in await query_rows(database, "select id from injection")] == ["new"]
