"""Bundles: a session with all that belongs to it as one file, to keep it, to look at it elsewhere, to run it again."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import IO, Any

from consolidator.database import Database
from consolidator.database.jsonb import unescape
from consolidator.errors import DatabaseError, ImportRefused
from consolidator.formats import native
from consolidator.formats.bundle import BundleWriter, ChunkOrder
from consolidator.jobs.importing.bundle_import import ImportedBundle as ImportedBundle
from consolidator.jobs.importing.bundle_import import import_bundle
from consolidator.jobs.importing.import_report import ImportReport
from consolidator.llm.redaction.redact import redact, redact_json
from consolidator.models.event import ChunkRow, Event, EventRow
from consolidator.models.session import SessionRow
from consolidator.models.viewer import OWNER, Viewer
from consolidator.runtime.session.access import find_session
from consolidator.service.log.export import writable_columns
from consolidator.store.log import blobs, bundles, events
from consolidator.store.log.bundles import DeliveryRow
from consolidator.store.log.events import Span
from consolidator.store.sessions import checkpoints, seeds, sessions
from consolidator.store.sessions.lineage import load_lineage

_PAGE = 500  # events read at once
_MAX_CHECKPOINTS = 1000
_PAGE_BYTES = 16 * 1024 * 1024  # of large values that are in memory at once


async def stream_bundle(
    database: Database, session_name: str, *, exact: bool = False, viewer: Viewer = OWNER, lost: list[str] | None = None
) -> AsyncIterator[str]:
    """Yield the lines of a session's bundle; `exact` keeps credentials, which are redacted otherwise.

    It has what the session reads of its ancestors' logs, too; those that are gone are left out.
    `lost` gets which values are lost, and where: a note takes their place.

    Each page is read on a connection of its own: nothing is held between two lines. Raises NotFound, Forbidden for
    `exact` without the scope admin, and DatabaseError where the log is pruned or erased meanwhile.
    """
    if exact:
        viewer.check_may("admin")
    async with database.connection() as conn:
        session = await find_session(conn, viewer, session_name, "read")
        lineage = await load_lineage(conn, session.id, session)
        uptos = {part.session_id: part.upto_seq for part in lineage.ancestors}  # the farthest first
        ancestors = await sessions.get_each(conn, list(uptos))
    lost = [] if lost is None else lost
    exporters = [_SessionExporter(database, row, lost, exact=exact, upto=uptos[row.id]) for row in ancestors]
    exporters.append(_SessionExporter(database, session, lost, exact=exact))
    names = {exporter.session.id: exporter.name for exporter in exporters}
    writer = BundleWriter(exporters[-1].name, redact=None if exact else redact_json)
    for exporter in exporters:
        async for line in exporter.lines(writer, names):
            yield line
    yield writer.end()


async def load_bundle(
    database: Database, path: Path, *, as_copy: bool = False, viewer: Viewer = OWNER
) -> tuple[ImportedBundle, ImportReport]:
    """Import a bundle, and return what became of it; `as_copy` makes a copy that is never evidence.

    An import says what people said and approved elsewhere, so it needs the scope admin. Raises Forbidden, and
    ImportRefused before anything is written for a bundle that is damaged.
    """
    viewer.check_may("admin")
    report = ImportReport()
    return await import_bundle(database, path, report, as_copy=as_copy), report


async def load_bundle_file(
    database: Database, content: IO[bytes], *, as_copy: bool = False, viewer: Viewer = OWNER
) -> ImportedBundle:
    """Import a bundle that came over the network, in an open file. Raises what `load_bundle` raises."""
    viewer.check_may("admin")
    with tempfile.TemporaryDirectory(prefix="consolidator-bundle-") as folder:
        path = Path(folder, "bundle.jsonl")
        await asyncio.to_thread(_copy_file, content, path)
        try:
            imported, _ = await load_bundle(database, path, as_copy=as_copy, viewer=viewer)
        except ImportRefused as error:
            raise ImportRefused(str(error).replace(str(path), "the bundle")) from error
    return imported


def _copy_file(content: IO[bytes], path: Path) -> None:
    content.seek(0)
    with path.open("wb") as file:
        shutil.copyfileobj(content, file)


class _SessionExporter:
    """Writes one session's lines: all of it, or what a child reads of it."""

    def __init__(
        self, database: Database, session: SessionRow, lost: list[str], *, exact: bool, upto: int | None = None
    ) -> None:
        self.session = session
        self._database = database
        self._lost = lost
        self._exact = exact
        self._upto = session.head if upto is None else min(upto, session.head)
        self._is_whole = upto is None
        self._header = self._build_header()
        self.name = str(self._header["id"])  # the session's id where it was exported first

    def _build_header(self) -> dict[str, Any]:
        header = native.build_header(writable_columns(self.session, redacted=False), self.session.pruned_to)
        header.pop("chain", None)
        if not self._is_whole:  # it may go on after what is read of it
            header.pop("status", None)
        elif self._exact and (chain := self._find_chain()) is not None:
            header["chain"] = chain
        return header

    def _find_chain(self) -> Any:
        """Return the hash of the last event in the log that the session was exported from first.

        Only in exact bundles: with the rest of a session, it would tell a short credential by trying all there are.
        """
        session = self.session
        if session.origin is not None:
            return session.details.get(native.EXPORTED, {}).get("chain")
        return {"seq": session.head, "hash": session.chain_hash.hex()} if session.chain_hash else None

    async def lines(self, writer: BundleWriter, names: Mapping[str, str]) -> AsyncIterator[str]:
        """Yield the session's lines; `names` are the names in the bundle of the sessions in it."""
        yield writer.session(self._header)
        async for line in self._companions(writer, names):
            yield line
        order: ChunkOrder = ChunkOrder()
        after = min(self.session.pruned_to, self._upto)
        while after < self._upto:
            upto = min(after + _PAGE, self._upto)
            async for line in self._page(writer, order, Span(self.session.id, after, upto, self.session.ingest_bounds)):
                yield line
            after = upto
        for chunk in order.rest():
            yield writer.row("chunk", chunk)

    async def _companions(self, writer: BundleWriter, names: Mapping[str, str]) -> AsyncIterator[str]:
        """Yield what stands beside the log."""
        session = self.session
        async with self._database.connection() as conn:
            lineage = await load_lineage(conn, session.id, session)
            view = await bundles.get_view(conn, session.id)
            seed_rows = await seeds.read(conn, session.id)
            now = self._database.clock.now()
            points = await checkpoints.list_unexpired(conn, [session.id], now, limit=_MAX_CHECKPOINTS)
        if lineage.ancestors:
            ranges = [
                {"session": names.get(part.session_id, part.session_id)}
                | {"after_seq": part.after_seq, "upto_seq": part.upto_seq, "shift": part.shift}
                for part in lineage.ancestors
            ]
            yield writer.record("lineage", {"base_seq": session.base_seq, "ranges": ranges})
        if self._is_whole:
            open_task = None if session.open_task is None else unescape(session.open_task)
            yield writer.row("columns", replace(session, open_task=open_task))
        for seed in seed_rows:
            yield writer.row("seed", seed)
        if view is not None and view.upto <= self._upto:
            yield writer.row("view", view)
        for checkpoint in points if self._is_whole else ():
            yield writer.row("checkpoint", checkpoint)

    async def _page(self, writer: BundleWriter, order: ChunkOrder, span: Span) -> AsyncIterator[str]:
        """Yield the lines of a span of events, with the chunks and deliveries of the messages that began in it."""
        async with self._database.connection() as conn:
            rows = await events.read_rows(conn, span)
            chunks = await bundles.list_chunks(conn, span)
            deliveries = await bundles.list_deliveries(conn, span)
        if [row.seq for row in rows] != list(range(span.after + 1, span.upto + 1)):
            raise DatabaseError(
                f"session {span.session}: events after {span.after} were pruned or erased while it was exported; "
                "export it again"
            )
        order.add(chunks if self._exact else redact_chunks(chunks))
        delivered: dict[int, list[DeliveryRow]] = defaultdict(list)  # by the event that began their message
        for delivery in deliveries:
            delivered[delivery.started_seq].append(delivery)
        for group in _split_by_size(rows):
            async with self._database.connection() as conn:
                complete = await events.complete(conn, group)
            self._lost += [event.unreadable for event in complete if event.unreadable is not None]
            for event in complete:
                for line in self._event_lines(writer, order, event, delivered.get(event.seq, ())):
                    yield line

    def _event_lines(
        self, writer: BundleWriter, order: ChunkOrder, event: Event, deliveries: Sequence[DeliveryRow]
    ) -> Iterator[str]:
        for chunk in order.before(event):
            yield writer.row("chunk", chunk)
        yield writer.event(event)
        for chunk in order.after(event):
            yield writer.row("chunk", chunk)
        for delivery in deliveries:
            yield writer.row("delivery", delivery)


def redact_chunks(chunks: Sequence[ChunkRow]) -> list[ChunkRow]:
    """Return chunks without credentials, also where a credential is spread over several chunks of a message.

    From where a message's redacted text differs, all of it is in one chunk; later ones are empty.
    """
    redacted: list[ChunkRow] = []
    for _, group in groupby(chunks, key=lambda chunk: chunk.message_id):
        message = list(group)
        whole = "".join(chunk.delta for chunk in message)
        text = redact(whole)
        redacted += message if text == whole else _spread(text, message)
    return redacted


def _spread(text: str, message: Sequence[ChunkRow]) -> Iterator[ChunkRow]:
    """Yield a message's chunks with another text: unchanged up to the first that differs, which has the rest."""
    for chunk in message:
        if text.startswith(chunk.delta) and text != chunk.delta:
            yield chunk
            text = text.removeprefix(chunk.delta)
        else:
            yield replace(chunk, delta=text)
            text = ""


def _split_by_size(rows: Sequence[EventRow]) -> Iterator[list[EventRow]]:
    """Yield rows in groups whose large values fit into memory; at least one row each."""
    group: list[EventRow] = []
    size = 0
    for row in rows:
        row_size = sum(int(ref["size"]) for ref in blobs.refs_of(row).values())
        if group and size + row_size > _PAGE_BYTES:
            yield group
            group, size = [], 0
        group.append(row)
        size += row_size
    if group:
        yield group
