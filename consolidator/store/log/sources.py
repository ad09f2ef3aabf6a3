"""What import remembers: files read to their end, keys of imported items, erased sessions."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from consolidator.database.jsonb import escape
from consolidator.database.partitions import Connection
from consolidator.store.queries import Column, ColumnSet, RowsByKey, Statement, Value, execute, fetch_column, load

_SQL = load("log/sources")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file's identity and state; the same size and time mean that it is unchanged."""

    format: str
    path: str
    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class ItemPlace:
    """The event that an imported item became."""

    key: uuid.UUID
    session_id: str
    seq: int


async def find_unchanged(conn: Connection, files: Sequence[SourceFile]) -> set[SourceFile]:
    """Return which files were read to their end as they are now."""
    numbers = await _find_unchanged(conn, files) if files else []
    return {files[number - 1] for number in numbers}


async def remember_files(conn: Connection, files: Sequence[SourceFile], *, now: datetime) -> None:
    """Remember that files were read to their end."""
    latest = {(file.format, escape(file.path)): file for file in files}
    if latest:
        # In one order, so that two imports of the same files never deadlock.
        ordered = [latest[name] for name in sorted(latest)]
        await _remember_files(conn, ordered, now=now)


async def add_new_keys(conn: Connection, keys: Sequence[uuid.UUID]) -> set[uuid.UUID]:
    """Store keys and return those that are new; another importer of the same keys waits for this transaction."""
    return set(await fetch_column(conn, _SQL["add_new_keys"], {"keys": _array(keys)}))


async def place_keys(conn: Connection, places: Sequence[ItemPlace]) -> None:
    """Note in which events the items of new keys are."""
    values = [(place.key, place.session_id, place.seq) for place in places]
    keys, ids, seqs = (list(column) for column in zip(*values, strict=True)) if values else ([], [], [])
    if keys:
        await execute(conn, _SQL["place_keys"], {"keys": _array(keys), "sessions": ids, "seqs": seqs})


def _array(keys: Sequence[uuid.UUID]) -> str:
    """Return keys as the text of an array, which costs a tenth of having the driver adapt each."""
    return "{" + ",".join([key.hex for key in keys]) + "}"


async def filter_erased(conn: Connection, ids: Sequence[str]) -> set[str]:
    """Return which of these sessions were erased."""
    return set(await fetch_column(conn, _SQL["filter_erased"], {"sessions": list(ids)})) if ids else set()


async def move_to_lineage(conn: Connection, session: str, root: str) -> None:
    """Move a session and its descendants to the lineage that they turned out to belong to."""
    moved = await fetch_column(conn, _SQL["move_to_root"], {"id": session, "root": root})
    if moved:
        await execute(conn, _SQL["merge_again"], {"moved": moved})
        await execute(conn, _SQL["move_digests"], {"moved": moved})


filter_own = ColumnSet[str, Sequence[str]](_SQL["filter_own"])
find_places = RowsByKey[uuid.UUID, ItemPlace, Sequence[uuid.UUID]](ItemPlace, _SQL["find_places"])
# The root of a parent's lineage; None if its log was never seen.
lineage_root = Value[str | None, str](_SQL["lineage_root"])
_find_unchanged = Column[int, Sequence[SourceFile]](_SQL["find_unchanged"], "**")
_remember_files = Statement[Sequence[SourceFile]](_SQL["remember_files"], "**")
