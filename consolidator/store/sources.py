"""What was imported before: files read to their end, keys of items, erased sessions."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime

from consolidator.database.jsonb import escape
from consolidator.database.partitions import Driver
from consolidator.store.queries import load, row, rows, run

_SQL = load("sources")


async def unchanged(conn: Driver, *, format_name: str, path: str, size: int, mtime_ns: int) -> bool:
    """Say whether a file was read to its end as it is now."""
    values = {"format": format_name, "path": escape(path), "size": size, "mtime": mtime_ns}
    return await row(conn, _SQL["unchanged"], values) is not None


async def remember_file(conn: Driver, *, format_name: str, path: str, size: int, mtime_ns: int, now: datetime) -> None:
    """Remember that a file was read to its end."""
    values = {"format": format_name, "path": escape(path), "size": size, "mtime": mtime_ns, "now": now}
    await run(conn, _SQL["read_to_its_end"], values)


async def take_new_keys(conn: Driver, keys: Sequence[uuid.UUID]) -> set[uuid.UUID]:
    """Remember keys and return those that were not known; another importer of the same keys waits for us."""
    return {r["key"] for r in await rows(conn, _SQL["new_keys"], {"keys": list(keys)})}


async def is_erased(conn: Driver, session: str) -> bool:
    """Say whether a person had this session erased."""
    return await row(conn, _SQL["erased"], {"session": session}) is not None


async def lineage_root(conn: Driver, parent: str) -> str:
    """Return the root of a parent's lineage; the parent itself where its log was never seen."""
    found = await row(conn, _SQL["lineage_root"], {"id": parent})
    return parent if found is None else str(found["root_id"])
