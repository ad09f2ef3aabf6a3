"""Each event tells who said it: by every way of appending, covered by the chain, and not to be changed."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from consolidator.database import Database
from consolidator.errors import InvalidEvent
from consolidator.formats.registry import get_format
from consolidator.jobs.importing.importer import ImportSource, import_sources
from consolidator.models.event import Event, NewEvent
from consolidator.models.payload import EventType
from consolidator.service.log.export import export_sessions
from consolidator.store.log import events, verification
from consolidator.store.sessions import sessions
from tests.support import log_events, user_message


def said(text: str, principal: str | None) -> NewEvent:
    """A message with a principal."""
    return NewEvent(EventType.USER_MESSAGE, {"text": text}, principal=principal)


async def read_all(database: Database, session: str = "s") -> list[Event]:
    """Return a session's events."""
    async with database.connection() as conn:
        return await events.read(conn, session)


async def test_every_way_of_appending_keeps_the_principal(database: Database) -> None:
    await log_events(database, "s", [said("one", "user:cli")])
    await log_events(database, "s", [said("two", "client:laptop"), said("three", None)])
    async with database.transaction() as conn:
        now = database.clock.now()
        await events.append(conn, "s", [said("four", "user:chat")], now=now, key="k")
        await events.load_each(conn, {"s": [events.prepare(said("five", "user:codex"))]}, now=now)
    kept = [event.principal for event in await read_all(database)]
    assert kept == ["user:cli", "client:laptop", None, "user:chat", "user:codex"]
    async with database.transaction() as conn:
        assert not any((await verification.find_tampering(conn)).values())


async def test_a_principal_cannot_be_changed(database: Database) -> None:
    await log_events(database, "s", [said("one", "client:laptop")])
    with pytest.raises(psycopg.errors.IntegrityConstraintViolation, match="append-only"):
        async with database.owner_connection() as conn:
            await conn.execute("update event set principal = 'user:cli'")


@pytest.mark.parametrize("principal", ["'user:cli'", "null", "'client:laptop2'"])
async def test_a_principal_that_was_changed_all_the_same_is_found(database: Database, principal: str) -> None:
    await log_events(database, "s", [said("one", "client:laptop"), said("two", "client:laptop")])
    async with database.owner_connection() as conn, conn.transaction():
        cursor = await conn.execute(
            "select inhrelid::regclass::text from pg_inherits where inhparent = 'event'::regclass"
        )
        for (part,) in await cursor.fetchall():
            await conn.execute(f"alter table {part} disable trigger event_immutable".encode())
        await conn.execute(f"update event set principal = {principal} where seq = 1".encode())
        assert await verification.find_broken_chains(conn) == ["s: event 1 is not what was appended"]


async def test_a_payload_names_no_principal(database: Database) -> None:
    await log_events(database, "s", [user_message("hi", principal="user:cli", role="operator")])
    assert (await read_all(database))[0].principal is None


async def test_a_refused_event_refuses_all(database: Database) -> None:
    granted = NewEvent(EventType.APPROVAL_GRANTED, {"call_id": "c"}, principal="client:laptop")
    with pytest.raises(InvalidEvent, match="client:laptop may not say ApprovalGranted"):
        await log_events(database, "s", [said("one", "client:laptop"), granted])
    async with database.connection() as conn:
        assert await sessions.list_ids(conn) == []


async def import_lines(database: Database, folder: Path, *lines: str) -> list[str]:
    """Import an export of one session, and return the problems."""
    path = folder / "export.jsonl"
    path.write_text('{"consolidator": 1, "session": {"id": "s", "agent": "a"}}\n' + "\n".join(lines) + "\n")
    return (await import_sources(database, [ImportSource(path, get_format("consolidator"))])).problems


async def test_an_imported_event_is_said_by_its_format(database: Database, tmp_path: Path) -> None:
    await import_lines(
        database,
        tmp_path,
        '{"seq": 1, "type": "UserMessage", "data": {"text": "hi"}}',
        '{"seq": 2, "type": "UserMessage", "data": {"text": "hi", "origin": "harness"}}',
        '{"seq": 3, "type": "ToolResult", "data": {"call_id": "c"}}',
        '{"seq": 4, "type": "UserMessage", "data": {"text": "hi"}, "principal": "client"}',
        '{"seq": 5, "type": "UserMessage", "data": {"text": "hi"}, "principal": "operator"}',
        '{"seq": 6, "type": "UserMessage", "data": {"text": "hi"}, "principal": "nobody"}',
        '{"seq": 7, "type": "UserMessage", "data": {"text": "hi"}, "principal": ["user"]}',
        '{"seq": 8, "type": "UserMessage", "data": {"text": "hi"}, "principal": "user:cli"}',
        '{"seq": 9, "type": "AssistantResponse", "data": {"text": "hi"}, "principal": "user"}',
    )
    async with database.connection() as conn:
        (session,) = await sessions.list_ids(conn)
    assert [event.principal for event in await read_all(database, session)] == [
        "user:consolidator",
        "harness:consolidator",
        "tool:consolidator",
        *["client:consolidator"] * 4,
        "user:consolidator",
        "client:consolidator",
    ]


async def test_a_verdict_that_claims_a_wrong_principal_is_a_problem(database: Database, tmp_path: Path) -> None:
    problems = await import_lines(
        database,
        tmp_path,
        '{"seq": 1, "type": "ApprovalGranted", "data": {"call_id": "c"}, "principal": "agent"}',
        '{"seq": 2, "type": "ApprovalGranted", "data": {"call_id": "c"}, "principal": ""}',
    )
    assert len(problems) == 2


async def test_a_clients_words_leave_and_come_back_as_a_clients(database: Database, tmp_path: Path) -> None:
    await log_events(database, "s", [said("one", "client:laptop"), said("two", "user:cli"), said("three", None)])
    lines: list[str] = []
    await export_sessions(database, "consolidator", lines.append)
    assert ['"principal":"client"' in line for line in "".join(lines).splitlines()[1:]] == [True, False, False]
    path = tmp_path / "export.jsonl"
    path.write_text("".join(lines).replace('"id":"s"', '"id":"t"'))
    await import_sources(database, [ImportSource(path, get_format("consolidator"))])
    async with database.connection() as conn:
        (copy,) = [name for name in await sessions.list_ids(conn) if name != "s"]
    kept = [event.principal for event in await read_all(database, copy)]
    assert kept == ["client:consolidator", "user:consolidator", "user:consolidator"]
