"""Large payloads: kept once under their hash, whole when read, never dangling, collected when nobody needs them."""

from __future__ import annotations

import asyncio
import math
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from consolidator.clock import FrozenClock
from consolidator.context.build import build_context
from consolidator.database import Database
from consolidator.database.partitions import Connection
from consolidator.errors import HeadConflict
from consolidator.jobs.consolidation.backfill import Backfill
from consolidator.jobs.ledger import BackfillFilter
from consolidator.jobs.retention import BATCH, BLOB_GRACE, prune
from consolidator.models.event import NewEvent
from consolidator.models.payload import EventType
from consolidator.service.log.export import export_sessions
from consolidator.service.sessions.bundles import stream_bundle
from consolidator.settings import Settings
from consolidator.store import checks
from consolidator.store.log import events
from consolidator.store.log.blobs import INLINE_BYTES
from consolidator.store.queries import load
from tests.integration.locks import wait_for_lock
from tests.support import (
    assert_invariants,
    count_examples,
    log_events,
    read_memory,
    run_here,
    run_job,
    tool_call,
    tool_result,
    user_message,
)

LARGE = "x" * INLINE_BYTES
_numbers = count()
KEPT = "every event has the blobs it refers to"

# Whatever Python can parse: what jsonb refuses (NUL, lone surrogates, NaN) and the mark that stands for it.
letters = st.characters() | st.sampled_from(["\0", "\ud800", "\udfff", "\ue000"])
texts = st.text(letters, max_size=20) | st.sampled_from(["\ue0000041", "\ue000nan", "\\u0000"])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.integers(10**18, 10**40) | st.floats(-1e15, 1e15) | texts
    | st.sampled_from([math.nan, math.inf, -math.inf]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


def alike(value: Any, other: Any) -> bool:
    """Tell whether two values are the same, NaN included, and of the same shape."""
    if isinstance(value, float) and math.isnan(value):
        return isinstance(other, float) and math.isnan(other)
    if isinstance(value, dict):
        return (
            isinstance(other, dict) and value.keys() == other.keys() and all(alike(value[k], other[k]) for k in value)
        )
    if isinstance(value, list):
        return isinstance(other, list) and len(value) == len(other) and all(map(alike, value, other))
    return bool(value == other)


async def blobs(conn: Connection) -> int:
    """How many blobs there are."""
    row = await (await conn.execute("select count(*) from blob")).fetchone()
    assert row is not None
    return int(row[0])


@examples(
    max_examples=count_examples(80),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(content=values, extra=st.dictionaries(texts, values, max_size=3), padding=st.sampled_from([0, 1, 3]))
async def test_any_payload_comes_back_as_it_was(
    database: Database, content: Any, extra: dict[str, Any], padding: int
) -> None:
    data = {**extra, "v": 1, "call_id": "c", "content": [content, LARGE * padding], "occurred_at": None}
    result = NewEvent(EventType.TOOL_RESULT, data)
    session = f"s{next(_numbers)}"
    await log_events(database, session, [result, user_message(LARGE + "\0\ud800")])
    async with database.transaction() as conn:
        await events.load_each(conn, {session: [events.prepare(result)]}, now=database.clock.now())
        appended, message, copied = await events.read(conn, session)
    assert alike(dict(appended.data), data)
    assert alike(dict(copied.data), data)
    assert message.data["text"] == LARGE + "\0\ud800"


@pytest.mark.parametrize(
    "brought", ["words", {}, {"text": {"ref": "blob://sha256/00", "media_type": "text/plain"}}, None]
)
async def test_a_reference_that_a_foreign_log_brings_is_not_followed(database: Database, brought: Any) -> None:
    await log_events(database, "s", [user_message("hi", data_ref=brought), user_message(LARGE, data_ref=brought)])
    async with database.connection() as conn:
        assert [event.data["data_ref"] for event in await events.read(conn, "s")] == [brought, brought]


@pytest.mark.parametrize(
    "keys",
    [
        {"k" * (INLINE_BYTES + 1): 1},
        {f"{'key ' * 40}{n}": f"\0 and {n}" for n in range(2000)},
        {f"k{n}": LARGE for n in range(100)},
        {"*": LARGE, **{f"k{n}": n for n in range(3000)}},
        {"*": {"ref": 1}, "data_ref": {"*": {"many": True}}, "k": LARGE},
    ],
    ids=["a long name", "many long names", "many large values", "many small values", "our own marks"],
)
async def test_however_many_keys_make_it_large_an_event_is_small_and_its_blobs_are_few(
    database: Database, keys: dict[str, Any]
) -> None:
    await log_events(database, "s", [user_message("hi", **keys)])
    async with database.connection() as conn:
        (event,) = await events.read(conn, "s")
        cursor = await conn.execute("select octet_length(data::text) from event")
        assert (await cursor.fetchone() or [0])[0] <= INLINE_BYTES
        assert await blobs(conn) <= 17
    assert event.data == {"v": 1, "text": "hi", **keys}
    await assert_invariants(database)


async def test_only_what_is_large_leaves_the_event_and_it_says_where_it_is(database: Database) -> None:
    await log_events(database, "s", [tool_result("c", LARGE), tool_result("d", "small")])
    async with database.connection() as conn:
        cursor = await conn.execute("select data from event order by seq")
        first, second = [data for (data,) in await cursor.fetchall()]
    assert first["call_id"] == "c"
    assert "content" not in first
    assert first["data_ref"]["content"]["ref"].startswith("blob://sha256/")
    assert first["data_ref"]["content"]["size"] == INLINE_BYTES
    assert first["data_ref"]["content"]["media_type"] == "text/plain; charset=utf-8"
    assert "data_ref" not in second


async def test_the_same_content_is_stored_once(database: Database) -> None:
    for session in ("a", "b"):
        await log_events(database, session, [user_message(LARGE), tool_result("c", LARGE), user_message(LARGE)])
    async with database.connection() as conn:
        assert await blobs(conn) == 1


async def test_no_reference_dangles(database: Database) -> None:
    await log_events(database, "s", [user_message(LARGE)])
    async with database.owner_connection() as conn:
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            await conn.execute("delete from blob")
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            await conn.execute("insert into blob_ref values ('s', 1, '\\x00')")


async def test_a_refused_append_leaves_no_blob(database: Database) -> None:
    await log_events(database, "s", [])
    async with database.connection() as conn:
        with pytest.raises(HeadConflict):
            await events.append(conn, "s", [user_message(LARGE)], now=database.clock.now(), expected_head=9)
        assert await blobs(conn) == 0


async def test_a_repeated_append_refers_only_once(database: Database) -> None:
    await log_events(database, "s", [])
    async with database.connection() as conn:
        for _ in range(2):
            await events.append(conn, "s", [user_message(LARGE)], now=database.clock.now(), key="k")
        row = await (await conn.execute("select count(*) from blob_ref")).fetchone()
    assert row == (1,)
    await assert_invariants(database)


async def orphaned(database: Database) -> None:
    """Leave a blob that nobody refers to."""
    await log_events(database, "s", [user_message(LARGE)])
    async with database.owner_connection() as conn:
        await conn.execute("update event set consolidated_at = now()")
        await conn.execute("update session set pruned_to = head, consolidated_to = head, due = false")
        await conn.execute("delete from event")
        await conn.execute("delete from blob_ref")


async def test_collection_takes_orphans_after_their_grace_and_nothing_else(
    database: Database, clock: FrozenClock
) -> None:
    await orphaned(database)
    await log_events(database, "other", [user_message(LARGE + "needed")])
    clock.advance(BLOB_GRACE - timedelta(minutes=1))
    assert (await prune(database, older_than=timedelta(days=30))).blobs == 0
    clock.advance(timedelta(minutes=2))
    assert (await prune(database, older_than=timedelta(days=30))).blobs == 1
    async with database.connection() as conn:
        assert await blobs(conn) == 1
        assert (await events.read(conn, "other"))[0].data["text"] == LARGE + "needed"


async def collect(conn: Connection, clock: FrozenClock) -> int:
    """Collect blobs as retention does."""
    cursor = await conn.execute(
        load("log/retention")["collect_blobs"], {"grace": clock.now() - BLOB_GRACE, "batch": BATCH}
    )
    ((collected,),) = await cursor.fetchall()
    return int(collected)


async def test_an_append_wins_where_it_came_before_the_collector(database: Database, clock: FrozenClock) -> None:
    await orphaned(database)
    clock.advance(timedelta(days=3))
    async with database.transaction() as writer:
        await events.append(writer, "s", [user_message(LARGE)], now=clock.now())
        async with database.connection() as collector:
            assert await collect(collector, clock) == 0
    async with database.connection() as conn:
        assert await collect(conn, clock) == 0
        assert [event.data["text"] for event in await events.read(conn, "s")] == [LARGE]


async def test_an_append_wins_where_the_collector_came_first(database: Database, clock: FrozenClock) -> None:
    await orphaned(database)
    clock.advance(timedelta(days=3))
    async with database.transaction() as collector:
        assert await collect(collector, clock) == 1
        append = asyncio.create_task(log_events(database, "s", [user_message(LARGE)]))
        await wait_for_lock(database)
    await append
    async with database.connection() as conn:
        assert [event.data["text"] for event in await events.read(conn, "s")] == [LARGE]
        assert (await checks.find_violations(conn))[KEPT] == []


async def test_writers_that_share_blobs_do_not_wait_in_a_circle(database: Database) -> None:
    bodies = [f"{n}" + LARGE for n in range(4)]
    await asyncio.gather(
        *(
            log_events(database, f"s{n}", [user_message(body) for body in (bodies if n % 2 else bodies[::-1])])
            for n in range(8)
        )
    )
    async with database.connection() as conn:
        assert await blobs(conn) == 4


async def test_an_event_whose_blob_is_gone_is_named_when_it_is_read_and_when_it_is_checked(database: Database) -> None:
    await log_events(database, "s", [user_message("small"), user_message(LARGE)])
    async with database.owner_connection() as conn:
        assert (await checks.find_violations(conn))[KEPT] == []
        await conn.execute("delete from blob_ref")
        (problem,) = (await checks.find_violations(conn))[KEPT]  # collection would take it
        assert (await events.read(conn, "s"))[1].data["text"] == LARGE
        await conn.execute("delete from blob")
        assert (await checks.find_violations(conn))[KEPT] == [problem]
        assert problem.startswith("s: event 2 refers to a blob that is not kept for it: blob://sha256/")
        lost = (await events.read(conn, "s"))[1]
        assert (lost.unreadable or "").startswith("session s, event 2: the blob of its 'text' is lost (blob://sha256/")
        assert lost.data["text"] == f"[{lost.unreadable}]"


DAMAGES = {
    "gone": "delete from blob",
    "rewritten": "update blob set body = 'forged'",
    "no text any more": r"update blob set body = '\x00ff'",
}
LARGE_EVENTS = {
    "text": user_message(LARGE),
    "content": tool_result("c", LARGE),
    "JSON": tool_result("c", [{"out": LARGE}], state_patch={"large": LARGE}),
    "many values": user_message("small", **{f"{'key ' * 40}{n}": n for n in range(2000)}),
    "compaction": NewEvent(
        EventType.POLICY_DECISION, {"decision": "compaction", "kept_from": 1, "summary": LARGE, "next_steps": [LARGE]}
    ),
}


async def damage_blobs(database: Database, damage: str) -> None:
    """Change the blobs behind the product's back, as a bad disk or the owner of the database may."""
    async with database.owner_connection() as conn, conn.transaction():
        await conn.execute("set local session_replication_role = replica")
        await conn.execute(damage.encode())


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=list(DAMAGES))
@pytest.mark.parametrize("large", LARGE_EVENTS.values(), ids=list(LARGE_EVENTS))
async def test_all_but_what_is_lost_is_exported_shown_and_learned_from(
    database: Database, clock: FrozenClock, settings: Settings, large: NewEvent, damage: str
) -> None:
    before = [user_message("I prefer tabs."), tool_call("c", "Bash", {"command": "make"})]
    await log_events(database, "s", [*before, large, tool_result("c", "ok"), user_message("I prefer short answers.")])
    await damage_blobs(database, damage)
    exports: dict[str, list[str]] = {}
    for form in ("consolidator", "claw0", "harness"):
        (lost,) = await export_sessions(database, form, exports.setdefault(form, []).append)
        assert lost.startswith("session s, event 3: the blob of its ")
    lost_of_bundle: list[str] = []
    exports["bundle"] = [line async for line in stream_bundle(database, "s", exact=True, lost=lost_of_bundle)]
    assert lost_of_bundle == [lost]
    async with database.connection() as conn:
        exports["context"] = [str((await build_context(conn, "s")).messages)]
    for lines in exports.values():
        assert all(text in "".join(lines) for text in ("I prefer tabs.", "I prefer short answers."))
    clock.advance(timedelta(hours=1))
    report = await run_job(database, settings)
    assert (report["status"], report["dead"], report["seen"]) == ("failed", 1, 5)
    believed = await read_memory(database)
    assert len(believed["fact"]) == 2
    backfill = Backfill(database, settings, session_filter=BackfillFilter(reprocess=True))
    assert (await backfill.rehearse())["problems"] == [f"session s, event 3: log: {lost}"]
    assert (await backfill.run())["dead"] == 1
    assert await read_memory(database) == believed


async def test_commands_name_what_is_lost_and_end_with_another_exit_code(
    database: Database, clock: FrozenClock, settings: Settings, environment: dict[str, str], tmp_path: Path
) -> None:
    await log_events(database, "s", [user_message("I prefer tabs."), user_message(LARGE)])
    clock.advance(timedelta(hours=1))
    await run_job(database, settings)
    await damage_blobs(database, DAMAGES["rewritten"])
    for options in ([], ["s", "--bundle"]):
        done = run_here("export", *options, "-o", str(tmp_path / "out"), environment=environment, code=4)
        assert "session s, event 2: the blob of its 'text' is lost (blob://sha256/" in done.stderr
        assert "I prefer tabs." in (tmp_path / "out").read_text()
    for options in ([], ["--replace"]):
        done = run_here("backfill", "--reprocess", *options, environment=environment, code=7)
        assert "Traceback" not in done.stderr
    assert "event 2: log: session s, event 2: the blob of its 'text' is lost" in run_here(
        "backfill", "--reprocess", environment=environment, code=7
    ).stderr.replace("\n", " ")
