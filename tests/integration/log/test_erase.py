"""Erasing a session or a peer deletes what was derived from it, and nothing else; it is logged, and nothing comes back.

What is left is what would have been learned if the erased had never been there.
"""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.errors import NotFound
from consolidator.jobs.retention import prune
from consolidator.models.event import NewEvent
from consolidator.models.store_item import PutItem
from consolidator.service.log import erasure
from consolidator.service.log.erasure import erase_sessions, plan_erasure
from consolidator.service.memory.explain import explain
from consolidator.service.memory.store_items import run_operations
from consolidator.settings import Settings
from consolidator.store.memory import derived
from consolidator.store.queries import load
from consolidator.testing import ModelServer, ScriptedReply
from tests.dumps import dump
from tests.integration.conftest import OpenDatabase
from tests.integration.log import claude_logs
from tests.nights import (
    assert_ledger_balances,
    booking_events,
    dump_tables,
    failed_command_events,
    log_workdays,
    query_number,
    query_rows,
    run_next_night,
    workday_events,
)
from tests.oracle import fact_json, oracle, parse_lines, schema_name, with_model
from tests.plans import plan_of
from tests.support import assert_invariants, call_and_result, in_thread, log_events, read_memory, run_cli, user_message

SECRET_WORD = "marzipan"  # only erased sessions say it
INDEX_SCANS = ("Index Scan", "Index Only Scan", "Bitmap Index Scan")
INDEXED_QUERIES = {
    "memory/derived": (
        "erase_model_facts", "erase_model_calls", "detach_rest", "delete_digest", "delete_error_records",
        "delete_candidates", "reconcile_remaining",
    ),
    "log/sources": ("filter_erased",),
    "sessions/sessions": ("lock", "lock_shared"),
}  # fmt: skip


def private_events(number: int = 50) -> list[NewEvent]:
    """Return a workday, and events with a word of their own: a fact, an error with its fix, a large result."""
    wrong, right = {"command": f"{SECRET_WORD} --bkae tests"}, {"command": f"{SECRET_WORD} --bake tests"}
    return [
        *workday_events(number),
        user_message(f"From now on, always write {SECRET_WORD} in the changelog."),
        *call_and_result("w", "Bash", wrong, f"{SECRET_WORD}: unrecognised option --bkae", "error"),
        *call_and_result("w", "Bash", right, "baked"),
        *call_and_result("r", "Read", {"file_path": f"{SECRET_WORD}.txt"}, f"{SECRET_WORD}\n" * 4000),
    ]


async def erase_and_check(database: Database, settings: Settings, **target: str) -> dict[str, Any]:
    """Erase, and assert that only the log of erasures still names the erased sessions."""
    plan = await plan_erasure(database, **target)
    result = await erase_sessions(database, settings, plan, reason="asked to")
    names = [member.id for member in plan.sessions]
    for table, text in (await dump(database, but=("erasure", "claim"))).items():
        assert not [name for name in (*names, SECRET_WORD) if name in text], table
    await assert_invariants(database)
    return result


async def test_what_is_left_is_what_would_be_without_the_erased(fresh: OpenDatabase, settings: Settings) -> None:
    memories = []
    for with_erased in (True, False):
        async with fresh() as database:
            assert isinstance(database.clock, FrozenClock)
            await log_workdays(database, 3)
            if with_erased:
                await log_events(database, "theirs", private_events(), project="shop")
            await log_workdays(database, 1, begin=3, agent="helper")
            await run_next_night(database, database.clock, settings)
            if with_erased:
                assert SECRET_WORD in str(await read_memory(database))
                assert (await erase_and_check(database, settings, session="theirs"))["events"] == len(private_events())
                assert await query_number(database, "select count(*) from blob") == 0
            memories.append(await read_memory(database))
            await run_next_night(database, database.clock, settings)
            assert await read_memory(database) == memories[-1]
            await assert_ledger_balances(database)
    assert memories[0] == memories[1]


async def test_what_others_support_stays_with_lower_counts(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    names = await log_workdays(database, 4)
    await run_next_night(database, clock, settings)
    before = await read_memory(database)
    await erase_and_check(database, settings, session=names[0])
    after = await read_memory(database)
    assert [row[:2] for row in after["procedure"]] == [row[:2] for row in before["procedure"]]
    assert {row[2] for row in before["procedure"]} == {4}
    assert {row[2] for row in after["procedure"]} == {3}
    assert [(row[0], row[3]) for row in after["solution"]] == [(row[0], row[3] - 1) for row in before["solution"]]
    facts = "select sentence, sessions from fact where superseded_at is null and sentence like %s"
    assert [row["sessions"] for row in await query_rows(database, facts, "%tabs%")] == [3]
    for kind in ("procedure", "solution", "fact"):
        for identity, *_ in after[kind]:
            explanation = await explain(database, identity)
            assert explanation["evidence"]
            assert names[0] not in str(explanation)


async def test_what_too_few_support_without_them_is_no_longer_published(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    for number in range(3):
        await log_events(database, f"session-{number}", booking_events(number), project="shop")
    await log_events(database, "session-3", failed_command_events(3), project="shop")
    await run_next_night(database, clock, settings)
    assert (await read_memory(database))["procedure"]
    await erase_and_check(database, settings, session="session-1")
    assert await query_number(database, "select count(*) from procedure") == 0
    await erase_and_check(database, settings, session="session-3")
    assert await query_number(database, "select count(*) from solution") == 0


async def test_all_sessions_with_a_peer_go_and_nobody_elses(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    for name, peer, agent in (("a", "rosa", "coder"), ("b", "rosa", "helper"), ("c", "karl", "coder")):
        events = private_events() if peer == "rosa" else workday_events(1)
        await log_events(database, f"{name}-session", events, agent=agent, peer=peer, project="shop")
    await run_next_night(database, clock, settings)
    assert (await erase_and_check(database, settings, peer="rosa"))["sessions"] == 2
    assert [row["peer"] for row in await query_rows(database, "select peer from session")] == ["karl"]
    assert {row["peer"] for row in await query_rows(database, "select peer from candidate")} == {"karl"}
    with pytest.raises(NotFound):
        await plan_erasure(database, peer="rosa")


async def test_forks_and_sub_agents_go_with_their_parent(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_events(database, "parent-1", private_events())
    for name, parent, kind in (("fork-1", "parent-1", "fork"), ("sub-1", "fork-1", "sub-agent")):
        await log_events(
            database, name, private_events(), parent_id=parent, root_id="parent-1", kind=kind, parent_seq=4
        )
    await log_events(database, "other-1", workday_events(1))
    await run_next_night(database, clock, settings)
    await erase_and_check(database, settings, session="parent-1")
    assert [row["id"] for row in await query_rows(database, "select id from session")] == ["other-1"]


async def test_a_fork_can_go_alone(database: Database, clock: FrozenClock, settings: Settings) -> None:
    await log_events(database, "parent-1", workday_events(1))
    await log_events(
        database, "fork-1", private_events(), parent_id="parent-1", root_id="parent-1", kind="fork", parent_seq=4
    )
    await run_next_night(database, clock, settings)
    await erase_and_check(database, settings, session="fork-1")
    assert [row["id"] for row in await query_rows(database, "select id from session")] == ["parent-1"]


async def test_what_others_hold_too_is_kept(database: Database, clock: FrozenClock, settings: Settings) -> None:
    large = call_and_result("r", "Read", {"file_path": "shared.txt"}, "shared\n" * 4000)
    await log_events(database, "mine-1", large)
    await log_events(database, "theirs-1", [*private_events(), *large])
    assert await query_number(database, "select count(*) from blob") == 2
    await erase_and_check(database, settings, session="theirs-1")
    assert await query_number(database, "select count(*) from blob") == 1
    assert await query_number(database, "select count(*) from blob_ref where session_id = 'mine-1'") == 1


async def test_what_was_learned_from_events_that_are_pruned_is_erased_too(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_events(database, "old-1", private_events())
    await run_next_night(database, clock, settings, hours=26)
    clock.advance(timedelta(days=40))
    await prune(database, older_than=timedelta(days=30))
    assert await query_number(database, "select count(*) from event") == 0
    assert SECRET_WORD in str(await read_memory(database))
    assert (await erase_and_check(database, settings, session="old-1"))["events"] == 0


async def test_what_was_not_learned_from_yet_can_go(database: Database, clock: FrozenClock, settings: Settings) -> None:
    await log_workdays(database, 1)
    await log_events(database, "new-1", private_events())
    await erase_and_check(database, settings, session="new-1")
    result = await run_next_night(database, clock, settings)
    assert result["seen"] == len(workday_events(0))
    await assert_ledger_balances(database)


async def test_it_is_logged_and_the_log_says_nothing_of_what_went(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_events(database, "theirs-1", private_events())
    await run_next_night(database, clock, settings)
    await erase_and_check(database, settings, session="theirs-1")
    async with database.connection() as conn:
        (record,) = await derived.list_erasures(conn)
    assert (record.session_id, record.events, record.reason) == ("theirs-1", len(private_events()), "asked to")
    assert record.derived > 2
    assert record.erased_at == clock.now()
    assert SECRET_WORD not in str(record)


async def test_it_is_all_or_nothing(
    database: Database, clock: FrozenClock, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    await log_workdays(database, 3)
    await log_events(database, "theirs-1", private_events(), project="shop")
    await run_next_night(database, clock, settings)
    before = await dump_tables(database)

    async def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("the merge fails")

    monkeypatch.setattr(erasure, "merge_agent", fail)
    with pytest.raises(RuntimeError):
        await erase_sessions(database, settings, await plan_erasure(database, session="theirs-1"), reason="asked to")
    assert await dump_tables(database) == before


async def test_import_does_not_bring_it_back(
    database: Database, clock: FrozenClock, settings: Settings, tmp_path: Path
) -> None:
    for name in ("theirs", "mine"):
        claude_logs.write_log(tmp_path / f"{name}.jsonl", claude_logs.user_lines(3, name))
    await claude_logs.import_logs(database, tmp_path)
    (theirs,) = await query_rows(database, "select id from session where origin like %s", "%theirs")
    await run_next_night(database, clock, settings)
    await erase_sessions(database, settings, await plan_erasure(database, session=theirs["id"]), reason="asked to")
    for name in ("theirs", "mine"):
        claude_logs.write_log(tmp_path / f"{name}.jsonl", claude_logs.user_lines(5, name))
    claude_logs.write_log(tmp_path / "copy.jsonl", claude_logs.user_lines(5, "theirs"))
    report = await claude_logs.import_logs(database, tmp_path)
    assert (report.events, report.erased > 0) == (2, True)
    assert await query_number(database, "select count(*) from event where data::text like %s", "%theirs says%") == 0
    assert await query_number(database, "select count(*) from session") == 1


async def test_what_a_model_read_of_others_is_left_alone(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    """Of the same agent, the same subject and the same predicate, but of somebody else."""

    def answer(request: dict[str, Any]) -> ScriptedReply:
        if schema_name(request) == "decisions":
            return oracle(request)
        facts = [
            fact_json(name, words, "city", "Bern", words, "profile")
            for name, _, words in parse_lines(request)
            if "Bern" in words
        ]
        return ScriptedReply.json({"facts": facts})

    unerased = (
        "select * from fact where peer = 'bob'",
        "select v.* from fact_version v join fact f on f.id = v.fact_id where f.peer = 'bob'",
        "select * from candidate where peer = 'bob' order by id",
    )
    async with ModelServer(answer) as server:
        model_settings = with_model(settings, server)
        for number, words in enumerate(("Bern is home.", "My home, as ever, is Bern.")):
            for peer in ("alice", "bob"):
                await log_events(database, f"{peer}-{number}", [user_message(words)], peer=peer)
                await run_next_night(database, clock, model_settings)
    async with database.transaction() as conn:
        await conn.execute("update fact set recalled = 7 where peer = 'bob'")
        await conn.execute(
            "insert into fact_version (fact_id, until, value, sentence, valid_from) "
            "select id, %s, value, 'Bern was home.', valid_from from fact where peer = 'bob'",
            [clock.now()],
        )
    before = [await query_rows(database, query) for query in unerased]
    assert [row["recalled"] for row in before[0]] == [7]
    assert {row["operation"] for row in before[2]} >= {"reinforce"}
    clock.advance(timedelta(days=1))
    async with database.transaction() as conn:
        await derived.erase_session(conn, "alice-0", reason="asked to", now=clock.now())
        await derived.erase_session(conn, "alice-1", reason="asked to", now=clock.now())
    assert [await query_rows(database, query) for query in unerased] == before
    await erase_sessions(database, settings, await plan_erasure(database, session="bob-1"), reason="asked to")
    assert [row["sessions"] for row in await query_rows(database, unerased[0])] == [1]


async def test_what_hangs_from_a_session_is_found_by_indexes(database: Database) -> None:
    values = {"session": "s", "after": 0, "revision": 1, "sessions": ["s"], "ids": ["s"], "shas": [b"s"]}
    async with database.transaction() as conn:
        await conn.execute("set local enable_seqscan = off")
        for file, names in INDEXED_QUERIES.items():
            for name in names:
                plan = await plan_of(conn, load(file)[name], values)
                scans = [node for node in plan if node["Node Type"] in (*INDEX_SCANS, "Seq Scan")]
                assert scans
                assert not [scan for scan in scans if "Index Cond" not in scan], name


async def test_the_command_wants_a_persons_word(database: Database, environment: dict[str, str]) -> None:
    await log_events(database, "theirs-1", private_events(), peer="rosa")
    before = await dump_tables(database)
    refused = await in_thread(run_cli, "erase", "--peer", "rosa", environment=environment, code=2)
    assert "--yes" in refused.stderr
    assert await dump_tables(database) == before
    kept = [PutItem(namespace, "k", {"v": 1}) for namespace in (("memories", "rosa"), ("memories", "rosalind"))]
    await run_operations(database, kept)
    completed = await in_thread(run_cli, "erase", "--peer", "rosa", "--yes", "--json", environment=environment)
    assert json.loads(completed.stdout) == {"sessions": 1, "events": len(private_events()), "store_items": 1}
    assert await query_rows(database, "select namespace from store_item") == [{"namespace": ["memories", "rosalind"]}]
    assert await query_number(database, "select count(*) from session") == 0
