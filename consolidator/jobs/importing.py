"""Brings foreign logs into ours: idempotent, in bounded batches, each line accounted for.

What was imported before is known by the hashed key of each item, which outlives the event: so a file read twice adds
nothing, one that has grown adds the new part, and what was pruned or erased does not come back.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from consolidator.database import Database
from consolidator.errors import ImportRefused, Interrupted, InvalidEvent, NotFound
from consolidator.formats import everything_below, recognise
from consolidator.formats.base import ForeignEvent, Format, Problem
from consolidator.jobs.intake import Intake, Taken
from consolidator.models.event import NewEvent
from consolidator.store import events, sources

PROBLEMS_KEPT = 50
_STOPPED = "asked to stop in the middle of an import: what was read is kept, the rest is read again"
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
    mistaken: list[str] = field(default_factory=list)  # files of which nothing was read, and which format would

    def note(self, path: Path, problem: Problem) -> None:
        """Count a line that was not understood."""
        self.problem_count += 1
        if len(self.problems) < PROBLEMS_KEPT:
            where = f"{path}:{problem.line}" if problem.line else str(path)
            self.problems.append(f"{where}: {problem.reason}")

    def skip(self, kind: str) -> None:
        """Count a line with nothing for the log."""
        self.skipped[kind] += 1

    def wrote(self, done: Taken) -> None:
        """Count what a transaction did, when it is committed."""
        self.events += done.events
        self.repeated += done.repeated
        self.erased += done.erased
        self.sessions |= done.sessions

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
            "mistaken": self.mistaken,
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
    database: Database,
    wanted: list[Source],
    *,
    strict: bool = False,
    progress: Progress | None = None,
    stop: asyncio.Event | None = None,
    lenient: bool = False,
) -> ImportReport:
    """Import every file of the sources; with `strict`, read all of them first and refuse before anything is written.

    `lenient` counts a path that does not exist as a problem and goes on, as a night must.

    Raises ImportRefused where `strict` meets a line it cannot explain, NotFound where a path does not exist, and
    Interrupted, with what was read so far kept, when `stop` is set.
    """
    report = ImportReport()
    if lenient:
        missing = [source for source in wanted if not await asyncio.to_thread(source.path.exists)]
        for source in missing:
            report.note(source.path, Problem("there is no such file or directory"))
        wanted = [source for source in wanted if source not in missing]
    await asyncio.to_thread(_refuse_missing, wanted)
    if strict:
        await asyncio.to_thread(_refuse_problems, wanted, stop)
    for source in wanted:
        for path, found in await asyncio.to_thread(list, source.files()):
            if found is None:
                report.unrecognised.append(str(path))
                continue
            try:
                await _import_file(database, found, path, source.path, report, progress, stop)
            except OSError as error:  # it went away meanwhile, or is not ours to read
                report.note(path, Problem(f"cannot be read: {error.strerror or error}"))
    return report


def _refuse_missing(wanted: list[Source]) -> None:
    for source in wanted:
        if not source.path.exists():
            raise NotFound(f"{source.path}: there is no such file or directory")


def _refuse_problems(wanted: list[Source], stop: asyncio.Event | None) -> None:
    dry = ImportReport()
    for source in wanted:
        for path, found in source.files():
            if found is None:
                dry.note(path, Problem("not a log of any known format"))
                continue
            for item in found.read(path, source.path):
                if stop is not None and stop.is_set():
                    raise Interrupted("asked to stop while reading: nothing was written")
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
    database: Database,
    form: Format,
    path: Path,
    root: Path,
    report: ImportReport,
    progress: Progress | None,
    stop: asyncio.Event | None,
) -> None:
    """Import one file in batches; remember it as read only when its end was reached."""
    stat, name = await asyncio.to_thread(lambda: (path.stat(), str(path.resolve())))
    known = sources.FileState(form.NAME, name, stat.st_size, stat.st_mtime_ns)
    async with database.connection() as conn:
        if await sources.unchanged(conn, known):
            report.unchanged += 1
            return
    report.files += 1
    before, told = report.events + report.repeated + report.erased, len(report.problems)
    intake = Intake(database, form, path, report)
    items = iter(form.read(path, root))
    while batch := await asyncio.to_thread(lambda: list(islice(items, 256))):
        if stop is not None and stop.is_set():
            raise Interrupted(_STOPPED)
        for item in batch:
            await intake.take(item)
    await intake.flush()
    report.size += stat.st_size
    if report.events + report.repeated + report.erased <= before + 1:  # at most that a session began
        other = await asyncio.to_thread(recognise, path)
        if other is not None and other is not form:
            report.mistaken.append(f"{path} looks like {other.NAME}, not {form.NAME}")
            del report.problems[told:]
    async with database.connection() as conn:
        await sources.remember_file(conn, known, now=database.clock.now())
    if progress:
        progress(stat.st_size, path.name)
