"""Runs the product on a folder of trajectories: an import and a night on a database of its own, and what is stored.

Nothing in here counts, learns or predicts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks.report import Report
from benchmarks.server import Server
from consolidator.clock import FrozenClock
from consolidator.database import Connection, Database
from consolidator.formats import FORMATS, format_named, recognise
from consolidator.formats.base import ForeignEvent, ForeignSession, Format, Item
from consolidator.jobs.importing.importer import ImportReport, ImportSource, import_sources
from consolidator.jobs.nightly import Nights
from consolidator.models.event import Event
from consolidator.store.log import events, sessions
from consolidator.store.queries import Row, rows


class Chosen:
    """A format that reads only some sessions, by their ids of ours; what it leaves out is as if it were not there."""

    def __init__(self, form: Format, ids: frozenset[str]) -> None:
        self.NAME = form.NAME  # so that sessions keep their ids
        self.form = form
        self.ids = ids

    def default_paths(self, home: Path) -> list[Path]:
        """Return what the format does."""
        return self.form.default_paths(home)

    def files(self, path: Path) -> Iterator[Path]:
        """Yield what the format does."""
        return self.form.files(path)

    def recognises(self, path: Path, head: bytes) -> bool:
        """Tell what the format does."""
        return self.form.recognises(path, head)

    def read(self, path: Path, root: Path) -> Iterator[Item]:
        """Yield the items of chosen sessions, and whatever belongs to none."""
        wanted = False
        for item in self.form.read(path, root):
            if isinstance(item, ForeignSession):
                wanted = sessions.session_id_of(self.NAME, item.origin) in self.ids
            if wanted or not isinstance(item, (ForeignSession, ForeignEvent)):
                yield item


@dataclass(frozen=True, slots=True)
class Files(ImportSource):
    """Some files of a folder, each with its format; sessions that are named by their files keep these names."""

    found: tuple[tuple[Path, Format | None], ...] = ()

    def files(self) -> Iterator[tuple[Path, Format | None]]:
        """Yield the files with their formats."""
        yield from self.found


async def bring_in(
    database: Database, folder: Path, form: Format | None, ids: Iterable[str] | None = None
) -> ImportReport:
    """Import a folder, or only the sessions called `ids`, as the product does."""
    source = ImportSource(folder, form)
    if ids is not None:
        chosen = frozenset(ids)
        found = [(path, _only(known, chosen)) for path, known in await asyncio.to_thread(_listed, source)]
        source = Files(folder, found=tuple(found))
    return await import_sources(database, [source])


def _only(form: Format | None, ids: frozenset[str]) -> Format | None:
    return None if form is None else Chosen(form, ids)


def _listed(source: ImportSource) -> list[tuple[Path, Format | None]]:
    return [(path, form or recognise(path)) for path, form in source.files()]


def clock() -> FrozenClock:
    """Return a clock that stands at now until the night."""
    return FrozenClock(datetime.now(UTC))


async def night(database: Database, server: Server) -> dict[str, Any]:
    """Run the consolidation of two days later, when every session has long been quiet."""
    assert isinstance(database.clock, FrozenClock)
    database.clock.advance(timedelta(days=2))
    return await Nights(database, server.settings()).run_now("consolidation")


async def all_sessions(conn: Connection) -> list[Row]:
    """Return every session, in order of id."""
    return await rows(conn, "select * from session order by id")


async def events_of(conn: Connection, session: Row) -> list[Event]:
    """Return a session's events in order."""
    return await events.read(conn, session["id"])


def task_of(session: Row, found: Iterable[Event]) -> str:
    """Return the task that a session is about, by its log; the root of its lineage where there is none."""
    for event in found:
        told = event.task_id or event.data.get("task_id")
        if told is not None:
            return str(told)
    return str(session["root_id"])


def known_format(name: str) -> Format | None:
    """Return the format of that name; None for auto."""
    return None if name == "auto" else format_named(name)


def folder_parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser of a folder and its format."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    names = ", ".join(FORMATS)
    parser.add_argument("--format", default="auto", help=f"auto, or one of {names}")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    return parser


def show(report: Report, written: Path | None) -> None:
    """Print a report as a table and as a line of JSON, and write it to a file where one is named."""
    told = json.dumps(report.as_json())
    print(report.table())
    print(told)
    if written is not None:
        written.write_text(told + "\n", encoding="utf-8")
