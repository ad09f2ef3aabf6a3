"""Runs of the product on a folder of logs: an import and a night on a database of its own, and the stored sessions.

Nothing here counts, learns or predicts.
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

from benchmarks.harness.data_sets import FORMATS, get_format, list_files
from benchmarks.harness.report import Report
from benchmarks.harness.server import BenchmarkServer
from consolidator.clock import FrozenClock
from consolidator.database import Connection, Database
from consolidator.formats.base import ForeignEvent, ForeignSession, Format, Item
from consolidator.jobs.importing.checkouts import CheckoutWatch
from consolidator.jobs.importing.import_report import ImportReport
from consolidator.jobs.importing.importer import ImportSource, import_sources
from consolidator.jobs.nightly import JobRunner
from consolidator.models.event import Event
from consolidator.models.session import SessionRow
from consolidator.store.queries import fetch_all
from consolidator.store.sessions import projects, sessions


class SelectedSessions:
    """A format that reads only the sessions with certain ids in our database."""

    def __init__(self, wrapped: Format, ids: frozenset[str]) -> None:
        self.NAME = wrapped.NAME  # so that sessions keep their ids
        self.wrapped = wrapped
        self.ids = ids

    def files(self, path: Path) -> Iterator[Path]:
        """Yield the format's files."""
        return self.wrapped.files(path)

    def recognises(self, path: Path, head: bytes) -> bool:
        """Return whether the format recognises a file."""
        return self.wrapped.recognises(path, head)

    def read(self, path: Path, root: Path) -> Iterator[Item]:
        """Yield the items of selected sessions, and those that belong to no session."""
        selected = False
        for item in self.wrapped.read(path, root):
            if isinstance(item, ForeignSession):
                selected = sessions.imported_session_id(self.NAME, item.origin) in self.ids
            if selected or not isinstance(item, (ForeignSession, ForeignEvent)):
                yield item


async def note_checkouts(database: Database, folder: Path, log_format: Format) -> None:
    """Note what all sessions of a folder show of their directories, as each one's own git configuration would tell."""
    watch, session = CheckoutWatch(), None
    for path in log_format.files(folder):
        for item in log_format.read(path, folder):
            if isinstance(item, ForeignSession):
                session = item
            elif isinstance(item, ForeignEvent) and session is not None:
                watch.feed(session, item)
    async with database.transaction() as conn:
        await projects.add_each(conn, watch.repositories)


@dataclass(frozen=True, slots=True)
class SelectedFiles(ImportSource):
    """Some files of a folder, each with its format; origins stay relative to the folder."""

    selected: tuple[tuple[Path, Format | None], ...] = ()

    def files(self) -> Iterator[tuple[Path, Format | None]]:
        """Yield the files with their formats."""
        yield from self.selected


async def import_folder(
    database: Database, folder: Path, log_format: Format | None, ids: Iterable[str] | None = None
) -> ImportReport:
    """Import a folder, or only its sessions with certain ids."""
    files = await asyncio.to_thread(_list_files, folder, log_format, None if ids is None else frozenset(ids))
    return await import_sources(database, [SelectedFiles(folder, selected=tuple(files))])


def _list_files(
    folder: Path, log_format: Format | None, ids: frozenset[str] | None
) -> list[tuple[Path, Format | None]]:
    """Return the files of a folder, with formats that read only the sessions with these ids, if any are named."""
    files = list_files(folder) if log_format is None else ((path, log_format) for path in log_format.files(folder))
    return [
        (path, file_format if ids is None or file_format is None else SelectedSessions(file_format, ids))
        for path, file_format in files
    ]


def freeze_clock() -> FrozenClock:
    """Return a clock that stands still from now to the night."""
    return FrozenClock(datetime.now(UTC))


async def run_night(database: Database, server: BenchmarkServer, **settings: Any) -> dict[str, Any]:
    """Run the consolidation two days later, when no session is active any more; return its report."""
    assert isinstance(database.clock, FrozenClock)
    database.clock.advance(timedelta(days=2))
    return await JobRunner(database, server.default_settings().model_copy(update=settings)).run_now("consolidation")


async def load_sessions(conn: Connection) -> list[SessionRow]:
    """Return every session, in order of id."""
    return await fetch_all(conn, SessionRow, "select * from session order by id")


def find_task(session: SessionRow, log: Iterable[Event]) -> str:
    """Return the task of a session, by its log; the root of its lineage if the log names none."""
    for event in log:
        task_id = event.task_id or event.data.get("task_id")
        if task_id is not None:
            return str(task_id)
    return session.root_id


def parse_format(name: str) -> Format | None:
    """Return the format of that name; None for auto."""
    return None if name == "auto" else get_format(name)


def create_folder_parser(description: str | None) -> argparse.ArgumentParser:
    """Return a command line parser with a folder, its format and a JSON file."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    names = ", ".join(FORMATS)
    parser.add_argument("--format", default="auto", help=f"auto, or one of {names}")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    return parser


def print_report(report: Report, json_file: Path | None) -> None:
    """Print a report as a table and as a line of JSON, and write the JSON to a file if one is named."""
    line = json.dumps(report.to_json())
    print(report.format_table())
    print(line)
    if json_file is not None:
        json_file.write_text(line + "\n", encoding="utf-8")
