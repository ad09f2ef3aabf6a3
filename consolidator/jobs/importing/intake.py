"""Takes one file's items into the log: buffered by session, within bounds, each buffer in one transaction.

Locks are taken in one order (keys, blobs, sessions with their parents), each kind sorted, so that no two importers wait
in a circle.
"""

from __future__ import annotations

import hashlib
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from consolidator.database import Connection, Database
from consolidator.database.jsonb import escape
from consolidator.errors import InvalidEvent
from consolidator.formats import native
from consolidator.formats.base import ForeignEvent, ForeignSession, Format, Item, Problem, Skipped
from consolidator.models.event import NewEvent
from consolidator.store.log import events, sessions, sources

BATCH_EVENTS = 1000
BATCH_BYTES = 8 * 1024 * 1024
_MOST = 2**53  # of a number that a foreign log may name


class Report(Protocol):
    """Who is told what came of each item."""

    def note(self, path: Path, problem: Problem) -> None:
        """Count a line that was not understood."""

    def skip(self, kind: str) -> None:
        """Count a line with nothing for the log."""

    def wrote(self, done: Taken) -> None:
        """Count what a transaction did, when it is committed."""


@dataclass(slots=True)
class Taken:
    """What one transaction did."""

    events: int = 0
    repeated: int = 0
    erased: int = 0
    sessions: set[str] = field(default_factory=set)


class _Erased(Exception):
    """A session was erased while we waited for its lock: look again, so that not even a blob of it is kept."""


@dataclass(frozen=True, slots=True)
class _Buffered:
    """An event on its way to the log."""

    key: uuid.UUID
    prepared: events.Prepared
    seq: int | None  # in an export of ours


class Intake:
    """Buffers a file's events by session, and writes each buffer in one transaction."""

    def __init__(self, database: Database, form: Format, path: Path, report: Report) -> None:
        self._database = database
        self._form = form
        self._path = path
        self._report = report
        self._session: ForeignSession | None = None
        self._known: dict[str, ForeignSession] = {}
        self._buffers: dict[str, list[_Buffered]] = {}
        self._items = 0
        self._bytes = 0

    async def take(self, item: Item) -> None:
        """Take the next item of the file."""
        if isinstance(item, ForeignSession):
            self._session = self._known[item.origin] = item
            if self._is_ours:  # all of its events may be pruned
                self._buffers.setdefault(item.origin, [])
                self._items += 1
        elif isinstance(item, Skipped):
            self._report.skip(item.kind)
        elif isinstance(item, Problem):
            self._report.note(self._path, item)
        else:
            self._buffer(item)
        if self._items >= BATCH_EVENTS or self._bytes >= BATCH_BYTES:
            await self.flush()

    @property
    def _is_ours(self) -> bool:
        return self._form.NAME == native.NAME

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
        self._buffers.setdefault(self._session.origin, []).append(_Buffered(key, prepared, item.seq))
        self._items += 1
        self._bytes += len(prepared.data) + sum(len(blob[2]) for blob in prepared.blobs)

    async def flush(self) -> None:
        """Write what is buffered in one transaction."""
        if not self._buffers:
            return
        done: Taken | None = None
        while done is None:
            with suppress(_Erased):
                async with self._database.transaction(flushed=False) as conn:  # flushed with `remember_file`
                    done = await self._write(conn)
        self._report.wrote(done)
        self._buffers.clear()
        self._items = self._bytes = 0

    async def _write(self, conn: Connection) -> Taken:
        now = self._database.clock.now()
        done = Taken()
        ours = await self._ours(conn)
        named = {self._id_of(origin, ours): origin for origin in self._buffers}
        new = await sources.take_new_keys(conn, [one.key for some in self._buffers.values() for one in some])
        lines = {identity: self._line_of(origin, ours) for identity, origin in named.items()}
        erased = await sources.erased_among(conn, sorted({one for line in lines.values() for one in line}))
        fresh: dict[str, list[_Buffered]] = {}
        for identity, origin in named.items():
            buffered = self._buffers[origin]
            if not erased.isdisjoint(lines[identity]):
                done.erased += len(buffered)
                continue
            some = [one for one in buffered if _is_first(new, one.key)]
            done.repeated += len(buffered) - len(some)
            if some or self._is_ours:
                fresh[identity] = some
        await events.keep_blobs(conn, [one.prepared for some in fresh.values() for one in some], now)
        # With their parents: whoever erases one takes what hangs from it.
        held = sorted({one for identity in fresh for one in lines[identity]})
        heads = await sessions.lock(conn, held)
        if await sources.erased_among(conn, held):
            raise _Erased
        for identity in sorted(fresh):
            await self._open(conn, identity, self._known[named[identity]], ours, now)
        for identity, some in fresh.items():
            # An export of a session that is here tells nothing new up to its head.
            unseen = [one.prepared for one in some if identity not in ours or (one.seq or 0) > heads.get(identity, 0)]
            done.repeated += len(some) - len(unseen)
            if unseen:
                await events.load_bulk(conn, identity, unseen, now=now, blobs_kept=True)
                done.events += len(unseen)
                done.sessions.add(identity)
        return done

    async def _ours(self, conn: Connection) -> set[str]:
        """Return the sessions that an export of ours names and that are here themselves."""
        if not self._is_ours:
            return set()
        parents = [self._known[origin].parent_origin for origin in self._buffers]
        return await sources.ours(conn, [*self._buffers, *(one for one in parents if one)])

    def _id_of(self, origin: str, ours: set[str]) -> str:
        return origin if origin in ours else sessions.session_id_of(self._form.NAME, origin)

    def _line_of(self, origin: str, ours: set[str]) -> list[str]:
        """Return a session's id and its parents', as far as the file tells: erasing one takes what hangs from it."""
        line: dict[str, None] = {}
        told: str | None = origin
        while told is not None and told not in line:
            line[told] = None
            told = self._known[told].parent_origin if told in self._known else None
        return [self._id_of(one, ours) for one in line]

    async def _open(
        self, conn: Connection, identity: str, session: ForeignSession, ours: set[str], now: datetime
    ) -> None:
        """Create a session that is not there yet, in the lineage it belongs to."""
        if identity in ours:
            return
        root = await self._root_of(conn, session, ours)
        columns = {
            "id": identity,
            "origin": escape(f"{self._form.NAME}:{session.origin}"),
            "key": _text(session.key),
            "agent": escape(session.agent),
            "channel": _text(session.channel),
            "peer": _text(session.peer),
            "project": _text(session.project),
            "model": _text(session.model),
            "kind": session.kind,
            "parent_id": self._id_of(session.parent_origin, ours) if session.parent_origin else None,
            "root_id": root,
            "status": "ended" if session.ended else "open",
            "details": session.details,
            **(_columns_of(session.details.get(native.EXPORTED)) if self._is_ours else {}),
        }
        await sessions.open_session(conn, columns, now=now)
        if root != identity:
            await sources.adopt(conn, identity, root)

    async def _root_of(self, conn: Connection, session: ForeignSession, ours: set[str]) -> str:
        """Follow a session's parents through this file as far as they go, and then through the log."""
        line = self._line_of(session.origin, ours)
        return line[0] if len(line) == 1 else await sources.lineage_root(conn, line[-1])


def _columns_of(exported: Any) -> dict[str, Any]:
    """Return what only our own export tells of a session, where it makes sense."""
    told = exported if isinstance(exported, dict) else {}
    conversation = told.get("conversation_id")
    return {
        "conversation_id": _text(conversation) if isinstance(conversation, str) else None,
        "parent_seq": _number(told.get("parent_seq")),
        "pruned_to": _number(told.get("pruned_to")) or 0,
        "simulated": told.get("simulated") is True,
    }


def _number(told: Any) -> int | None:
    return told if isinstance(told, int) and not isinstance(told, bool) and 0 <= told < _MOST else None


def _hashed(key: str) -> uuid.UUID:
    return uuid.UUID(bytes=hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).digest())


def _is_first(new: set[uuid.UUID], key: uuid.UUID) -> bool:
    """Say whether a key is new, once: the same key twice in one batch is one event."""
    if key not in new:
        return False
    new.discard(key)
    return True


def _text(value: str | None) -> str | None:
    return None if value is None else escape(value)
