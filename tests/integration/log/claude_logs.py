"""Claude Code logs for tests: lines as that agent writes them, and files of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from consolidator.database import Database
from consolidator.formats import format_named
from consolidator.jobs.importing.importer import ImportReport, ImportSource, import_sources
from consolidator.store.log import events, sessions

Line = dict[str, Any]


def line(number: int, text: str, session: str = "s", **more: Any) -> Line:
    """A person's message; its uuid is made of session and number."""
    return {
        "type": "user",
        "sessionId": session,
        "uuid": f"{session}-{number}",
        "timestamp": f"2026-03-01T10:{number // 60 % 60:02}:{number % 60:02}.000Z",
        "cwd": "/src/shop",
        "message": {"role": "user", "content": text},
        **more,
    }


def lines(count: int, session: str = "s", **more: Any) -> list[Line]:
    """So many messages of a session."""
    return [line(number, f"{session} says {number}", session, **more) for number in range(1, count + 1)]


def write(path: Path, content: Iterable[Line | str | bytes]) -> Path:
    """Write lines as a log; texts and bytes go in as they are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    raw = (json.dumps(one) if isinstance(one, dict) else one for one in content)
    path.write_bytes(b"".join((one.encode() if isinstance(one, str) else one) + b"\n" for one in raw))
    return path


async def imported(database: Database, path: Path, form: str | None = "claude-code", **options: Any) -> ImportReport:
    """Import a file or directory; without a format it must be recognised."""
    return await import_sources(database, [ImportSource(path, format_named(form) if form else None)], **options)


async def told(database: Database) -> dict[str, Sequence[str]]:
    """What each session's events say, in order, by the session's foreign name."""
    found: dict[str, Sequence[str]] = {}
    async with database.connection() as conn:
        for session in await sessions.listing(conn, limit=1000):
            log = await events.read(conn, session["id"])
            name = str(session["origin"]).partition(":")[2]
            found[name] = [str(event.data.get("text", event.type.value)) for event in log]
    return dict(sorted(found.items()))
