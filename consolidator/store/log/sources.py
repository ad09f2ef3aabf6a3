"""What was imported before: files read to their end, keys of items, erased sessions."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from consolidator.database.jsonb import escape
from consolidator.database.partitions import Connection
from consolidator.store.queries import execute, load, row, rows

_SQL = load("log/sources")


@dataclass(frozen=True, slots=True)
class FileState:
    """A file as it was when it was looked at."""

    format: str
    path: str
    size: int
    mtime_ns: int


async def unchanged(conn: Connection, file: FileState) -> bool:
    """Say whether a file was read to its end as it is now."""
    return await row(conn, _SQL["unchanged"], _values(file)) is not None


async def remember_file(conn: Connection, file: FileState, *, now: datetime) -> None:
    """Remember that a file was read to its end."""
    await execute(conn, _SQL["read_to_its_end"], {**_values(file), "now": now})


def _values(file: FileState) -> dict[str, Any]:
    return {"format": file.format, "path": escape(file.path), "size": file.size, "mtime": file.mtime_ns}


async def take_new_keys(conn: Connection, keys: Sequence[uuid.UUID]) -> set[uuid.UUID]:
    """Remember keys and return those that were not known; another importer of the same keys waits for us."""
    return {r["key"] for r in await rows(conn, _SQL["new_keys"], {"keys": list(keys)})}


async def erased_among(conn: Connection, ids: Sequence[str]) -> set[str]:
    """Return which of these sessions a person had erased."""
    return {r["session_id"] for r in await rows(conn, _SQL["erased"], {"sessions": list(ids)})}


async def ours(conn: Connection, ids: Sequence[str]) -> set[str]:
    """Return which of these ids are sessions of our own, erased ones too."""
    return {r["id"] for r in await rows(conn, _SQL["ours"], {"ids": list(ids)})}


async def lineage_root(conn: Connection, parent: str) -> str:
    """Return the root of a parent's lineage; the parent itself where its log was never seen."""
    found = await row(conn, _SQL["lineage_root"], {"id": parent})
    return parent if found is None else str(found["root_id"])


async def adopt(conn: Connection, session: str, root: str) -> None:
    """Move a session, and what hangs from it, to the lineage that it turned out to be of."""
    await execute(conn, _SQL["adopt"], {"id": session, "root": root})
