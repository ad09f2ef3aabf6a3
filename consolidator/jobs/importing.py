"""Brings foreign logs into ours: idempotent, in bounded batches, each line accounted for.

What was imported before is known by the hashed key of each item, which outlives the event: so a file read twice adds
nothing, one that has grown adds the new part, and what was pruned or erased does not come back.
"""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

from consolidator.database import Database, Driver
from consolidator.database.jsonb import escape
from consolidator.errors import ImportRefused, InvalidEvent, NotFound
from consolidator.formats import everything_below, recognise
from consolidator.formats.base import ForeignEvent, ForeignSession, Format, Item, Problem, Skipped
from consolidator.models.event import NewEvent
from consolidator.store import events, sessions, sources

BATCH_EVENTS = 1000
BATCH_BYTES = 8 * 1024 * 1024
PROBLEMS_KEPT = 50
Progress = Callable[[int, str], None]  # bytes done, file


@dataclass(slots=True)
class ImportReport:
    """What an import saw and did; `problems` keeps the first fifty."""

    files: int = 0
    unchanged: int = 0
    unrecognised: list[str] = field(default_factory=list)
    size: int = 0  # bytes read
    sessions: set[str] = field(default_factory=set)
    events: int = 0
    repeated: int = 0
    erased: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    problem_count: int = 0
    problems: list[str] = field(default_factory=list)

    def note(self, path: Path, problem: Problem) -> None:
        """Count a line that was not understood."""
        self.problem_count += 1
        if len(self.problems) < PROBLEMS_KEPT:
            where = f"{path}:{problem.line}" if problem.line else str(path)
            self.problems.append(f"{where}: {problem.reason}")

    def as_json(self) -> dict[str, Any]:
        """Return the report for programs and the ledger."""
        return {
            "files": self.files,
            "unchanged": self.unchanged,
            "unrecognised": self.unrecognised,
            "bytes": self.size,
            "sessions": len(self.sessions),
            "events": self.events,
            "repeated": self.repeated,
            "erased": self.erased,
            "skipped": dict(sorted(self.skipped.items())),
            "problem_count": self.problem_count,
            "problems": self.problems,
        }


@dataclass(frozen=True, slots=True)
class Source:
    """A path to import; without a format each file is recognised by itself."""

    path: Path
    format: Format | None = None

    def files(self) -> Iterator[tuple[Path, Format | None]]:
        """Yield the files with their formats; None where it is not recognised."""
        if self.format is not None:
            for path in self.format.files(self.path):
                yield path, self.format
            return
        for path in everything_below(self.path):
            yield path, recognise(path)


async def import_sources(
    database: Database, wanted: list[Source], *, strict: bool = False, progress: Progress | None = None
) -> ImportReport:
    """Import every file of the sources; with `strict`, read all of them first and refuse before anything is written.

    Raises ImportRefused where `strict` meets a line it cannot explain, and NotFound where a path does not exist.
    """
    await asyncio.to_thread(_refuse_missing, wanted)
    if strict:
        await asyncio.to_thread(_refuse_problems, wanted)
    report = ImportReport()
    for source in wanted:
        for path, found in await asyncio.to_thread(list, source.files()):
            if found is None:
                report.unrecognised.append(str(path))
                continue
            await _import_file(database, found, path, source.path, report, progress)
    return report


def _refuse_missing(wanted: list[Source]) -> None:
    for source in wanted:
        if not source.path.exists():
            raise NotFound(f"{source.path}: there is no such file or directory")


def _refuse_problems(wanted: list[Source]) -> None:
    dry = ImportReport()
    for source in wanted:
        for path, found in source.files():
            if found is None:
                dry.note(path, Problem("not a log of any known format"))
                continue
            for item in found.read(path, source.path):
                if isinstance(item, Problem):
                    dry.note(path, item)
                elif isinstance(item, ForeignEvent) and (problem := _misfit(item)):
                    dry.note(path, problem)
    if dry.problem_count:
        shown = "\n  ".join(dry.problems[:10])
        raise ImportRefused(f"{dry.problem_count} lines cannot be explained, so nothing was written:\n  {shown}")


def _misfit(item: ForeignEvent) -> Problem | None:
    try:
        events.prepare(NewEvent(item.type, item.data))
    except InvalidEvent as error:
        return Problem(str(error), item.line)
    return None


async def _import_file(
    database: Database, form: Format, path: Path, root: Path, report: ImportReport, progress: Progress | None
) -> None:
    """Import one file in batches; remember it as read only when its end was reached."""
    stat, name = await asyncio.to_thread(lambda: (path.stat(), str(path.resolve())))
    known = sources.FileState(form.NAME, name, stat.st_size, stat.st_mtime_ns)
    async with database.connection() as conn:
        if await sources.unchanged(conn, known):
            report.unchanged += 1
            return
    report.files += 1
    writer = _Writer(database, form, path, report)
    items = iter(form.read(path, root))
    while batch := await asyncio.to_thread(lambda: list(islice(items, 256))):
        for item in batch:
            await writer.take(item)
    await writer.flush()
    report.size += stat.st_size
    async with database.connection() as conn:
        await sources.remember_file(conn, known, now=database.clock.now())
    if progress:
        progress(stat.st_size, path.name)


@dataclass(slots=True)
class _Seen:
    """What one transaction did."""

    events: int = 0
    repeated: int = 0
    erased: int = 0
    sessions: set[str] = field(default_factory=set)


class _Writer:
    """Buffers a file's events by session, within bounds, and writes each buffer in one transaction."""

    def __init__(self, database: Database, form: Format, path: Path, report: ImportReport) -> None:
        self._database = database
        self._form = form
        self._path = path
        self._report = report
        self._session: ForeignSession | None = None
        self._known: dict[str, ForeignSession] = {}
        self._buffers: dict[str, list[tuple[uuid.UUID, events.Prepared]]] = {}
        self._events = 0
        self._bytes = 0

    async def take(self, item: Item) -> None:
        """Take the next item of the file."""
        if isinstance(item, ForeignSession):
            self._session = item
            self._known[item.origin] = item
        elif isinstance(item, Skipped):
            self._report.skipped[item.kind] += 1
        elif isinstance(item, Problem):
            self._report.note(self._path, item)
        else:
            self._buffer(item)
            if self._events >= BATCH_EVENTS or self._bytes >= BATCH_BYTES:
                await self.flush()

    def _buffer(self, item: ForeignEvent) -> None:
        if self._session is None:
            self._report.note(self._path, Problem("an event before any session", item.line))
            return
        try:
            prepared = events.prepare(NewEvent(item.type, item.data, item.task_id, item.tool_name))
        except InvalidEvent as error:
            self._report.note(self._path, Problem(str(error), item.line))
            return
        key = _hashed(f"{self._form.NAME}:{item.key}")
        self._buffers.setdefault(self._session.origin, []).append((key, prepared))
        self._events += 1
        self._bytes += len(prepared.data) + sum(len(blob[2]) for blob in prepared.blobs)

    async def flush(self) -> None:
        """Write what is buffered in one transaction; keys and sessions in order, so that importers do not deadlock."""
        if not self._buffers:
            return
        now = self._database.clock.now()
        seen = _Seen()
        async with self._database.transaction(flushed=False) as conn:  # `remember_file` is flushed, and this with it
            keys = [key for buffered in self._buffers.values() for key, _ in buffered]
            new = await sources.take_new_keys(conn, keys)
            named = {sessions.session_id_of(self._form.NAME, origin): origin for origin in self._buffers}
            erased = await sources.erased_among(conn, list(named))
            # Parents come before children in the buffers; the locks on their rows are taken in order all the same.
            await sessions.lock(conn, sorted(named))
            for identity, origin in named.items():
                buffered = self._buffers[origin]
                if identity in erased:
                    seen.erased += len(buffered)
                    continue
                fresh = [prepared for key, prepared in buffered if _take(new, key)]
                seen.repeated += len(buffered) - len(fresh)
                if fresh:
                    await self._write(conn, identity, self._known[origin], fresh, now)
                    seen.events += len(fresh)
                    seen.sessions.add(identity)
        self._note(seen)

    def _note(self, seen: _Seen) -> None:
        """Count what was committed, and begin a new buffer."""
        report = self._report
        report.erased += seen.erased
        report.repeated += seen.repeated
        report.events += seen.events
        report.sessions |= seen.sessions
        self._buffers.clear()
        self._events = self._bytes = 0

    async def _write(
        self, conn: Driver, identity: str, session: ForeignSession, fresh: list[events.Prepared], now: datetime
    ) -> None:
        await sessions.open_session(conn, await self._columns(conn, identity, session), now=now)
        await events.load_bulk(conn, identity, fresh, now=now)

    async def _columns(self, conn: Driver, identity: str, session: ForeignSession) -> dict[str, Any]:
        """Return a foreign session as columns of ours."""
        name = self._form.NAME
        parent = sessions.session_id_of(name, session.parent_origin) if session.parent_origin else None
        return {
            "id": identity,
            "origin": escape(f"{name}:{session.origin}"),
            "key": _text(session.key),
            "agent": escape(session.agent),
            "channel": _text(session.channel),
            "peer": _text(session.peer),
            "project": _text(session.project),
            "model": _text(session.model),
            "kind": session.kind,
            "parent_id": parent,
            "root_id": await sources.lineage_root(conn, parent) if parent else identity,
            "details": session.details,
        }


def _hashed(key: str) -> uuid.UUID:
    return uuid.UUID(bytes=hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).digest())


def _take(new: set[uuid.UUID], key: uuid.UUID) -> bool:
    """Say whether a key is new, once: the same key twice in one batch is one event."""
    if key not in new:
        return False
    new.discard(key)
    return True


def _text(value: str | None) -> str | None:
    return None if value is None else escape(value)
