"""What is exported comes back: byte for byte in our own format, in any database; and without anybody's credentials."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from consolidator.database import Database
from consolidator.database.jsonb import escape
from consolidator.errors import UsageError
from consolidator.formats.registry import get_format
from consolidator.jobs.importing.import_report import ImportReport
from consolidator.jobs.importing.importer import ImportSource, import_sources
from consolidator.models.event import NewEvent
from consolidator.models.payload import EventType
from consolidator.models.session import SessionRow
from consolidator.runtime.lineage.children import ChildRequest, create_child
from consolidator.service.log import erasure
from consolidator.service.log.events import read_events
from consolidator.service.log.export import export_sessions
from consolidator.settings import Settings
from consolidator.store.log import events
from consolidator.store.sessions import sessions
from tests.conftest import NOON
from tests.support import assert_invariants, assistant_response, log_events, tool_call, tool_result, user_message

KEY = "AKIAIOSFODNN7EXAMPLQ"  # shaped like a cloud key, and nobody's
EVERY_TYPE: list[NewEvent] = [
    NewEvent(EventType.SESSION_START, {"model": "m", "cwd": "/src/shop"}),
    NewEvent(EventType.TASK_START, {"task_id": "t", "goal": "repair"}, task_id="t"),
    user_message(
        "please repair it\0 é \ud800 \ue000 \u2028", occurred_at="2026-01-02T03:04:05.123456+00:00", speaker="ann"
    ),
    NewEvent(EventType.THINKING_START, {"message_id": "m1", "text": "hm"}),
    assistant_response("let me look"),
    tool_call("c1", "Bash", {"command": "make", "nested": [None, True, 1.5, 10**30, {"": []}]}),
    NewEvent(EventType.APPROVAL_REQUESTED, {"call_id": "c1", "tool": "Bash"}),
    NewEvent(EventType.APPROVAL_GRANTED, {"call_id": "c1", "tool": "Bash"}),
    NewEvent(EventType.APPROVAL_DENIED, {"call_id": "c0", "tool": "Bash", "reason": "no"}),
    tool_result("c1", {"out": "x" * 40_000, "list": ["y" * 20_000]}, status="error", reason="timeout"),
    NewEvent(EventType.SUBAGENT_SPAWN, {"child": "kid", "call_id": "c2", "goal": "search"}),
    NewEvent(EventType.SUBAGENT_COMPLETE, {"child": "kid", "call_id": "c2"}),
    NewEvent(EventType.POLICY_DECISION, {"decision": "compaction", "unknown": {"kept": [1]}}),
    NewEvent(EventType.ERROR, {"message": "the provider is busy"}),
    NewEvent(EventType.TASK_END, {"task_id": "t", "outcome": "success", "reward": 0.5}, task_id="t"),
    NewEvent(EventType.SESSION_END, {"reason": "done"}),
]


async def export_text(database: Database, form: str = "consolidator", **options: Any) -> str:
    """Return everything that an export writes."""
    lines: list[str] = []
    await export_sessions(database, form, lines.append, **options)
    return "".join(lines)


async def import_text(database: Database, text: str, folder: Path, form: str = "consolidator") -> ImportReport:
    """Import a text as a file of a format; every line must be understood."""
    path = folder / f"{form}.jsonl"
    path.write_bytes(text.encode())
    report = await import_sources(database, [ImportSource(path, get_format(form))])
    assert report.problems == []
    return report


async def prune_session(database: Database, session: str, upto: int) -> None:
    """Delete the beginning of a session, as retention does."""
    async with database.owner_connection() as conn, conn.transaction():
        await conn.execute("update event set consolidated_at = now() where session_id = %s", [session])
        await conn.execute(
            "update session set consolidated_to = head, due = false, pruned_to = %s where id = %s", [upto, session]
        )
        await conn.execute("delete from event where session_id = %s and seq <= %s", [session, upto])
        await conn.execute("delete from blob_ref where session_id = %s and seq <= %s", [session, upto])


async def list_session_rows(database: Database) -> list[SessionRow]:
    """Return each session's row, roots first."""
    async with database.connection() as conn:
        return [await sessions.get(conn, session_id) for session_id in await sessions.list_ids(conn)]


async def test_an_export_comes_back_byte_for_byte_from_another_database(
    database: Database, other: Database, tmp_path: Path
) -> None:
    await log_events(
        database, "every", EVERY_TYPE, key="a:b:c", channel="chat", peer="ann", project=escape("/src/\0"), model="m"
    )
    await log_events(
        database, "fork", [user_message("what if")], parent_id="every", parent_seq=4, root_id="every", kind="fork"
    )
    await log_events(
        database, "sim", [user_message("rehearsal")], simulated=True, conversation_id="c1", details={"a": [1, {}]}
    )
    await log_events(database, "old", [user_message(str(n)) for n in range(8)])
    await log_events(database, "gone", [user_message("all of it")])
    await prune_session(database, "old", 5)
    await prune_session(database, "gone", 1)
    text = await export_text(database)
    assert (await import_text(other, text, tmp_path)).events == len(EVERY_TYPE) + 1 + 1 + 3
    assert await export_text(other) == text
    await assert_invariants(other)


async def test_what_was_pruned_before_an_export_is_pruned_after_it(
    database: Database, other: Database, tmp_path: Path
) -> None:
    await log_events(database, "old", [user_message(str(n)) for n in range(8)])
    await prune_session(database, "old", 5)
    await import_text(other, await export_text(database), tmp_path)
    (row,) = await list_session_rows(other)
    assert (row.head, row.consolidated_to, row.pruned_to, row.due) == (8, 5, 5, True)
    async with other.connection() as conn:
        assert [event.seq for event in await events.read(conn, row.id)] == [6, 7, 8]


async def test_an_event_keeps_when_it_happened_and_gets_the_ingest_time_of_where_it_is(
    database: Database, other: Database, tmp_path: Path
) -> None:
    await log_events(database, "s", [user_message("hi")])
    await import_text(other, await export_text(database), tmp_path)
    async with other.connection() as conn:
        (event,) = await events.read(conn, (await list_session_rows(other))[0].id)
    assert event.occurred_at == NOON
    assert event.created_at == NOON + timedelta(days=5)


async def test_what_only_our_own_export_tells_of_a_session_is_known_again(
    database: Database, other: Database, tmp_path: Path
) -> None:
    await log_events(database, "parent", [user_message("hi")])
    kind = {"parent_id": "parent", "root_id": "parent", "kind": "branch"}
    await log_events(
        database, "sim", [user_message("dream")], simulated=True, parent_seq=1, conversation_id="c", **kind
    )
    async with database.connection() as conn:
        await conn.execute("update session set status = 'ended' where id = 'sim'")
    await import_text(other, await export_text(database), tmp_path)
    parent, child = await list_session_rows(other)
    assert (child.parent_id, child.root_id, child.parent_seq) == (parent.id, parent.id, 1)
    assert (child.simulated, child.conversation_id, child.status) == (True, "c", "ended")


async def test_forks_read_their_parents_logs_wherever_they_are_imported(
    database: Database, other: Database, settings: Settings, tmp_path: Path
) -> None:
    await log_events(database, "root", [user_message("one"), assistant_response("two"), user_message("three")])
    fork = await create_child(database, settings, "root", ChildRequest(kind="fork", at=2))
    await log_events(database, fork.id, [user_message("another way"), assistant_response("so be it")])
    again = await create_child(database, settings, fork.id)
    await log_events(database, again.id, [user_message("and on")])
    header = {"agent": "coder", "kind": "fork", "parent_id": again.id, "parent_seq": 5}
    lines: list[dict[str, Any]] = [
        {"consolidator": 1, "session": {"id": "elsewhere", **header}},  # it numbers its events from 1
        {"seq": 1, "type": "UserMessage", "data": {"text": "own numbers"}},
    ]
    text, before = await export_text(database), tmp_path / "before"
    before.mkdir()
    await import_text(other, "".join(json.dumps(line) + "\n" for line in lines), before)
    await import_text(other, text, tmp_path)
    past = ["one", "two", None, "another way", "so be it"]
    assert await _read_past(other, again.id) == [*enumerate(past, 1), (6, None), (7, "and on")]
    assert await _read_past(other, "elsewhere") == [*enumerate(past, -4), (1, "own numbers")]
    assert await export_text(other, session_names=[again.id]) == await export_text(database, session_names=[again.id])
    shown = await export_text(other, "claw0", session_names=[again.id])
    assert [word in shown for word in ("one", "so be it", "and on", "three")] == [True, True, True, False]
    await assert_invariants(other)


async def _read_past(database: Database, name: str) -> list[tuple[int, str | None]]:
    return [(event.seq, event.data.get("text")) async for event in read_events(database, name)]


async def test_an_export_adds_nothing_where_it_came_from(database: Database, tmp_path: Path) -> None:
    await log_events(database, "s", [user_message("one"), user_message("two")])
    report = await import_text(database, await export_text(database), tmp_path)
    assert (report.events, report.repeated) == (0, 2)
    assert len(await list_session_rows(database)) == 1


async def test_a_log_that_grew_elsewhere_brings_home_only_what_is_new(
    database: Database, other: Database, tmp_path: Path
) -> None:
    await log_events(database, "s", [user_message("one"), user_message("two")])
    await import_text(other, await export_text(database), tmp_path)
    (copy,) = await list_session_rows(other)
    await log_events(other, copy.id, [user_message("three")])
    assert (await import_text(database, await export_text(other), tmp_path)).events == 1
    async with database.connection() as conn:
        assert [event.data["text"] for event in await events.read(conn, "s")] == ["one", "two", "three"]
    assert len(await list_session_rows(database)) == 1


async def test_what_was_erased_does_not_come_back_with_an_export_of_it(
    database: Database, settings: Settings, tmp_path: Path
) -> None:
    await log_events(database, "s", [user_message("mine")], peer="ann")
    await log_events(database, "kid", [user_message("mine too")], parent_id="s", root_id="s", kind="fork")
    text = await export_text(database)
    await erasure.erase_sessions(
        database, settings, await erasure.plan_erasure(database, peer="ann"), reason="asked to"
    )
    report = await import_text(database, text, tmp_path)
    assert (report.events, report.erased) == (0, 2)
    assert await list_session_rows(database) == []


async def test_credentials_do_not_leave_unless_asked_to(database: Database) -> None:
    await log_events(database, "s", [user_message(f"use {KEY}"), *call_with_password()])
    redacted, whole = await export_text(database), await export_text(database, redacted=False)
    for secret in (KEY, "hunter2-of-the-shop"):
        assert secret not in redacted
        assert secret in whole
    assert redacted.count("\n") == whole.count("\n")


async def test_what_a_foreign_log_said_of_a_session_is_redacted_too(
    database: Database, other: Database, tmp_path: Path
) -> None:
    row: dict[str, Any] = {"details": {"env": {"API_KEY": KEY}, "note": f"use {KEY}"}}
    await log_events(database, "s", [user_message("hi")], **row)
    async with database.connection() as conn:
        await conn.execute("update session set error = %s where id = 's'", [f"no answer for {KEY}"])
    redacted, whole = await export_text(database), await export_text(database, redacted=False)
    assert (KEY in redacted, whole.count(KEY)) == (False, 3)
    await import_text(other, redacted, tmp_path)
    assert await export_text(other) == redacted
    await import_text(other, whole, tmp_path)
    assert KEY not in await export_text(other)


def call_with_password() -> Sequence[NewEvent]:
    """Return a call and its result, with a secret in each."""
    url = "postgresql://shop:hunter2-of-the-shop@db/shop"
    return [tool_call("c", "Bash", {"command": f"psql {url}"}), tool_result("c", {"error": f"could not reach {url}"})]


async def test_only_the_sessions_that_are_named_are_exported(database: Database) -> None:
    await log_events(database, "one", [user_message("1")])
    await log_events(database, "two", [user_message("2")])
    text = await export_text(database, session_names=["tw"])
    assert [json.loads(line)["session"]["id"] for line in text.splitlines() if "session" in line] == ["two"]


async def test_numbers_that_json_does_not_have_leave_as_words(
    database: Database, other: Database, tmp_path: Path
) -> None:
    await log_events(database, "s", [tool_result("c", [math.nan, math.inf])])
    text = await export_text(database)
    assert '["NaN","Infinity"]' in text
    await import_text(other, text, tmp_path)
    assert await export_text(other) == text


WHEN = "2026-01-02T03:04:05Z"
TRANSCRIPT = [
    {"type": "session", "id": "s1", "key": "main:chat:ann", "created": WHEN},
    {"type": "user", "content": "list the files", "ts": WHEN},
    {"type": "assistant", "content": "looking", "ts": WHEN},
    {"type": "tool_use", "tool_use_id": "t1", "name": "bash", "input": {"command": "ls"}, "ts": WHEN},
    {"type": "tool_result", "tool_use_id": "t1", "output": "a\nb", "is_error": False, "ts": WHEN},
]
HARNESS = [
    {"ts": "2026-01-02T03:04:05Z", "type": "MESSAGE_RECEIVED", "id": "e1", "payload": {"text": "hi", "msg_id": "m"}},
    {"ts": "2026-01-02T03:04:06Z", "type": "TOOL_INVOKED", "id": "e2", "payload": {"call_id": "c", "tool": "ls"}},
    {"ts": "2026-01-02T03:04:07Z", "type": "TOOL_RESULT", "id": "e3", "payload": {"call_id": "c", "result": "a"}},
    {"ts": "2026-01-02T03:04:08Z", "type": "SESSION_TERMINATED", "id": "e4", "payload": {}},
]


@pytest.mark.parametrize(("form", "lines"), [("claw0", TRANSCRIPT), ("harness", HARNESS)])
async def test_other_systems_get_their_logs_back(
    database: Database, other: Database, tmp_path: Path, form: str, lines: list[dict[str, Any]]
) -> None:
    first = await import_text(database, "".join(json.dumps(line) + "\n" for line in lines), tmp_path, form)
    assert first.events >= len(lines) - 1
    text = await export_text(database, form)
    assert [json.loads(line) for line in text.splitlines()] == lines
    await import_text(other, text, tmp_path, form)
    assert await export_text(other, form) == text
    assert [row.status for row in await list_session_rows(other)] == ["ended" if form == "harness" else "open"]


async def test_a_format_that_cannot_tell_sessions_apart_holds_one_of_them(database: Database) -> None:
    await log_events(database, "one", [user_message("1")])
    await log_events(database, "two", [user_message("2")])
    with pytest.raises(UsageError, match="harness can hold one session a file, and these are 2"):
        await export_text(database, "harness")
    assert "1" in await export_text(database, "harness", session_names=["one"])
    assert len((await export_text(database, "claw0")).splitlines()) == 4


async def test_harness_logs_of_several_sessions_stay_apart_where_they_come_together(
    database: Database, other: Database, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        await log_events(database, name, [user_message("the same"), assistant_response("the same")])
    texts = [await export_text(database, "harness", session_names=[name]) for name in ("one", "two")]
    ids = [{json.loads(line)["id"] for line in text.splitlines()} for text in texts]
    assert ids[0].isdisjoint(ids[1])
    assert all("one" in event_id for event_id in ids[0])
    assert (await import_text(other, "".join(texts), tmp_path, "harness")).events == 4
