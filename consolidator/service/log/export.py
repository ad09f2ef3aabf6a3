"""Exports sessions in a format that can be imported again, with credentials redacted by default."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, cast

from consolidator.database import Database
from consolidator.database.jsonb import unescape
from consolidator.errors import UsageError
from consolidator.formats import harness, native
from consolidator.formats.base import Writer
from consolidator.formats.registry import FORMATS, get_format
from consolidator.llm.redaction.redact import redact_json
from consolidator.models.event import Event
from consolidator.models.session import SessionRow
from consolidator.service.log.events import read_events
from consolidator.service.log.lecture import read_narrated
from consolidator.store.sessions import sessions


def find_writer(format_name: str) -> Writer:
    """Return the writer of a format; raise UsageError for a format that can only be read."""
    module = get_format(format_name)
    if not hasattr(module, "write"):
        writable = ", ".join(name for name, candidate in FORMATS.items() if hasattr(candidate, "write"))
        raise UsageError(f"{format_name} can be read, not written; these can be written: {writable}")
    return cast(Writer, module)


async def export_sessions(
    database: Database,
    format_name: str,
    write: Callable[[str], Any],
    *,
    session_names: Sequence[str] = (),
    redacted: bool = True,
) -> list[str]:
    """Write the named sessions, or all if none is named; `write` gets one line at a time.

    Return which values are lost, and where: a note takes their place.
    Raises UsageError for a format that can only be read, and for several sessions in a format that holds one.
    """
    writer = find_writer(format_name)
    async with database.connection() as conn:
        ids = [await sessions.find_session_id(conn, name) for name in session_names] or await sessions.list_ids(conn)
    if len(ids) > 1 and getattr(writer, "ONE_SESSION", False):
        raise UsageError(
            f"{format_name} can hold one session a file, and these are {len(ids)}: name one (--session), or use "
            "the format consolidator"
        )
    lost: list[str] = []
    for session_id in ids:
        async with database.connection() as conn:
            session = await sessions.get(conn, session_id)
        if writer is harness:
            batch = [event async for event in read_narrated(database, session)]
        else:  # other formats than ours know no parents: a child is written with its whole past
            batch = [event async for event in read_events(database, session_id, own=writer is native)]
        lost += [event.unreadable for event in batch if event.unreadable is not None]
        lines: Iterator[str] = writer.write(
            writable_columns(session, redacted=redacted),
            (redact_event(event) if redacted else event for event in batch),
        )
        for line in lines:
            write(line)
    return lost


def writable_columns(session: SessionRow, *, redacted: bool) -> dict[str, Any]:
    """Return a session's columns by name, with its texts as their log had them, not as PostgreSQL must store them."""
    columns = {name: unescape(value) if isinstance(value, str) else value for name, value in asdict(session).items()}
    del columns["last_day"]  # it is made of another one
    return _redact_columns(columns) if redacted else columns


def _redact_columns(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Hide credentials in what a foreign log said about a session, and in the error in which it ended."""
    details = dict(columns["details"])
    exported = details.pop(native.EXPORTED, None)
    details = redact_json(details)
    if exported is not None:  # names and numbers, which it needs as they are
        details[native.EXPORTED] = {
            name: redact_json(value) if name == "error" else value
            for name, value in exported.items()
            if name != "chain"
        }
    return {**columns, "details": details, "error": redact_json(columns["error"])}


def redact_event(event: Event) -> Event:
    """Hide credentials in an event."""
    return replace(event, data=redact_json(event.data))
