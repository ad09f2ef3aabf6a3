"""Writes sessions out in a format that can be read again, credentials hidden unless told otherwise."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

from consolidator.database import Database
from consolidator.database.jsonb import unescape
from consolidator.errors import UsageError
from consolidator.formats import FORMATS, format_named
from consolidator.formats.base import Writer
from consolidator.llm.redaction.redact import redact_json
from consolidator.models.event import Event
from consolidator.store.log import events, sessions
from consolidator.store.queries import Row

BATCH = 500


def writable(format_name: str) -> Writer:
    """Return the writer of a format; raise UsageError, naming those there are, for one that can only be read."""
    module = format_named(format_name)
    if not hasattr(module, "write"):
        known = ", ".join(name for name, one in FORMATS.items() if hasattr(one, "write"))
        raise UsageError(f"{format_name} can be read, not written; there are: {known}")
    return cast(Writer, module)


async def export_sessions(
    database: Database,
    format_name: str,
    write: Callable[[str], Any],
    *,
    words: Sequence[str] = (),
    redacted: bool = True,
) -> int:
    """Write the sessions named by `words` (all where there are none) and return how many.

    Raises UsageError for a format that can only be read, and for several sessions in one that can hold only one.
    """
    writer = writable(format_name)
    async with database.connection() as conn:
        names = [await sessions.find(conn, word) for word in words] or await sessions.all_ids(conn)
    if len(names) > 1 and getattr(writer, "ONE_SESSION", False):
        raise UsageError(
            f"{format_name} can hold one session a file, and these are {len(names)}: name one (--session), or use "
            "the format consolidator"
        )
    for name in names:
        async with database.connection() as conn:
            session = _as_told(await sessions.get(conn, name))
        gathered = [event async for event in _events(database, name, session["head"])]
        lines: Iterator[str] = writer.write(session, (_hidden(event) if redacted else event for event in gathered))
        for line in lines:
            write(line)
    return len(names)


async def _events(database: Database, session: str, head: int) -> AsyncIterator[Event]:
    after = 0
    while after < head:
        async with database.connection() as conn:
            batch = await events.read(conn, session, after=after, upto=head, limit=BATCH)
        if not batch:
            return
        for event in batch:
            yield event
        after = batch[-1].seq


def _as_told(session: Row) -> Row:
    """Return a session's row with its texts as their log had them, not as PostgreSQL must hold them."""
    return {name: unescape(value) if isinstance(value, str) else value for name, value in session.items()}


def _hidden(event: Event) -> Event:
    return replace(event, data=redact_json(event.data))
