"""Writes the items of files into the log: buffered by session, within bounds, each buffer in one transaction.

Small files share a buffer, so that what a transaction costs is not paid for each. Whatever they are buffered with,
sessions become the same: only the files that name them say where they come from.

Locks are taken in one order (keys, blobs, sessions with their ancestors), sorted within each kind, so that importers
cannot deadlock.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg
from psycopg.errors import ProgramLimitExceeded

from consolidator.database import Connection, Database
from consolidator.database.jsonb import escape
from consolidator.errors import InvalidEvent
from consolidator.formats import bundle, native
from consolidator.formats.base import ForeignEvent, ForeignSession, Format, Item, Problem, Skipped
from consolidator.jobs.importing.checkouts import CheckoutWatch
from consolidator.jobs.importing.import_report import ImportReport
from consolidator.llm import WORKING_FOLDER
from consolidator.models.event import NewEvent
from consolidator.models.payload import EventType
from consolidator.models.principal import Role, find_role, may_append, name_principal, role_of
from consolidator.store.log import events, sources
from consolidator.store.log.sources import ItemPlace, SourceFile
from consolidator.store.sessions import sessions
from consolidator.store.sessions.lineage import link_imported, set_past
from consolidator.store.sessions.projects import add_each, find_projects

BATCH_EVENTS = 1000
BATCH_BYTES = 8 * 1024 * 1024
_UNSTORABLE = (psycopg.DataError, psycopg.IntegrityError, ProgramLimitExceeded, UnicodeEncodeError)  # odd values
_CONTRADICTION = "a line with the same id but other content was imported before; both are kept"
_COPIED = "of a session of this database"
_MAX_NUMBER = 2**53  # above it a foreign log's number is not believed


class _ErasedMeanwhile(Exception):
    """A session was erased while its lock was awaited: start again, so that not even a blob of it is stored."""


@dataclass(frozen=True, slots=True)
class _BufferedEvent:
    """An event to be written."""

    key: uuid.UUID
    prepared: events.PreparedEvent
    seq: int | None  # in an export of consolidator's own
    line: int | None
    name: uuid.UUID | None = None  # where the key has a foreign id and the content: of the id alone


@dataclass(slots=True)
class _File:
    """A file that is being read."""

    path: Path
    session: ForeignSession | None = None  # the one that the next events belong to
    sessions: dict[str, ForeignSession] = field(default_factory=dict)  # all of the file so far, by origin
    is_own_question: bool = False  # whether the next events are those of an agent that a night asked
    copied: dict[str, uuid.UUID] = field(default_factory=dict)  # by origin: its last known item before its new ones
    events: int = 0  # that could be read


@dataclass(slots=True)
class _Buffer:
    """Events of one session, all of one file."""

    file: _File
    events: list[_BufferedEvent] = field(default_factory=list)


_Buffers = dict[str, _Buffer]  # by the session's origin


@dataclass(slots=True)
class Intake:
    """Buffers the events of files of one format by session, and writes each buffer in one transaction.

    All new sessions are those of `person`; without one of whom the log names, else of the machine's owner.
    """

    database: Database
    format: Format  # of all files
    report: ImportReport
    name: str = ""  # that sessions and keys are given; by default the format's
    person: str | None = None
    _file: _File = field(default_factory=lambda: _File(Path()))
    _buffers: _Buffers = field(default_factory=dict)
    _checkouts: CheckoutWatch = field(default_factory=CheckoutWatch)
    _noted: int = 0  # how many of them the database knows
    _finished: list[SourceFile] = field(default_factory=list)  # files whose end is in the buffer
    _items: int = 0
    _bytes: int = 0

    def __post_init__(self) -> None:
        self.name = self.name or self.format.NAME

    def begin_file(self, path: Path) -> None:
        """Take the items that follow as those of another file."""
        self._file = _File(path)

    @property
    def events_of_file(self) -> int:
        """How many events of the file could be read."""
        return self._file.events

    async def finish_file(self, state: SourceFile) -> None:
        """Remember that the file was read to its end, as soon as all that is buffered is written."""
        self._finished.append(state)
        self._items += 1
        if self._is_full:
            await self.flush()

    async def add(self, item: Item) -> None:
        """Buffer the next item of the file, and flush a full buffer."""
        if isinstance(item, ForeignSession):
            self._file.is_own_question = WORKING_FOLDER in Path(item.project or "").parts
        if self._file.is_own_question:
            self.report.add_skipped("of a night's own question")
            return
        if isinstance(item, ForeignSession):
            if (buffer := self._buffers.get(item.origin)) is not None and buffer.file is not self._file:
                await self.flush()  # what another file says of the session comes first
            self._file.session = self._file.sessions[item.origin] = item
            if self._is_owners(item):
                self._checkouts.feed(item)
            if self._is_own_export:  # all of its events may be pruned
                self._buffers.setdefault(item.origin, _Buffer(self._file))
                self._items += 1
        elif isinstance(item, Skipped):
            self.report.add_skipped(item.kind)
        elif isinstance(item, Problem):
            self.report.add_problem(self._file.path, item)
        else:
            self._buffer(item)
        if self._is_full:
            await self.flush()

    @property
    def _is_full(self) -> bool:
        return self._items >= BATCH_EVENTS or self._bytes >= BATCH_BYTES

    @property
    def _is_own_export(self) -> bool:
        return self.format.NAME in (native.NAME, bundle.NAME)

    @property
    def _is_copy(self) -> bool:
        return self.name in (bundle.COPY, bundle.REDACTED_COPY)

    def _buffer(self, item: ForeignEvent) -> None:
        session = self._file.session
        if session is None:
            self.report.add_problem(self._file.path, Problem("an event before any session", item.line))
            return
        try:
            prepared = events.prepare(
                NewEvent(item.type, item.data, item.task_id, item.tool_name, name_author(item, self.name))
            )
        except (InvalidEvent, ValueError, TypeError, RecursionError) as error:
            self.report.add_problem(self._file.path, Problem(str(error), item.line))
            return
        if self._is_owners(session):
            self._checkouts.feed(session, item)
        name = None if item.content is None else _hash_key(f"{self.name}:{item.key}\0")
        event = _BufferedEvent(self._key_of(item.key, item.content), prepared, item.seq, item.line, name)
        self._buffers.setdefault(session.origin, _Buffer(self._file)).events.append(event)
        self._file.events += 1
        self._items += 1
        self._bytes += len(prepared.data) + sum(len(blob.body) for blob in prepared.blobs)

    def _is_owners(self, session: ForeignSession) -> bool:
        """Whether a session of a foreign log is taken for the owner's; nobody else says whose checkout a folder is."""
        return self.person is None and session.peer is None and not self._is_own_export

    def _key_of(self, key: str, content: str | None) -> uuid.UUID:
        """Return the key that is stored for an item: of its id, and of what it says where others can claim the id."""
        name = f"{self.name}:{key}"
        return _hash_key(name if content is None else f"{name}\0{content}")

    async def flush(self) -> None:
        """Write what is buffered in one transaction, then remember the files whose end is in it."""
        await self._drop_copies()
        if len(self._checkouts.repositories) > self._noted:
            async with self.database.transaction(flushed=False) as conn:
                await add_each(conn, self._checkouts.repositories)
            self._noted = len(self._checkouts.repositories)
        if self._buffers:
            await self._write_storable(self._buffers)
        self._buffers = {}
        self._items = self._bytes = 0
        if self._finished:
            async with self.database.connection() as conn:
                await sources.remember_files(conn, self._finished, now=self.database.clock.now())
        self._finished = []

    async def _drop_copies(self) -> None:
        """Drop what a file repeats of a session of this database, from which we wrote it."""
        claimed = {
            origin: [name for name in buffer.file.sessions[origin].own_ids if escape(name) == name]  # ours are plain
            for origin, buffer in self._buffers.items()
        }
        if not any(claimed.values()):
            return
        async with self.database.connection() as conn:
            own = await sources.filter_own(conn, [name for names in claimed.values() for name in names])
        for origin, names in claimed.items():
            if not own.isdisjoint(names):
                self.report.skipped[_COPIED] += len(self._buffers.pop(origin).events)

    async def _write_storable(self, buffers: _Buffers) -> None:
        """Write events in one transaction; if the database cannot hold one of them, find it, and write the others."""
        result: ImportReport | None = None
        try:
            while result is None:
                with suppress(_ErasedMeanwhile):
                    async with self.database.transaction(flushed=False) as conn:  # flushed with `remember_files`
                        result = await self._write(conn, buffers)
            self.report.add_batch(result)
        except _UNSTORABLE as error:
            # A session without events is one, too: an own export of one that is pruned.
            parts: list[tuple[str, _File, _BufferedEvent | None]] = []
            for origin, buffer in buffers.items():
                parts += [(origin, buffer.file, event) for event in buffer.events] or [(origin, buffer.file, None)]
            if len(parts) == 1:
                _, file, event = parts[0]
                reason = f"the database cannot hold it: {str(error).partition(chr(10))[0]}"
                self.report.add_problem(file.path, Problem(reason, event.line if event else None))
                return
            for half in (parts[: len(parts) // 2], parts[len(parts) // 2 :]):
                halved: _Buffers = {}
                for origin, file, event in half:
                    buffer = halved.setdefault(origin, _Buffer(file))
                    if event is not None:
                        buffer.events.append(event)
                await self._write_storable(halved)

    async def _write(self, conn: Connection, buffers: _Buffers) -> ImportReport:
        now, result = self.database.clock.now(), ImportReport()
        own = await self._find_own(conn, buffers)
        origins = {self._session_id(origin, own): origin for origin in buffers}
        ancestry = {
            session_id: self._ancestry(origin, buffers[origin].file, own) for session_id, origin in origins.items()
        }

        new_events = await self._select_new(conn, buffers, origins, ancestry, result)
        begun = {} if self._is_own_export else self._find_copied(origins, buffers, new_events)
        pasts = {place.session_id for place in (await sources.find_places(conn, list(begun.values()))).values()}
        pasts -= await sources.filter_erased(conn, sorted(pasts))
        prepared = [event.prepared for buffered in new_events.values() for event in buffered]
        await events.store_blobs(conn, prepared, now)

        # With their ancestors: whoever erases one of these erases its descendants.
        locked = sorted(pasts.union(*(ancestry[session_id] for session_id in new_events)))
        heads = await sessions.lock(conn, locked)
        if await sources.filter_erased(conn, locked):
            raise _ErasedMeanwhile

        # The runtime has driven or opened these: a file must not put words into them.
        ours = [row for row in await sessions.get_each(conn, sorted(own)) if not row.is_driven_elsewhere]
        driven = {row.id for row in ours if row.lease_epoch or row.config or row.pending}
        opened = {name: buffers[origins[name]].file for name in sorted(new_events)}
        await self._open_sessions(conn, [(name, origins[name], file) for name, file in opened.items()], own, now)

        if self._is_own_export:  # only these say at which event of its parent a session began
            for session_id in sorted(new_events.keys() - own):
                await link_imported(conn, session_id)

        loads: dict[str, list[events.PreparedEvent]] = {}
        for session_id, buffered in new_events.items():
            # An export of a session of this database has nothing new up to that session's head.
            unseen = [
                event.prepared
                for event in buffered
                if session_id not in own or (event.seq or 0) > heads.get(session_id, 0)
            ]
            result.repeated += len(buffered) - len(unseen)
            if unseen and session_id in driven:
                reason = f"session {session_id} is driven here: {len(unseen)} events of a file were not added"
                result.add_problem(buffers[origins[session_id]].file.path, Problem(reason))
            elif unseen:
                if session_id in own:
                    await sessions.mark_recorded(conn, session_id, f"import:{self.name}")
                is_named = self.person is None and opened[session_id].sessions[origins[session_id]].peer is not None
                if session_id not in heads and not is_named:
                    result.assumed.add(session_id)
                loads[session_id] = unseen
                result.events += len(unseen)
                result.sessions.add(session_id)

        loaded = await events.load_each(conn, loads, now=now, blobs_kept=True) if loads else {}
        if not self._is_own_export:
            await sources.place_keys(
                conn,
                [
                    ItemPlace(event.key, session_id, seq)
                    for session_id, seqs in loaded.items()
                    for seq, event in enumerate(new_events[session_id], seqs.first_seq)
                ],
            )
        await self._link_pasts(conn, {name: key for name, key in begun.items() if heads.get(name, 0) <= 1})
        return result

    def _find_copied(
        self, origins: Mapping[str, str], buffers: _Buffers, new_events: Mapping[str, Sequence[_BufferedEvent]]
    ) -> dict[str, uuid.UUID]:
        """Return, for each session whose own events begin in this batch, the key of the item that they follow.

        A file names that item, or repeats it: a fork begins with copies of what came before. Where the session's own
        events began earlier, its item is one of its own.
        """
        begun: dict[str, uuid.UUID] = {}
        for session_id, origin in origins.items():
            file, session = buffers[origin].file, buffers[origin].file.sessions[origin]
            new = {id(event) for event in new_events.get(session_id, ())}
            for event in buffers[origin].events:
                if id(event) not in new:
                    file.copied[origin] = event.key
                elif event.prepared.type != EventType.SESSION_START.value:
                    key = file.copied.get(origin) if session.follows is None else self._key_of(*session.follows)
                    if key is not None and session.kind != "sub-agent":
                        begun[session_id] = key
                    break
        return begun

    async def _link_pasts(self, conn: Connection, begun: Mapping[str, uuid.UUID]) -> None:
        """Have sessions read what came before their own events in whichever log has it; its session is locked."""
        places = await sources.find_places(conn, list(begun.values()))
        for session_id, key in begun.items():
            if (place := places.get(key)) is not None and place.session_id != session_id:
                await set_past(conn, session_id, place.session_id, place.seq)

    async def _select_new(
        self,
        conn: Connection,
        buffers: _Buffers,
        origins: Mapping[str, str],
        ancestry: Mapping[str, list[str]],
        result: ImportReport,
    ) -> dict[str, list[_BufferedEvent]]:
        """Return the events to write by session id: without those of erased sessions and those imported before."""
        every = [event for buffer in buffers.values() for event in buffer.events]
        names = [event.name for event in every if event.name is not None]
        new_keys = await sources.add_new_keys(conn, [*(event.key for event in every), *names])
        erased = await sources.filter_erased(conn, sorted({ancestor for ids in ancestry.values() for ancestor in ids}))
        new_events: dict[str, list[_BufferedEvent]] = {}
        for session_id, origin in origins.items():
            file, buffered = buffers[origin].file, buffers[origin].events
            if not erased.isdisjoint(ancestry[session_id]):
                result.erased += len(buffered)
                continue
            new = []
            for event in buffered:
                is_first = event.name is None or _take_key(new_keys, event.name)
                if _take_key(new_keys, event.key):
                    new.append(event)
                    if not is_first:
                        result.add_problem(file.path, Problem(_CONTRADICTION, event.line))
            result.repeated += len(buffered) - len(new)
            if new or self._is_own_export:
                new_events[session_id] = new
        return new_events

    async def _find_own(self, conn: Connection, buffers: _Buffers) -> set[str]:
        """Return which sessions of an own export exist in this database; none for any other format, or for copies."""
        if not self._is_own_export or self._is_copy:
            return set()
        parents = [name for origin, buffer in buffers.items() for name in _list_sources(buffer.file.sessions[origin])]
        names = [*buffers, *parents]
        return await sources.filter_own(conn, [name for name in names if escape(name) == name])  # ours are plain

    def _session_id(self, origin: str, own: set[str]) -> str:
        return origin if origin in own else sessions.imported_session_id(self.name, origin)

    def _ancestry(self, origin: str, file: _File, own: set[str]) -> list[str]:
        """Return the ids of a session and its ancestors, as far as the file names them."""
        origins: dict[str, None] = {}
        ancestor: str | None = origin
        while ancestor is not None and ancestor not in origins:
            origins[ancestor] = None
            ancestor = file.sessions[ancestor].parent_origin if ancestor in file.sessions else None
        return [self._session_id(ancestor, own) for ancestor in origins]

    async def _open_sessions(
        self, conn: Connection, opened: Sequence[tuple[str, str, _File]], own: set[str], now: datetime
    ) -> None:
        """Create sessions in their lineages, in this order, unless they exist; those without a parent together.

        Each has its id, its origin and the file that names it.
        """
        roots: list[dict[str, Any]] = []
        named = {session.project for _, origin, file in opened if (session := file.sessions[origin]).project}
        projects = await find_projects(conn, sorted(named))
        for session_id, origin, file in opened:
            if session_id in own:
                continue
            session = file.sessions[origin]
            if self._is_owners(session) and session.project in projects:
                session = replace(session, project=projects[session.project])
            if not session.parent_origin:
                roots.append(self._session_columns(session_id, session, session_id, own))
                continue
            await sessions.open_roots(conn, roots, now=now)
            roots = []
            ancestry = self._ancestry(origin, file, own)  # those in this file first, then those in the log
            root = (None if len(ancestry) == 1 else await sources.lineage_root(conn, ancestry[-1])) or ancestry[-1]
            await sessions.open_session(conn, self._session_columns(session_id, session, root, own), now=now)
            if root != session_id:
                await sources.move_to_lineage(conn, session_id, root)
        await sessions.open_roots(conn, roots, now=now)

    def _session_columns(self, session_id: str, session: ForeignSession, root: str, own: set[str]) -> dict[str, Any]:
        columns = {
            "id": session_id,
            "origin": escape(f"{self.name}:{session.origin}"),
            "key": _escape(session.key),
            "agent": escape(session.agent),
            "channel": _escape(session.channel),
            "peer": _escape(self.person or session.peer),
            "project": _escape(session.project),
            "model": _escape(session.model),
            "kind": session.kind,
            "parent_id": self._session_id(session.parent_origin, own) if session.parent_origin else None,
            "root_id": root,
            "status": "ended" if session.ended else "open",
            "details": session.details,
            **(_exported_columns(session.details.get(native.EXPORTED)) if self._is_own_export else {}),
        }
        if self._is_copy:  # no run of the conversation that it is a copy of
            columns["conversation_id"] = self._session_id(columns["conversation_id"] or session.origin, own)
        if (past := columns.get("past_id")) is not None:
            columns["past_id"] = self._session_id(past, own)
        return columns


def _list_sources(session: ForeignSession) -> list[str]:
    """Return the origins of the sessions that a session of an own export comes from, or reads on from."""
    exported = session.details.get(native.EXPORTED)
    past = exported.get("past_id") if isinstance(exported, dict) else None
    return [name for name in (session.parent_origin, past) if isinstance(name, str) and name]


def _exported_columns(exported: Any) -> dict[str, Any]:
    """Return the session columns that only an own export has; values that make no sense are left out."""
    values = exported if isinstance(exported, dict) else {}
    conversation = values.get("conversation_id")
    pruned_to = _number(values.get("pruned_to")) or 0
    past = values.get("past_id")
    return {
        "conversation_id": _escape(conversation) if isinstance(conversation, str) else None,
        "parent_seq": _number(values.get("parent_seq")),
        "past_id": past if isinstance(past, str) and past else None,
        "past_seq": _number(values.get("past_seq")),
        "base_seq": min(_number(values.get("base_seq")) or 0, pruned_to),
        "pruned_to": pruned_to,
        "simulated": values.get("simulated") is True,
    }


def name_author(item: ForeignEvent, format_name: str) -> str:
    """Return who says an imported event; a role that an own export claims counts where it may say the event.

    Any other claim is a client's: what it may not say is then refused.
    """
    if item.role is None:
        return name_principal(find_role(item.type, item.data), format_name)
    claimed = role_of(item.role)
    is_allowed = claimed is not None and may_append(claimed.value, item.type, item.data)
    return name_principal(claimed if claimed is not None and is_allowed else Role.CLIENT, format_name)


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MAX_NUMBER else None


def _hash_key(key: str) -> uuid.UUID:
    return uuid.UUID(bytes=hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).digest())


def _take_key(new_keys: set[uuid.UUID], key: uuid.UUID) -> bool:
    """Remove a key from the new ones; return False if it is not among them: twice in one batch is one event."""
    if key not in new_keys:
        return False
    new_keys.discard(key)
    return True


def _escape(value: str | None) -> str | None:
    return None if value is None else escape(value)
