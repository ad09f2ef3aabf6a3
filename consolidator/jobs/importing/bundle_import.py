"""Imports a bundle: checked to its end before anything is written, then session by session, in bounded batches.

The events go the way of every import, `Intake`: under an id derived from the session's, never twice, never where the
session was erased, with principals that an import may claim and a hash chain of their own. What else the bundle holds
follows them. A copy is a session of its own that is never evidence.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any, cast

from consolidator.database import Connection, Database
from consolidator.errors import ImportRefused, Interrupted, InvalidEvent
from consolidator.formats import bundle, native
from consolidator.formats.base import ForeignEvent, ForeignSession, Format
from consolidator.formats.bundle import BundleInfo, BundleItem, BundleRecord
from consolidator.jobs.importing.import_report import ImportReport
from consolidator.jobs.importing.intake import Intake, name_author
from consolidator.models.event import NewEvent
from consolidator.models.lineage import CheckpointRow, LineageRange
from consolidator.models.payload import EventType
from consolidator.models.session import SessionRow
from consolidator.store.log import bundles, events, sources
from consolidator.store.sessions import seeds, sessions
from consolidator.store.sessions.lineage import find_hash, link_imported
from consolidator.store.turns import context

_BATCH_ITEMS = 256  # read at once, and so many chunks are written at once
_AFTER = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class ImportedBundle:
    """What became of a bundle."""

    session_id: str  # of the session that it is of, here
    origin: str  # its id where it was exported
    is_new: bool  # whether the session was not here before
    redacted: bool
    erased: bool = False  # whether it was erased here before: nothing was written
    events: int = 0  # new in the log


async def import_bundle(
    database: Database, path: Path, report: ImportReport, *, as_copy: bool = False, stop: asyncio.Event | None = None
) -> ImportedBundle:
    """Import a bundle, and return what became of it; one that was imported before adds only what is new.

    A session of this database keeps its id, and gets what its bundle has after its head, unless the runtime drives it;
    `as_copy` copies it, or any other, into a session that is never evidence. Raises ImportRefused before anything is
    written for a bundle that is damaged, that begins after what is here ends, or that is exact where a redacted one of
    the same session was imported before; OSError where it cannot be read.
    """
    info = await asyncio.to_thread(check_bundle, path)
    copy_name = bundle.REDACTED_COPY if info.redacted else bundle.COPY
    writer = _BundleImport(database, path, report, info, copy_name if as_copy else native.NAME)
    before = report.events
    is_new = await writer.prepare()
    items = bundle.read_bundle(path)
    while batch := await asyncio.to_thread(lambda: list(islice(items, _BATCH_ITEMS))):
        if stop is not None and stop.is_set():
            raise Interrupted("asked to stop in the middle of a bundle: what was read is kept, the rest is read again")
        for item in batch:
            await writer.add(item)
    await writer.finish_session()
    erased = writer.is_erased
    return ImportedBundle(writer.session_id, info.session_id, is_new, info.redacted, erased, report.events - before)


def check_bundle(path: Path) -> BundleInfo:
    """Return what a bundle is of, after reading it to its end; raise ImportRefused for one that cannot be imported."""
    return bundle.check_bundle(path, _check_event)


def _check_event(event: ForeignEvent) -> str | None:
    """Return why the log refuses an event; None if it takes it."""
    try:
        author = name_author(event, native.NAME)
        events.prepare(NewEvent(event.type, event.data, event.task_id, event.tool_name, author))
    except (InvalidEvent, ValueError, TypeError, RecursionError) as error:
        return str(error)
    return None


@dataclass(slots=True)
class _Target:
    """Where the lines of one session go."""

    id: str
    session: ForeignSession
    head: int  # the last event that the log had before
    is_own: bool  # a session of this database: only events are added to it
    last_seq: int = 0  # the last event of the bundle
    last_message_seq: int = 0  # a person's last message
    columns: Mapping[str, Any] | None = None
    view: Mapping[str, Any] | None = None
    checkpoints: list[Mapping[str, Any]] = field(default_factory=list)
    seeds: list[Mapping[str, Any]] = field(default_factory=list)
    chunks: list[Mapping[str, Any]] = field(default_factory=list)
    late_chunks: list[Mapping[str, Any]] = field(default_factory=list)  # that came after a person's last message
    deliveries: list[Mapping[str, Any]] = field(default_factory=list)


@dataclass(slots=True)
class _BundleImport:
    """Writes one bundle."""

    database: Database
    path: Path
    report: ImportReport
    info: BundleInfo
    name: str  # of the sessions' origins
    is_erased: bool = False  # whether one of its sessions was erased here: nothing of it comes back
    intake: Intake = field(init=False)
    target: _Target | None = None
    own: set[str] = field(default_factory=set)
    heads: dict[str, int] = field(default_factory=dict)  # of the sessions that are here, by the id that they have here
    redacted: set[str] = field(default_factory=set)  # of the sessions that are here, those of a redacted bundle

    def __post_init__(self) -> None:
        self.intake = Intake(self.database, cast(Format, bundle), self.report, name=self.name)
        self.intake.begin_file(self.path)

    @property
    def session_id(self) -> str:
        """The id of the session that the bundle is of, here."""
        return self._id_of(self.info.session_id)

    async def prepare(self) -> bool:
        """Find what is here of the bundle's sessions; return whether the one that it is of is new."""
        names = list(self.info.sessions)
        async with self.database.connection() as conn:
            if self.name == native.NAME:
                self.own = await sources.filter_own(conn, names)
            ids = [self._id_of(name) for name in names]
            self.is_erased = bool(await sources.filter_erased(conn, [*ids, *names]))
            rows = {row.id: row for row in await sessions.get_each(conn, ids)}
            self.heads = {row.id: row.head for row in rows.values()}
            self.redacted = {
                row.id for row in rows.values() if row.details.get(native.EXPORTED, {}).get(native.REDACTED)
            }
            if self.redacted and not (self.info.redacted or self.is_erased):  # events of the log are never replaced
                raise ImportRefused(
                    f"{self.path}: session {min(self.redacted)} is here already, from a redacted bundle, and what is "
                    "hidden in it stays so; nothing was written: with --copy (over HTTP ?copy=true) the exact one "
                    "comes in beside it"
                )
            if self.info.session_id in self.own and self.session_id in rows:
                await self._check_chain(conn, rows[self.session_id])
        return self.session_id not in self.heads

    async def _check_chain(self, conn: Connection, session: SessionRow) -> None:
        """Compare the hash that the bundle has of a session of this database with the log's."""
        chain = self.info.chain
        if chain is None or chain.seq > session.head:
            return
        own = LineageRange(session.id, 0, session.head, bounds=session.ingest_bounds)
        stored = await find_hash(conn, own, chain.seq)
        if stored is not None and stored.hex() != chain.hash:
            raise ImportRefused(
                f"{self.path}: session {session.id} has another hash at event {chain.seq} here than the bundle says: "
                "it is of a log that went on in another way (before a backup was restored, say), or was changed; "
                "nothing was written: with --copy it can be looked at"
            )

    def _id_of(self, origin: str) -> str:
        return origin if origin in self.own else sessions.imported_session_id(self.name, origin)

    async def add(self, item: BundleItem) -> None:
        """Take the next line."""
        if isinstance(item, ForeignSession):
            await self.finish_session()
            await self._begin_session(item)
        elif self.is_erased:
            self.report.erased += isinstance(item, ForeignEvent)
        else:
            assert self.target is not None  # the reader yields a session first
            if isinstance(item, ForeignEvent):
                await self._add_event(self.target, item)
            else:
                await self._add_record(self.target, item)

    async def _begin_session(self, session: ForeignSession) -> None:
        if self.is_erased:
            return
        exported = session.details[native.EXPORTED]
        if self.info.redacted:
            exported = {**exported, native.REDACTED: True}
        if self.name != native.NAME:
            exported, session = {**exported, "simulated": True}, replace(session, key=None)
        session = replace(session, details={**session.details, native.EXPORTED: exported})
        session_id = self._id_of(session.origin)
        head, is_own = self.heads.get(session_id), session.origin in self.own
        self.target = _Target(session_id, session, head or 0, is_own)
        await self.intake.add(session)

    async def _add_event(self, target: _Target, event: ForeignEvent) -> None:
        seq = event.seq or 0
        if target.last_seq == 0 and target.id in self.heads and seq > target.head + 1:
            raise ImportRefused(
                f"{self.path}: session {target.id} ends at event {target.head} here, and the bundle begins with event "
                f"{seq}: import an earlier bundle first"
            )
        target.last_seq = seq
        if event.type is EventType.USER_MESSAGE:
            if target.late_chunks:  # they were shown before this message
                await self._flush(target)
            target.last_message_seq = seq
        if seq <= target.head:
            self.report.repeated += 1
        else:
            await self.intake.add(event)

    async def _add_record(self, target: _Target, record: BundleRecord) -> None:
        values = record.values
        match record.kind:
            case "columns":
                target.columns = values
            case "checkpoint":
                target.checkpoints.append(values)
            case "view":
                target.view = values
            case "seed":
                target.seeds.append(values)
            case "chunk":
                if (values["after_seq"] or 0) > target.last_seq:  # an event that the bundle does not have before it
                    values = {**values, "after_seq": None}
                late = target.last_message_seq > values["started_seq"]
                (target.late_chunks if late else target.chunks).append(values)
            case "delivery":
                target.deliveries.append(values)
        if len(target.chunks) + len(target.late_chunks) + len(target.deliveries) >= _BATCH_ITEMS:
            await self._flush(target)

    async def _flush(self, target: _Target) -> None:
        """Write the events so far, then the chunks and deliveries that belong to them."""
        await self.intake.flush()
        async with self.database.transaction() as conn:
            locked = None if target.is_own else await bundles.lock_import(conn, target.id)
            if locked is not None:
                for chunks, delay in ((target.chunks, timedelta()), (target.late_chunks, _AFTER)):
                    if chunks:
                        at = locked.last_event_at + delay
                        await bundles.add_chunks(conn, target.id, chunks, at=at, pruned_to=locked.pruned_to)
                if target.deliveries:
                    await bundles.add_deliveries(conn, target.id, target.deliveries, pruned_to=locked.pruned_to)
        target.chunks, target.late_chunks, target.deliveries = [], [], []

    async def finish_session(self) -> None:
        """Write the rest of a session, and what its row said."""
        target, self.target = self.target, None
        if target is None:
            return
        await self._flush(target)
        if target.is_own:
            return
        async with self.database.transaction() as conn:
            locked = await bundles.lock_import(conn, target.id)
            if locked is None:  # erased meanwhile
                self.is_erased = True
                return
            if target.last_seq > locked.head:
                raise ImportRefused(
                    f"{self.path}: session {target.id} has {locked.head} events here, not {target.last_seq}: the "
                    "database could not hold all of them; see the problems above"
                )
            await self._restore(conn, target, locked)

    async def _restore(self, conn: Connection, target: _Target, locked: bundles.LockedImport) -> None:
        await link_imported(conn, target.id)
        for values in target.checkpoints:
            name = f"{target.id}/{values['seq']}/{values['label']}/{values['created_at'].isoformat()}"
            checkpoint = CheckpointRow(sessions.imported_session_id("checkpoint", name), target.id, **values)
            if not checkpoint.has_expired(self.database.clock.now()):
                await bundles.add_checkpoint(conn, checkpoint)
        if target.view is not None and target.view["upto"] <= locked.head:
            await context.save_view(conn, target.id, target.view)
        if target.seeds:
            await seeds.add_rows(conn, target.seeds, session=target.id)
        is_exact_here = target.id in self.heads and target.id not in self.redacted
        if self.info.redacted and is_exact_here and target.last_seq <= target.head:
            return  # it says less than what is here
        if target.columns is not None:
            error = target.session.details[native.EXPORTED].get("error")
            columns = {
                **target.columns,
                "details": target.session.details,
                "error": error if isinstance(error, str) else None,
            }
            await bundles.restore(conn, target.id, columns, head=target.last_seq)
