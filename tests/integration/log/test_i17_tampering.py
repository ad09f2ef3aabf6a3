"""I17: a changed, missing or added event, blob or tail is found, also when the database's owner did it."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.errors import NotFound
from consolidator.models.event import NewEvent
from consolidator.models.payload import EventType
from consolidator.runtime.lineage.checkpoints import restore_checkpoint
from consolidator.runtime.lineage.children import ChildRequest, create_child
from consolidator.runtime.rerun.branches import BRANCH_KINDS, BranchRequest, commit_steer, create_branch, run_branch
from consolidator.runtime.turn import generation
from consolidator.runtime.turn import sessions as agent_turns
from consolidator.service.database import list_seals, read_seals, verify_database
from consolidator.service.log.erasure import erase_sessions, plan_erasure
from consolidator.service.sessions.bundles import load_bundle, stream_bundle
from consolidator.service.sessions.reruns import rerun_session
from consolidator.settings import Settings
from consolidator.store.log import events, seals
from consolidator.store.log.seals import HASH_BYTES
from consolidator.store.sessions import sessions
from consolidator.testing import ModelServer
from tests.runtime import KEY, RecordingChannel, open_agent, send_and_collect
from tests.support import call_and_result, log_events, run_job, user_message

EVENTS, BLOBS = "I17 events are what was appended", "I17 blobs are what was appended"
SEALED, SEALS = "I17 sealed sessions are as they were sealed", "I17 seals follow from one another"
GUARDS, COPY = "I17 the guards are this version's", "I17 the seals of the copy are here"
BEGINNINGS, PASTS = "I17 children begin where they left their parents", "I17 sessions read their own past"
OUTPUT, MESSAGES = "I17 pieces and deliveries are what was added", "I17 sealed messages are as they were sealed"
LARGE = "x" * 40_000


async def broken(database: Database, **options: Any) -> dict[str, list[str]]:
    """The invariants that do not hold, with their violations."""
    return {name: cases for name, cases in (await verify_database(database, **options)).items() if cases}


async def as_owner(database: Database, *statements: str) -> None:
    """Change the log as somebody who owns it: triggers off, statements, triggers on again."""
    async with database.owner_connection() as conn, conn.transaction():
        await conn.execute("set local session_replication_role = replica")
        cursor = await conn.execute(
            "select tgrelid::regclass::text, tgname from pg_trigger where tgenabled = 'A' and not tgisinternal"
        )
        guards = [(sql.SQL(table), sql.Identifier(name)) for table, name in await cursor.fetchall()]
        for guard in guards:
            await conn.execute(sql.SQL("alter table only {} disable trigger {}").format(*guard))
        for statement in statements:
            await conn.execute(statement.encode())
        for guard in guards:
            await conn.execute(sql.SQL("alter table only {} enable always trigger {}").format(*guard))


@pytest.fixture
async def log(database: Database, clock: FrozenClock, settings: Settings) -> Database:
    """Two sessions that a night has sealed, written one by one, in batches, by COPY and with blobs."""
    await log_events(database, "s", [user_message("one")])
    await log_events(database, "s", call_and_result("c1", "Bash", {"command": "make"}, LARGE))
    await log_events(database, "s", [user_message("four")])
    await log_events(database, "t", [user_message("hello"), user_message("bye")])
    prepared = [events.prepare(user_message(f"bulk {n}")) for n in range(3)]
    async with database.transaction() as conn:
        await events.load_each(conn, {"t": prepared}, now=clock.now())
    await log_events(database, "t", [user_message("last")], key="k")
    clock.advance(timedelta(hours=1))
    await run_job(database, settings)
    return database


async def test_sessions_that_are_loaded_together_have_chains_of_their_own(
    database: Database, clock: FrozenClock
) -> None:
    for name in ("a", "b"):
        await log_events(database, name, [user_message(name)])
    call = call_and_result("c1", "Bash", {"command": "make", "weights": [0.5, 1e22, -0.0]}, LARGE)
    loads = {"b": list(map(events.prepare, call)), "a": [events.prepare(user_message(f"bulk {n}")) for n in range(3)]}
    async with database.transaction() as conn:
        await sessions.lock(conn, ["a", "b"])
        loaded = await events.load_each(conn, loads, now=clock.now())
        assert {name: (seqs.first_seq, seqs.last_seq) for name, seqs in loaded.items()} == {"b": (2, 3), "a": (2, 4)}
    assert await broken(database) == {}
    with pytest.raises(NotFound, match="'c'"):
        async with database.transaction() as conn:
            await events.load_each(conn, loads | {"c": loads["a"]}, now=clock.now())
    async with database.connection() as conn:
        assert [event.seq for event in await events.read(conn, "a")] == [1, 2, 3, 4]


async def test_an_untouched_log_verifies(log: Database) -> None:
    assert await broken(log) == {}
    async with log.connection() as conn:
        cursor = await conn.execute("select distinct length(hash) from event")
        assert await cursor.fetchall() == [(HASH_BYTES,)]
        cursor = await conn.execute("select count(distinct hash) = count(*) from event")
        assert await cursor.fetchall() == [(True,)]


@pytest.mark.parametrize(
    "change",
    [
        """update event set data = '{"text": "forged"}' where session_id = 's' and seq = 1""",
        "update event set event_type = 'AssistantResponse' where session_id = 's' and seq = 1",
        "update event set tool_name = 'Write' where session_id = 's' and seq = 2",
        "update event set task_id = 'another' where session_id = 's' and seq = 4",
        "update event set created_at = created_at + interval '1 second' where session_id = 's' and seq = 1",
        "update event set hash = sha256(hash) where session_id = 's' and seq = 2",
        "update event set seq = 10 - seq where session_id = 's' and seq in (1, 4)",
        "delete from event where session_id = 's' and seq = 2",
        "update event set session_id = 't', seq = 7 where session_id = 's' and seq = 4; "
        "update session set head = 7, due = true where id = 't'; "
        "update session set head = 3, consolidated_to = 3 where id = 's'",
        "insert into event (session_id, seq, event_type, data, created_at) "
        "select session_id, 5, event_type, data, created_at from event where session_id = 's' and seq = 4; "
        "update session set head = 5, due = true where id = 's'",
    ],
)
async def test_a_rewritten_event_is_found(log: Database, change: str) -> None:
    await as_owner(log, *change.split("; "))
    assert any(case.startswith("s: ") for case in (await broken(log))[EVENTS])


async def test_a_rewritten_blob_is_found(log: Database) -> None:
    await as_owner(log, "update blob set body = 'forged'")
    assert "holds something else" in (await broken(log))[BLOBS][0]


CUT_TAIL = (
    "delete from event where session_id = 's' and seq > 2",
    "update session set head = 2, consolidated_to = 2, extracted_to = least(extracted_to, 2), due = false, "
    "chain_hash = (select hash from event where session_id = 's' and seq = 2) where id = 's'",
    "delete from blob_ref where session_id = 's'",
)


async def test_a_child_that_is_moved_to_another_parents_event_is_found(log: Database, settings: Settings) -> None:
    child = await create_child(log, settings, "t", ChildRequest(kind="fork", at=4))
    await create_child(log, settings, child.id)
    assert await broken(log) == {}
    await as_owner(log, f"update session set parent_seq = 3 where id = '{child.id}'")
    found = await broken(log)
    assert found.pop(BEGINNINGS) == [f"{child.id}: does not begin with event 3 of session t"]
    assert list(found) == [PASTS]


@pytest.mark.parametrize(
    "change",
    [
        "insert into session_lineage values ('s', 0, 't', 0, 2, 0)",
        "insert into session_lineage values ('s', 0, 't', 0, 2, -2)",
        "insert into session_lineage values ('{child}', 9, 's', 0, 2, 0)",
        "insert into session_lineage values ('{grandchild}', 9, 's', 1, 2, 0)",
        "update session_lineage set ancestor_id = 's' where session_id = '{child}'",
        "update session_lineage set upto_seq = upto_seq + 1 where session_id = '{child}'",
        "update session_lineage set after_seq = after_seq + 1 where session_id = '{child}'",
        "update session_lineage set shift = shift - 1 where session_id = '{child}'",
        "delete from session_lineage where session_id = '{child}'",
        "delete from session_lineage where session_id = '{grandchild}' and ancestor_id = '{child}'",
        "update session set parent_id = 't', parent_seq = 2 where id = 's'; "
        "insert into session_lineage values ('s', 0, 't', 0, 2, -2)",
        "update session set parent_id = 's', parent_seq = 3 where id = '{child}'; "
        "update session_lineage set ancestor_id = 's', upto_seq = 3 where session_id = '{child}'",
        "update session set parent_id = null, parent_seq = null, kind = 'root' where id = '{grandchild}'",
        "update session set kind = 'branch' where id = '{child}'",
        "update session set simulated = true where id = '{child}'",
        "insert into session (id, agent, memory, root_id, parent_id, parent_seq, kind, created_at, last_event_at, "
        "last_occurred_at) values ('x', 'coder', 'coder', 't', 't', 2, 'fork', now(), now(), now()); "
        "insert into session_lineage values ('x', 0, 't', 0, 2, -2)",
    ],
)
async def test_a_past_that_is_not_a_sessions_own_is_found(log: Database, settings: Settings, change: str) -> None:
    child = await create_child(log, settings, "t", ChildRequest(kind="fork", at=4))
    await log_events(log, child.id, [user_message("on")])
    grandchild = await create_child(log, settings, child.id)
    assert await broken(log) == {}
    await as_owner(log, *change.format(child=child.id, grandchild=grandchild.id).split("; "))
    assert (await broken(log)).get(PASTS)


@pytest.fixture
async def sent(database: Database, clock: FrozenClock, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Database:
    """A conversation of two answers in three pieces each, which a channel got and a night has sealed."""
    monkeypatch.setattr(generation, "BATCH_PIECES", 1)
    async with (
        ModelServer(answers=["one two three"] * 2) as server,
        open_agent(database, server, channel=RecordingChannel()) as agent,
    ):
        session = await agent.open(KEY)
        for text in ("count", "again"):
            await agent_turns.send_message(database, session.id, text)
            await agent.wake(session.id)
    assert await broken(database) == {}
    clock.advance(timedelta(hours=1))
    await run_job(database, settings)
    assert await broken(database) == {}
    return database


# The hash of a row as its writer made it, with its delta or channel and its start as they are to be.
CHUNK_HASH = "hash_output(session_id, message_id, null, 'forged', seq, started_seq, after_seq, created_at)"
DELIVERY_HASH = "hash_output(session_id, message_id, 'mail', null, upto_seq, started_seq, null, sent_at)"
EARLY_HASH = "hash_output(session_id, message_id, channel, null, upto_seq, 0, null, sent_at)"
ADD = (
    "insert into delivery (session_id, message_id, channel, upto_seq, started_seq, sent_at{}) "
    "select session_id, message_id, 'mail', upto_seq, started_seq, sent_at{} from delivery"
)

NEW_MESSAGE = """
insert into delivery (session_id, message_id, channel, upto_seq, started_seq, sent_at, id, hash)
select session_id, message_id || 'x', channel, upto_seq, 0, sent_at, id,
       hash_output(session_id, message_id || 'x', channel, null, upto_seq, 0, null, sent_at)
from delivery"""


@pytest.mark.parametrize(
    ("change", "invariant"),
    [
        ("update generation_chunk set delta = 'forged' where seq = 2", OUTPUT),
        ("update generation_chunk set created_at = created_at - interval '1 second' where seq = 2", OUTPUT),
        ("update delivery set sent_at = sent_at - interval '1 second'", OUTPUT),
        ("update delivery set channel = 'mail'", OUTPUT),
        ("update delivery set message_id = message_id || 'x' where upto_seq = 3", OUTPUT),
        (ADD.format("", ""), OUTPUT),
        (ADD.format(", id, hash", ", id, hash"), OUTPUT),
        ("delete from generation_chunk where seq = 2", OUTPUT),
        # By somebody who makes the hash of the row anew.
        (f"update generation_chunk set delta = 'forged', hash = {CHUNK_HASH}", MESSAGES),
        (f"update delivery set channel = 'mail', hash = {DELIVERY_HASH}", MESSAGES),
        (f"update delivery set started_seq = 0, hash = {EARLY_HASH}", MESSAGES),
        (ADD.format(", id, hash", f", id, {DELIVERY_HASH}"), MESSAGES),
        (NEW_MESSAGE, MESSAGES),
        ("update generation_chunk set id = id + 100", MESSAGES),
        ("delete from generation_chunk where seq = 3", MESSAGES),
        ("delete from delivery where upto_seq = 3", MESSAGES),
        ("delete from delivery; delete from generation_chunk", MESSAGES),
        ("delete from sealed_message", SEALS),
        ("update seal set output_to = 0", SEALS),
    ],
)
async def test_what_was_generated_and_sent_cannot_be_rewritten_unseen(
    sent: Database, change: str, invariant: str
) -> None:
    """L5, L6."""
    await as_owner(sent, *change.split("; "))
    assert (await broken(sent)).get(invariant)


async def test_a_later_delivery_of_a_sealed_message_is_in_the_next_seal(
    sent: Database, clock: FrozenClock, settings: Settings
) -> None:
    add = ADD.format(", hash", f", {DELIVERY_HASH}")
    async with sent.owner_connection() as conn, conn.transaction():  # who has not committed is not waited for
        await conn.execute(add.encode())
        async with sent.transaction() as other:
            assert await seals.seal(other, "r", clock.now()) is None
    assert await broken(sent) == {}
    async with sent.transaction() as conn:
        assert await seals.seal(conn, "r", clock.now())
        assert await seals.seal(conn, "r", clock.now()) is None
    assert await broken(sent) == {}
    await as_owner(sent, "delete from delivery where channel = 'mail' and upto_seq = 1")
    assert len((await broken(sent))[MESSAGES]) == 2


async def test_sessions_of_every_kind_verify_also_when_they_are_pruned_and_erased(
    database: Database, clock: FrozenClock, tmp_path: Path
) -> None:
    async with (
        ModelServer(answers=["Fine."] * 30) as server,
        open_agent(database, server, retention_max_share=1) as agent,
    ):
        settings = agent.harness.settings
        root = await agent.open(KEY)
        await send_and_collect(root, "first")
        checkpoint = await root.checkpoint("here")
        fork, restored = await root.fork(), await restore_checkpoint(database, settings, checkpoint.id)
        for session_id in (root.id, fork.id, restored.id):
            for kind in BRANCH_KINDS:
                await run_branch(agent.harness, session_id, BranchRequest(kind=kind, message="and if?"))
        await commit_steer(database, (await root.propose_steer("rather so")).branch.id)
        sub_agent = await root.spawn("look around")
        branch = (await run_branch(agent.harness, root.id, BranchRequest(message="and then?"))).branch
        await rerun_session(database, settings, root.id)
        copy = tmp_path / "copy.jsonl"
        copy.write_text("".join([line async for line in stream_bundle(database, root.id, exact=True)]))
        imported, _ = await load_bundle(database, copy, as_copy=True)
        await create_branch(
            database, settings, (await create_child(database, settings, imported.session_id)).id, BranchRequest()
        )
        assert await broken(database) == {}
        await root.end()
    for _ in range(2):
        clock.advance(timedelta(days=40))
        await run_job(database, settings)
        await run_job(database, settings, "retention")
        assert await broken(database) == {}
    for session_id in (sub_agent.session_id, branch.id, fork.id, root.id, imported.session_id):
        await erase_sessions(database, settings, await plan_erasure(database, session=session_id), reason="asked to")
        assert await broken(database) == {}


async def test_a_tail_that_was_cut_off_with_its_head_lowered_is_found(log: Database) -> None:
    await as_owner(log, *CUT_TAIL)
    found = await broken(log)
    assert found[SEALED] == ["s: ends at event 2, but was sealed up to event 4"]
    assert EVENTS not in found  # the chain itself is whole: only the seal tells


async def test_a_session_that_is_gone_is_found(log: Database) -> None:
    await as_owner(
        log, "delete from blob_ref", "delete from event where session_id = 's'", "delete from session where id = 's'"
    )
    assert "is gone, and no erasure is recorded" in (await broken(log))[SEALED][0]


async def test_who_rewrites_the_chain_and_the_seals_is_found_by_a_copy(
    log: Database, tmp_path: Path, clock: FrozenClock, settings: Settings
) -> None:
    copy = tmp_path / "seals.json"
    copy.write_text(json.dumps(await list_seals(log), default=str))
    assert await broken(log, exported_seals=read_seals(copy)) == {}
    await as_owner(log, *CUT_TAIL, "delete from sealed_session where session_hash = sha256('s')")
    assert SEALS in await broken(log)
    await as_owner(log, "delete from seal", "update sealed_session set seal = null")
    await log_events(log, "u", [user_message("a later night")])
    clock.advance(timedelta(hours=1))
    await run_job(log, settings)
    found = await broken(log, exported_seals=read_seals(copy))
    assert list(found) == [COPY]
    assert found[COPY] == ["seal 1 of the copy is another one here"]


async def test_what_another_process_learns_while_a_night_seals_is_in_the_next_seal(
    log: Database, dsn: str, clock: FrozenClock
) -> None:
    learned = "insert into consolidator.sealed_session (session_hash, seq, hash) select sha256('s'), {seq}, hash from "
    learned += "consolidator.event where session_id = 's' and seq = {seq}"
    async with log.owner_connection() as conn, conn.transaction():
        await conn.execute(learned.format(seq=2).encode())
        with psycopg.connect(dsn) as other:
            other.execute(learned.format(seq=1).encode())
            first = await seals.seal(conn, "r", clock.now())
    assert await broken(log) == {}
    async with log.transaction() as conn:
        second = await seals.seal(conn, "r", clock.now())
    assert [seal.sessions for seal in (first, second) if seal] == [1, 1]
    assert await broken(log) == {}


async def test_a_guard_without_effect_is_found(log: Database) -> None:
    await as_owner(
        log,
        "create or replace function refuse_event_delete() returns trigger language plpgsql as "
        "$$ begin return old; end $$",
    )
    assert "refuse_event_delete" in (await broken(log))[GUARDS][0]


async def test_what_is_left_after_pruning_verifies_and_is_still_guarded(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    for day in range(4):
        await log_events(database, "s", [user_message(f"day {day}")] * 100)
        clock.advance(timedelta(days=12))
        await run_job(database, settings)
    await run_job(database, settings, "retention")
    async with database.connection() as conn:
        assert 0 < (await sessions.get(conn, "s")).pruned_to < 400
    assert await broken(database) == {}
    await as_owner(database, """update event set data = '{"text": "forged"}' where seq = 390""")
    assert EVENTS in await broken(database)


async def test_an_erasure_is_no_tampering(log: Database, settings: Settings) -> None:
    await erase_sessions(log, settings, await plan_erasure(log, session="s"), reason="asked to")
    assert await broken(log) == {}


async def test_numbers_texts_and_keys_survive_as_they_are_hashed(database: Database) -> None:
    values: list[Any] = [
        1e22,
        1.5e300,
        1e15,
        1e-7,
        -0.0,
        0.1,
        10**30,
        float("nan"),
        "e+5 \x00 \ud800 \ue000",
        {"ü": 1, "a": [None]},
        {10: "ten", 9: "nine"},
    ]
    data = {"text": "x", "values": values}
    await log_events(database, "s", [NewEvent(EventType.USER_MESSAGE, data)])
    assert await broken(database) == {}
