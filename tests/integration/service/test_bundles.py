"""Bundles: a session with all that belongs to it leaves and comes back the same, whole or not at all."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from consolidator.clock import FrozenClock
from consolidator.context.build import ContextRequest, build_context
from consolidator.database import Database
from consolidator.errors import Forbidden, ImportRefused
from consolidator.formats.registry import get_format
from consolidator.jobs.importing.import_report import ImportReport
from consolidator.jobs.importing.importer import ImportSource, import_sources
from consolidator.models.event import NewEvent, with_principals
from consolidator.models.payload import EventType
from consolidator.models.session import Seed
from consolidator.models.viewer import Viewer
from consolidator.runtime.lineage.checkpoints import create_checkpoint
from consolidator.runtime.lineage.children import ChildRequest, create_child
from consolidator.runtime.rerun.replay import ReplayedItem, replay
from consolidator.service.log import erasure
from consolidator.service.log.export import export_sessions
from consolidator.service.sessions.bundles import load_bundle, stream_bundle
from consolidator.service.sessions.listing import read_state
from consolidator.settings import Settings
from consolidator.store.log import events
from consolidator.store.sessions import seeds, sessions
from consolidator.store.turns import generation
from tests.conftest import NOON
from tests.integration.log.test_export import EVERY_TYPE, KEY, prune_session
from tests.support import assert_invariants, log_events, tool_call, tool_result, user_message


async def bundle_text(database: Database, session: str, *, exact: bool = True) -> str:
    """Return a session's bundle."""
    return "".join([line async for line in stream_bundle(database, session, exact=exact)])


def save(text: str, folder: Path, name: str = "bundle.jsonl") -> Path:
    """Write a bundle to a file."""
    path = folder / name
    path.write_bytes(text.encode())
    return path


async def import_file(database: Database, path: Path, form: str = "bundle") -> ImportReport:
    """Import a file as `consolidator import` does."""
    return await import_sources(database, [ImportSource(path, get_format(form))])


async def replayed(database: Database, session: str, channel: str | None = None) -> list[ReplayedItem]:
    """Return what people saw, without when."""
    async with database.connection() as conn:
        return [replace(item, at=NOON) async for item in replay(conn, session, channel=channel)]


async def say(database: Database, session: str, *new: NewEvent) -> int:
    """Append events a moment later, and return the seq of the last."""
    assert isinstance(database.clock, FrozenClock)
    database.clock.advance(timedelta(seconds=1))
    async with database.connection() as conn:
        appended = await events.append(conn, session, with_principals(new), now=database.clock.now())
    return appended.last_seq


async def stream(database: Database, session: str, message: str, started: int, *deltas: str, after: int = 0) -> None:
    """Commit chunks of a message a moment later."""
    assert isinstance(database.clock, FrozenClock)
    database.clock.advance(timedelta(seconds=1))
    async with database.connection() as conn:
        await generation.append_chunks(
            conn, session, message, deltas, after=after, started=started, epoch=0, now=database.clock.now()
        )


async def deliver(database: Database, session: str, message: str, started: int, upto: int, channel: str) -> None:
    """Note that a channel acknowledged a message."""
    async with database.connection() as conn:
        now = database.clock.now()
        await generation.record_delivery(conn, session, message, channel, upto=upto, started=started, now=now)


def thinking(message: str) -> NewEvent:
    return NewEvent(EventType.THINKING_START, {"message_id": message})


def answer(message: str, text: str, chunks: int) -> NewEvent:
    return NewEvent(EventType.ASSISTANT_RESPONSE, {"text": text, "message_id": message, "chunks": chunks})


async def log_streamed_session(database: Database) -> str:
    """Log a session whose first answer was given up, whose second was steered, and whose third is under way."""
    await log_events(database, "01STREAMED", [], agent="main", channel="chat", peer="ann", key="main:chat:ann")
    name = "01STREAMED"
    seq = await say(database, name, user_message("hi"), thinking("m1"))
    await stream(database, name, "m1", seq, "Hel", "lo th\ud800")
    await deliver(database, name, "m1", seq, 2, "chat")
    again = NewEvent(EventType.POLICY_DECISION, {"decision": "generation_replaced", "message_id": "m1"})
    seq = await say(database, name, again, thinking("m2"))
    await stream(database, name, "m2", seq, "Hello ", "there, ")
    await say(database, name, user_message("stop", mode="steer"))
    await stream(database, name, "m2", seq, "ann", after=2)
    await deliver(database, name, "m2", seq, 1, "chat")
    await deliver(database, name, "m2", seq, 3, "mail")
    await say(database, name, user_message("please", mode="steer"))
    await say(database, name, answer("m2", "Hello there, ann", 3), *EVERY_TYPE[1:-1])
    seq = await say(database, name, user_message("go on"), thinking("m3"))
    await stream(database, name, "m3", seq, "well")
    async with database.connection() as conn:
        await conn.execute(
            "update session set state = %s, config = %s, max_cost = 2.5, cost = 0.125, turns = 3, input_tokens = 700, "
            "output_tokens = 70, cached_tokens = 7, compactions = 1, error = 'odd', labels = %s, "
            "trigger_type = 'email', trigger_id = '<1@x>', context_window = 4096 where id = %s",
            [
                Jsonb({"room": {"lamp": "on"}}),
                Jsonb({"system": "Be brief.", "tools": ["Bash"]}),
                Jsonb({"space_id": 7}),
                name,
            ],
        )
        thread = [Seed("system", "Be brief."), Seed("user", "earlier \0", True, NOON, {"speaker": "ann"})]
        await seeds.add(conn, name, thread)
        await conn.execute(
            "insert into session_view (session_id, upto, summary, compaction_seq, compaction, scratchpad_seq, "
            "scratchpad) values (%s, 5, %s, 2, %s, 3, 'notes')",
            [name, Jsonb({"tools": {"Bash": 1}}), Jsonb({"kept_from": 2})],
        )
    return name


async def test_a_bundle_comes_back_with_all_that_belongs_to_the_session(
    database: Database, other: Database, tmp_path: Path
) -> None:
    name = await log_streamed_session(database)
    text = await bundle_text(database, name)
    imported, report = await load_bundle(other, save(text, tmp_path))
    assert imported.is_new
    assert imported.session_id != name
    assert report.problems == []
    assert await bundle_text(other, imported.session_id) == text
    for channel in (None, "mail", ""):
        assert await replayed(other, imported.session_id, channel) == await replayed(database, name, channel)
    async with other.connection() as conn:
        row = await sessions.get(conn, imported.session_id)
        seeded = await seeds.read(conn, row.id)
    assert (row.state, row.config["system"], row.error) == ({"room": {"lamp": "on"}}, "Be brief.", "odd")
    assert (row.cost, row.max_cost, row.turns) == (Decimal("0.125"), Decimal("2.5"), 3)
    assert (row.input_tokens, row.output_tokens, row.cached_tokens, row.compactions) == (700, 70, 7, 1)
    assert (row.trigger_type, row.trigger_id, row.context_window) == ("email", "<1@x>", 4096)
    assert row.labels == {"space_id": 7}
    assert [(seed.role, seed.content, seed.is_new, seed.occurred_at, seed.details) for seed in seeded] == [
        ("system", "Be brief.", False, None, {}),
        ("user", "earlier \0", True, NOON, {"speaker": "ann"}),
    ]
    assert row.is_driven_elsewhere
    assert not row.current
    await assert_invariants(other)


async def test_a_bundle_that_comes_again_adds_only_what_is_new(
    database: Database, other: Database, tmp_path: Path
) -> None:
    name = await log_streamed_session(database)
    first, _ = await load_bundle(other, save(await bundle_text(database, name), tmp_path))
    again, report = await load_bundle(other, save(await bundle_text(database, name), tmp_path))
    assert (again.session_id, again.is_new, again.events, report.repeated) == (first.session_id, False, 0, first.events)
    await say(database, name, answer("m3", "well", 1), user_message("bye"))
    text = await bundle_text(database, name)
    grown, _ = await load_bundle(other, save(text, tmp_path))
    assert (grown.session_id, grown.events) == (first.session_id, 2)
    assert await bundle_text(other, first.session_id) == text
    await assert_invariants(other)


async def test_either_version_of_our_format_knows_what_the_other_brought(
    database: Database, other: Database, tmp_path: Path
) -> None:
    name = await log_streamed_session(database)
    lines: list[str] = []
    await export_sessions(database, "consolidator", lines.append, redacted=False)
    text = await bundle_text(database, name)
    old, new = save("".join(lines), tmp_path, "old.jsonl"), save(text, tmp_path)
    assert (await import_file(other, new, "consolidator")).events > 0
    assert (await import_file(other, old, "consolidator")).events == 0
    async with other.connection() as conn:
        ids = await sessions.list_ids(conn)
    assert len(ids) == 1
    assert await bundle_text(other, ids[0]) == text


async def test_a_version_1_export_becomes_a_whole_session_by_its_bundle(
    database: Database, other: Database, tmp_path: Path
) -> None:
    name = await log_streamed_session(database)
    lines: list[str] = []
    await export_sessions(database, "consolidator", lines.append, redacted=False)
    await import_file(other, save("".join(lines), tmp_path, "old.jsonl"), "consolidator")
    imported, report = await load_bundle(other, save(await bundle_text(database, name), tmp_path))
    assert (report.events, imported.is_new) == (0, False)
    async with other.connection() as conn:
        assert (await sessions.get(conn, imported.session_id)).turns == 3
        assert [chunk.delta for chunk in await generation.read_chunks(conn, imported.session_id, "m1")] != []


def damaged_texts(text: str) -> dict[str, str]:
    """Return what can become of a bundle on its way, by what happened."""
    lines = [f"{line}\n" for line in text.removesuffix("\n").split("\n")]
    first = next(number for number, line in enumerate(lines) if '"seq":1,"type"' in line)
    changed = json.loads(lines[first])
    changed["data"]["text"] = "something else"
    swapped = [*lines[:first], lines[first + 1], lines[first], *lines[first + 2 :]]
    return {
        "cut in a line": text[: len(text) // 2],
        "cut after a line": "".join(lines[:-3]),
        "without its end": "".join(lines[:-1]),
        "empty": "",
        "changed": "".join([*lines[:first], json.dumps(changed) + "\n", *lines[first + 1 :]]),
        "swapped": "".join(swapped),
        "a line less": "".join([*lines[:-2], lines[-1]]),
        "a line more": "".join([*lines[:-1], lines[-2], lines[-1]]),
        "more after its end": text + lines[3],
        "of a later version": text.replace('"consolidator":2', '"consolidator":3'),
        "of something new": "".join([*lines[:-1], '{"hologram":{"a":1}}\n', lines[-1]]),
    }


async def test_a_damaged_bundle_is_refused_before_anything_is_written(
    database: Database, other: Database, tmp_path: Path
) -> None:
    text = await bundle_text(database, await log_streamed_session(database))
    for what, damaged in damaged_texts(text).items():
        with pytest.raises(ImportRefused, match="nothing was written"):
            await load_bundle(other, save(damaged, tmp_path, f"{what}.jsonl"))
        report = await import_file(other, tmp_path / f"{what}.jsonl")
        assert (report.problem_count, len(report.damaged_bundles)) == (1, 1), what
    async with other.connection() as conn:
        assert await sessions.list_ids(conn) == []


async def test_credentials_stay_here_also_those_that_came_in_pieces(database: Database, tmp_path: Path) -> None:
    await log_events(database, "01SECRET", [])
    await say(database, "01SECRET", user_message(f"use {KEY}"), thinking("m"))
    await stream(database, "01SECRET", "m", 2, "so: ", f"my key {KEY[:9]}", KEY[9:], " is good")
    await say(database, "01SECRET", answer("m", f"so: my key {KEY} is good", 4))
    async with database.connection() as conn:
        await conn.execute("update session set config = %s", [Jsonb({"system": f"The key is {KEY}."})])
    text = await bundle_text(database, "01SECRET", exact=False)
    assert KEY not in text
    assert KEY[9:] not in text
    assert text.count(KEY[:9]) == 0
    assert "so: " in text
    assert KEY in await bundle_text(database, "01SECRET")
    copied, _ = await load_bundle(database, save(text, tmp_path), as_copy=True)
    again = [json.loads(line) for line in (await bundle_text(database, copied.session_id, exact=False)).splitlines()]
    assert [line["chunk"] for line in again if "chunk" in line] == [
        json.loads(line)["chunk"] for line in text.splitlines() if '"chunk"' in line
    ]


async def test_credentials_in_names_and_labels_stay_here_too(database: Database) -> None:
    await log_events(database, "01NAMES", [user_message("hello"), tool_call("c1", KEY, {})])
    named = f"name {KEY}"
    names = ("peer", "project", "model", "conversation_id", "error", "trigger_type", "trigger_id", "channel")
    async with database.connection() as conn:
        for name in names:
            await conn.execute(f"update session set {name} = %s", [named])
        await conn.execute("update session set key = %s, labels = %s", [f"main:web:{KEY}", Jsonb({"space": named})])
    await create_checkpoint(database, "01NAMES", at=1, label=named, metadata={"from": named})
    assert KEY not in await bundle_text(database, "01NAMES", exact=False)
    exact = await bundle_text(database, "01NAMES")
    assert exact.count(KEY) >= len(names) + 4


async def test_an_exact_bundle_after_a_redacted_one_is_refused_and_copied_beside_it(
    database: Database, other: Database, tmp_path: Path
) -> None:
    await log_events(database, "01SECRET", [user_message(f"the key is {KEY}")])
    redacted = save(await bundle_text(database, "01SECRET", exact=False), tmp_path, "redacted.jsonl")
    exact = save(await bundle_text(database, "01SECRET"), tmp_path, "exact.jsonl")
    first, _ = await load_bundle(other, redacted)
    assert await bundle_text(other, first.session_id, exact=False) == redacted.read_text()
    with pytest.raises(ImportRefused, match=f"{first.session_id} is here already, from a redacted bundle.*--copy"):
        await load_bundle(other, exact)
    redacted_copy, _ = await load_bundle(other, redacted, as_copy=True)
    copy, _ = await load_bundle(other, exact, as_copy=True)
    assert (copy.is_new, copy.events) == (True, 1)
    assert copy.session_id != redacted_copy.session_id
    assert KEY in await bundle_text(other, copy.session_id)
    again, _ = await load_bundle(database, redacted)  # the session of this database is exact, and stays it
    assert (again.is_new, again.events) == (False, 0)
    await assert_invariants(other)


async def test_only_the_owner_exports_exactly_or_imports(database: Database, tmp_path: Path) -> None:
    name = await log_streamed_session(database)
    reader = Viewer("reader", frozenset({"read", "write"}))
    assert [line async for line in stream_bundle(database, name, viewer=reader)]
    with pytest.raises(Forbidden):
        _ = [line async for line in stream_bundle(database, name, viewer=reader, exact=True)]
    with pytest.raises(Forbidden):
        await load_bundle(database, save(await bundle_text(database, name), tmp_path), viewer=reader)


async def test_a_session_of_this_database_gets_nothing_from_its_bundle_and_a_copy_is_no_evidence(
    database: Database, tmp_path: Path
) -> None:
    name = await log_streamed_session(database)
    path = save(await bundle_text(database, name), tmp_path)
    imported, report = await load_bundle(database, path)
    assert (imported.session_id, imported.is_new, report.events) == (name, False, 0)
    copies = [(await load_bundle(database, path, as_copy=True))[0] for _ in range(2)]
    assert copies[0].session_id == copies[1].session_id != name
    async with database.connection() as conn:
        copy = await sessions.get(conn, copies[0].session_id)
    assert (copy.simulated, copy.key) == (True, None)
    assert await replayed(database, copy.id) == await replayed(database, name)
    await assert_invariants(database)


async def test_what_was_erased_or_pruned_does_not_come_back_with_a_bundle(
    database: Database, other: Database, settings: Settings, tmp_path: Path
) -> None:
    name = await log_streamed_session(database)
    path = save(await bundle_text(database, name), tmp_path)
    imported, _ = await load_bundle(other, path)
    await prune_session(other, imported.session_id, 5)
    async with other.transaction() as conn:
        await conn.execute("delete from generation_chunk where started_seq <= 5")
        await conn.execute("delete from delivery where started_seq <= 5")
    pruned = await bundle_text(other, imported.session_id)
    await load_bundle(other, path)
    assert await bundle_text(other, imported.session_id) == pruned
    await erasure.erase_sessions(other, settings, await erasure.plan_erasure(other, peer="ann"), reason="asked to")
    again, report = await load_bundle(other, path)
    assert (again.erased, report.events, report.erased > 0) == (True, 0, True)
    async with other.connection() as conn:
        assert await sessions.list_ids(conn) == []


async def test_an_import_claims_no_more_than_an_import_may(database: Database, other: Database, tmp_path: Path) -> None:
    await log_events(database, "01FORGED", [])
    forged = [
        NewEvent(EventType.USER_MESSAGE, {"text": "from a client"}, principal="client:laptop"),
        NewEvent(EventType.APPROVAL_GRANTED, {"call_id": "c", "tool": "Bash"}, principal="user:chat"),
        NewEvent(EventType.TOOL_RESULT, {"call_id": "c", "tool": "Bash", "content": "x"}, principal="harness"),
    ]
    async with database.connection() as conn:
        await events.append(conn, "01FORGED", forged, now=database.clock.now())
    text = await bundle_text(database, "01FORGED")
    imported, _ = await load_bundle(other, save(text, tmp_path))
    async with other.connection() as conn:
        said_by = [event.principal for event in await events.read(conn, imported.session_id)]
        row = await sessions.get(conn, imported.session_id)
    assert said_by == ["client:consolidator", "user:consolidator", "harness:consolidator"]
    assert row.is_driven_elsewhere  # so that no approval in it allows a call
    assert row.attention == {}


async def test_two_imports_of_one_bundle_at_once_make_one_session(
    database: Database, other: Database, tmp_path: Path
) -> None:
    name = await log_streamed_session(database)
    text = await bundle_text(database, name)
    path = save(text, tmp_path)
    loaded = await asyncio.gather(*(load_bundle(other, path) for _ in range(3)))
    assert len({imported.session_id for imported, _ in loaded}) == 1
    assert await bundle_text(other, loaded[0][0].session_id) == text
    await assert_invariants(other)


async def test_large_values_and_many_events_come_back(database: Database, other: Database, tmp_path: Path) -> None:
    large: list[Any] = [user_message("go")]
    for number in range(700):
        content = "x" * 20_000 if number % 100 == 0 else f"line {number}"
        large += [tool_call(f"c{number}", "Bash", {"n": number}), tool_result(f"c{number}", content)]
    await log_events(database, "01LARGE", large)
    text = await bundle_text(database, "01LARGE")
    imported, report = await load_bundle(other, save(text, tmp_path))
    assert (imported.events, report.problems) == (1401, [])
    assert await bundle_text(other, imported.session_id) == text
    await assert_invariants(other)


async def test_a_fork_takes_with_it_what_it_reads_of_its_ancestors(
    database: Database, other: Database, settings: Settings, tmp_path: Path
) -> None:
    name = await log_streamed_session(database)
    await say(database, name, answer("m3", "well", 1))
    async with database.connection() as conn:
        head = (await sessions.get(conn, name)).head
        await conn.execute("update session set settled_to = head, max_cost = null where id = %s", [name])
    fork = await create_child(database, settings, name, ChildRequest(kind="fork"))
    await say(database, name, user_message("only in the original"))
    await say(database, fork.id, user_message("only in the fork"), answer("m4", "yes", 0))
    async with database.connection() as conn:
        await conn.execute("update session set settled_to = head where id = %s", [fork.id])
    again = await create_child(database, settings, fork.id, ChildRequest(kind="fork", at=head))
    await say(database, again.id, user_message("in the fork of the fork"))
    await create_checkpoint(database, again.id, label="here", time_to_live=timedelta(days=9))
    for child in (fork.id, again.id):
        text = await bundle_text(database, child)
        assert "only in the original" not in text
        imported, report = await load_bundle(other, save(text, tmp_path))
        assert report.problems == []
        assert await bundle_text(other, imported.session_id) == text
        assert await replayed(other, imported.session_id) == await replayed(database, child)
        repeated, _ = await load_bundle(other, save(text, tmp_path))
        assert (repeated.session_id, repeated.events) == (imported.session_id, 0)
    async with other.connection() as conn:
        row = await sessions.get(conn, imported.session_id)
        context = await build_context(conn, row.id, ContextRequest(budget=100_000))
    async with database.connection() as conn:
        original = await build_context(conn, again.id, ContextRequest(budget=100_000))
    assert (row.base_seq, row.head) == (again.base_seq, again.head + 1)
    assert context.messages == original.messages
    await assert_invariants(other)


async def test_the_open_task_comes_along(database: Database, other: Database, tmp_path: Path) -> None:
    await log_events(database, "01TASK", [user_message("hi")])
    task = NewEvent(EventType.TASK_START, {"task_id": "t\0", "goal": "repair"})
    async with database.connection() as conn:
        now = database.clock.now()
        await events.append(conn, "01TASK", with_principals([task]), now=now, open_task=None)
    text = await bundle_text(database, "01TASK")
    imported, _ = await load_bundle(other, save(text, tmp_path))
    _, open_task = await read_state(other, imported.session_id)
    assert open_task is not None
    assert open_task.title == "repair"
    assert await bundle_text(other, imported.session_id) == text


async def test_an_exact_bundle_keeps_the_hash_of_the_log_it_came_from(
    database: Database, other: Database, tmp_path: Path
) -> None:
    name = await log_streamed_session(database)
    text = await bundle_text(database, name)
    async with database.connection() as conn:
        row = await sessions.get(conn, name)
    assert row.chain_hash is not None
    chain = json.loads(text.partition("\n")[0])["session"]["chain"]
    assert chain == {"seq": row.head, "hash": row.chain_hash.hex()}
    imported, _ = await load_bundle(other, save(text, tmp_path))
    async with other.connection() as conn:
        copied = await sessions.get(conn, imported.session_id)
    assert copied.chain_hash != row.chain_hash  # its own chain is of what was imported
    assert await bundle_text(other, imported.session_id) == text
    # Of a redacted bundle it would tell whether a guess of what is hidden is right.
    assert row.chain_hash.hex() not in await bundle_text(database, name, exact=False)
    assert row.chain_hash.hex() not in await bundle_text(other, imported.session_id, exact=False)
    lines: list[str] = []
    await export_sessions(other, "consolidator", lines.append)
    assert row.chain_hash.hex() not in "".join(lines)


async def test_a_bundle_of_a_log_that_went_on_in_another_way_is_refused(database: Database, tmp_path: Path) -> None:
    name = await log_streamed_session(database)
    text = await bundle_text(database, name)
    forged = json.loads(text.partition("\n")[0])
    forged["session"]["chain"]["hash"] = "0" * 64
    lines = json.dumps(forged) + "\n" + text.partition("\n")[2].rpartition('{"end"')[0]
    end = {"lines": lines.count("\n"), "sha256": sha256(lines.encode()).hexdigest()}
    path = save(lines + json.dumps({"end": end}) + "\n", tmp_path)
    with pytest.raises(ImportRefused, match="another hash"):
        await load_bundle(database, path)
    copied, _ = await load_bundle(database, path, as_copy=True)
    assert copied.is_new
