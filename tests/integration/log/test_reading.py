"""Reading is in order of seq, and the hot queries touch neither more days nor more rows than they must."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import timedelta
from typing import Any
from unittest.mock import AsyncMock, patch

import pytest

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.database.partitions import Connection
from consolidator.models.memory_filter import FactFilter, MemoryScope
from consolidator.store.log import events
from consolidator.store.memory import derived, listing
from consolidator.store.nights import runs
from consolidator.store.queries import load
from consolidator.store.sessions import sessions
from tests.plans import INDEXED, indexes, plan_of, relations
from tests.support import learn_nothing, log_events, user_message


async def seqs(conn: Connection, session: str, **window: Any) -> list[int]:
    """The numbers of the events in a window."""
    return [event.seq for event in await events.read(conn, session, **window)]


async def test_a_session_is_read_in_order_whole_or_in_a_window(database: Database, clock: FrozenClock) -> None:
    for _ in range(4):
        await log_events(database, "s", [user_message("x")] * 5)
        clock.advance(timedelta(days=1))
    async with database.connection() as conn:
        assert await seqs(conn, "s") == list(range(1, 21))
        assert await seqs(conn, "s", after=3, upto=7) == [4, 5, 6, 7]
        assert await seqs(conn, "s", after=18) == [19, 20]
        assert await seqs(conn, "s", after=2, limit=3) == [3, 4, 5]
        second = clock.now() - timedelta(days=3)
        assert await seqs(conn, "s", bounds=(second, second)) == [6, 7, 8, 9, 10]
        assert await seqs(conn, "s", after=20) == []
        assert await seqs(conn, "nobody") == []


async def test_an_upto_of_zero_reads_nothing(database: Database) -> None:
    await log_events(database, "s", [user_message("x")])
    async with database.connection() as conn:
        assert await seqs(conn, "s", upto=0) == []


async def test_what_was_learned_from_is_stamped_and_nothing_else(database: Database, clock: FrozenClock) -> None:
    for session in ("b", "a", "c", "a", "b"):
        await log_events(database, session, [user_message(session)] * 2)
    async with database.connection() as conn:
        span = events.Span("b", after=0, upto=3)
        await learn_nothing(conn, [span], now=clock.now())
        assert await unlearned(conn) == [("a", 1), ("a", 2), ("a", 3), ("a", 4), ("b", 4), ("c", 1), ("c", 2)]


async def test_what_was_set_aside_is_unconsolidated_too_until_it_is_settled(
    database: Database, clock: FrozenClock
) -> None:
    await log_events(database, "a", [user_message("x")] * 4)
    await log_events(database, "b", [user_message("x")] * 4)
    async with database.transaction() as conn:
        spans = [events.Span("a", after=0, upto=4), events.Span("b", after=0, upto=3)]
        for session, seq in (("a", 2), ("b", 1)):
            failures = {seq: "facts: no answer"}
            await runs.add_dead_letters(conn, "run", session=session, failures=failures, now=clock.now())
        await learn_nothing(conn, spans, now=clock.now(), dead=[[2], [1]])
    async with database.connection() as conn:
        assert await unlearned(conn) == [("a", 2), ("b", 1), ("b", 4)]
    async with database.transaction() as conn:
        await runs.settle_dead_letters(conn, "a", [2], "retried", clock.now())
        await conn.execute(
            "insert into run (id, job, scheduled_at, started_at, heartbeat_at, owner) "
            "values ('r', 'retry', now(), now(), now(), 'test')"
        )
        await conn.execute(
            "insert into claim (run_id, kind, unit, status, seen, learned) values ('r', 'session', 'a', 'done', 1, 1)"
        )
        await derived.stamp_events(conn, "a", seqs=[2], run_id="r", now=clock.now())
    async with database.connection() as conn:
        assert await unlearned(conn) == [("b", 1), ("b", 4)]


async def unlearned(conn: Connection) -> list[tuple[str, int]]:
    """The sessions and numbers of the events that were not learned from."""
    cursor = await conn.execute("select session_id, seq from event where consolidated_at is null order by 1, 2")
    return await cursor.fetchall()


@pytest.fixture
async def busy(database: Database, clock: FrozenClock) -> Database:
    """A log of four days and two thousand sessions, nearly all learned from."""
    for day in range(4):
        async with database.owner_connection() as conn, conn.transaction():
            await conn.execute(
                "insert into session (id, agent, root_id, head, due, created_at, last_event_at, last_occurred_at) "
                "select 's' || n, 'coder', 's' || n, 0, false, %(now)s, %(now)s, %(now)s "
                "from generate_series(1, 2000) n on conflict do nothing",
                {"now": clock.now()},
            )
            await conn.execute(
                "insert into event (session_id, seq, event_type, data, created_at, consolidated_at) "
                "select 's' || n, %(day)s * 5 + seq, 'UserMessage', '{\"text\": \"hello\"}', %(now)s, "
                "case when n not in (7, 77) or %(day)s * 5 + seq <= 17 then %(now)s end "
                "from generate_series(1, 2000) n, generate_series(1, 5) seq",
                {"day": day, "now": clock.now()},
            )
        clock.advance(timedelta(days=1))
    async with database.owner_connection() as conn:
        await conn.execute("update session set head = 20, consolidated_to = 20")
        await conn.execute("update session set consolidated_to = 17, due = true where id in ('s7', 's77')")
        await conn.execute("vacuum analyze")
    return database


async def test_a_window_of_a_session_is_read_by_index_from_the_days_it_may_be_in(
    busy: Database, clock: FrozenClock
) -> None:
    day = clock.now() - timedelta(days=2)
    window = {"session": "s7", "after": 10, "upto": 15, "low": day, "high": day, "limit": None}
    async with busy.connection() as conn:
        read = relations(await plan_of(conn, load("log/events")["read"], window))
    assert list(read) == [f"event_{day:%Y%m%d}"]
    assert set(read.values()) <= INDEXED


async def test_the_end_of_a_session_is_read_by_index_in_order_without_sorting(busy: Database) -> None:
    window = {"session": "s7", "after": 15, "upto": 20, "low": events.BEGINNING, "high": events.END, "limit": 50}
    async with busy.connection() as conn:
        plan = await plan_of(conn, load("log/events")["read"], window)
    full = {f"event_202603{day:02}" for day in (2, 3, 4, 5)}
    assert {how for name, how in relations(plan).items() if name in full} <= INDEXED


async def test_the_due_sessions_are_found_by_their_index(busy: Database) -> None:
    async with busy.connection() as conn:
        plan = await plan_of(conn, load("sessions/sessions")["list_due"], {})
        assert [row.id for row in await sessions.list_due(conn)] == ["s7", "s77"]
    assert [node.get("Index Name") for node in plan if "Index Name" in node] == ["session_due"]
    assert not any(node["Node Type"] == "Seq Scan" for node in plan)


async def test_an_append_finds_its_session_and_key_by_index(busy: Database) -> None:
    values = {
        "session": "s7", "count": 1, "now": busy.clock.now(), "occurred": None, "ends": False, "expected": None,
        "epoch": None, "key": "k", "types": ["Error"], "datas": ["{}"], "tasks": [None], "tools": [None],
        "contents": bytes(32), "principals": [None], "counts_task": False, "open_task": None, "task_after": None,
    }  # fmt: skip
    async with busy.connection() as conn:
        plan = await plan_of(conn, load("log/events")["append"], values)
    assert not any(node["Node Type"] == "Seq Scan" and node["Relation Name"] == "session" for node in plan)


@pytest.fixture
async def big_ledger(database: Database, clock: FrozenClock) -> Database:
    """Three runs of a thousand units: two have ended, one has ten units left."""
    async with database.transaction() as conn:
        for number in range(3):
            clock.advance(timedelta(days=1))
            now = clock.now()
            started = await runs.start(
                conn, job="consolidation", scheduled_at=now, trigger="schedule", owner="me", now=now
            )
            run = started.id
            await runs.add_units(conn, run, "session", [f"unit-{n:04}" for n in range(1000)])
            await conn.execute("update claim set status = 'done', seen = 2, learned = 2 where run_id = %s", [run])
            if number < 2:
                await runs.finish(conn, run, status="done", now=now, report=asdict(await runs.sum_units(conn, run)))
        remaining = "update claim set status = 'open' where run_id = %s and unit > 'unit-0989'"
        await conn.execute(remaining, [run])
    async with database.connection() as conn:
        await conn.execute("vacuum analyze")
    return database


async def test_the_units_that_wait_are_counted_without_a_look_at_those_that_have_ended(big_ledger: Database) -> None:
    async with big_ledger.connection() as conn:
        run = (await runs.list_runs(conn, limit=1))[0].id
        assert await runs.count_unfinished(conn, run, phase=0) == 10
        assert await runs.count_unfinished(conn, run, phase=0, limit=3) == 3
        assert await runs.count_unfinished(conn, run, phase=1) == 0
        values = {"run_id": run, "phase": 0, "limit": None}
        plan = await plan_of(conn, load("nights/runs")["count_unfinished"], values, analyze=True)
    assert [node["Index Name"] for node in plan if "Index Name" in node] == ["claim_open"]
    assert "claim" not in {name for name, how in relations(plan).items() if how not in INDEXED}


async def test_runs_are_listed_without_a_look_at_the_units_of_those_that_have_ended(big_ledger: Database) -> None:
    async with big_ledger.connection() as conn:
        listed = await runs.list_runs(conn)
        assert [(run.seen, run.learned, run.units) for run in listed] == [(2000, 2000, 1000)] * 3
        assert [run.status for run in listed] == ["running", "done", "done"]
        plan = await plan_of(
            conn,
            load("nights/runs")["list_runs"],
            {"job": None, "at": None, "last_id": None, "limit": 20},
            analyze=True,
        )
        (units,) = [node for node in plan if node.get("Relation Name") == "claim"]
        assert round(units["Actual Rows"] * units["Actual Loops"]) == 1000


async def test_facts_are_listed_in_the_order_of_an_index_as_they_were_at_a_time_too(
    database: Database, clock: FrozenClock
) -> None:
    async with database.transaction() as conn:
        await conn.execute(
            "insert into fact (agent, level, subject, predicate, value, sentence, kind, confidence, trust, id,"
            " valid_from, recorded_at, sessions, cause) select 'coder', 'agent', 's' || n, 'uses', 'v', 'I', 'project',"
            " 'explicit', 'user', 'fact_' || n, %(now)s, %(now)s - n * interval '1 minute', n %% 9, 'person'"
            " from generate_series(1, 3000) as n",
            {"now": clock.now()},
        )
        await conn.execute("analyze fact")
    now = clock.now()
    page = FactFilter(limit=20)
    for filters, unused_since in (
        (page, None),
        (page, now),
        (replace(page, as_of=now), None),
        (replace(page, valid_at=now), None),
        (replace(page, include_superseded=True), None),
    ):
        with patch.object(listing, "fetch_all", AsyncMock(return_value=[])) as fetch_all:
            async with database.connection() as conn:
                await listing.list_facts(conn, filters, unused_since=unused_since)
        query, values = fetch_all.await_args_list[0].args[2:]
        async with database.connection() as conn:
            assert "fact_list" in indexes(await plan_of(conn, query, values)), filters


async def test_what_is_new_since_a_moment_is_found_by_an_index(database: Database, clock: FrozenClock) -> None:
    async with database.transaction() as conn:
        await conn.execute("set local enable_seqscan = off")  # the table is empty
        plan = await plan_of(
            conn, load("memory/learned")["by_day"], {"since": clock.now() - timedelta(days=14), "zone": "UTC"}
        )
        assert "fact_recorded" in indexes(plan)
        waiting = {**MemoryScope().values(), "at": None, "last_id": None, "limit": 20}
        assert "candidate_waiting" in indexes(await plan_of(conn, load("facts/facts")["quarantined"], waiting))
