"""Claude Code logs for tests: lines as that agent writes them, and files of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from consolidator.database import Database
from consolidator.formats.registry import get_format
from consolidator.jobs.importing.import_report import ImportReport
from consolidator.jobs.importing.importer import ImportSource, import_sources
from consolidator.store.log import events
from tests.support import list_latest

Line = dict[str, Any]


def user_line(number: int, text: str, session: str = "s", **fields: Any) -> Line:
    """A person's message; its uuid is made of session and number."""
    return {
        "type": "user",
        "sessionId": session,
        "uuid": f"{session}-{number}",
        "timestamp": f"2026-03-01T10:{number // 60 % 60:02}:{number % 60:02}.000Z",
        "cwd": "/src/shop",
        "message": {"role": "user", "content": text},
        **fields,
    }


def user_lines(count: int, session: str = "s", **fields: Any) -> list[Line]:
    """So many messages of a session."""
    return [user_line(number, f"{session} says {number}", session, **fields) for number in range(1, count + 1)]


def write_log(path: Path, log_lines: Iterable[Line | str | bytes]) -> Path:
    """Write lines as a log; texts and bytes go in as they are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    raw = (json.dumps(log_line) if isinstance(log_line, dict) else log_line for log_line in log_lines)
    path.write_bytes(
        b"".join((log_line.encode() if isinstance(log_line, str) else log_line) + b"\n" for log_line in raw)
    )
    return path


async def import_logs(
    database: Database, path: Path, log_format: str | None = "claude-code", **options: Any
) -> ImportReport:
    """Import a file or directory; without a format it must be recognised."""
    return await import_sources(
        database, [ImportSource(path, get_format(log_format) if log_format else None)], **options
    )


async def read_texts(database: Database) -> dict[str, Sequence[str]]:
    """What each session's events say, in order, by the session's foreign name."""
    texts: dict[str, Sequence[str]] = {}
    async with database.connection() as conn:
        for session in await list_latest(conn):
            log = await events.read(conn, session.id)
            name = str(session.origin).partition(":")[2]
            texts[name] = [str(event.data.get("text", event.type.value)) for event in log]
    return dict(sorted(texts.items()))
