"""Brings foreign logs into ours: idempotent, in bounded batches, each line accounted for.

What was imported before is known by the hashed key of each item, which outlives the event: so a file read twice adds
nothing, one that has grown adds the new part, and what was pruned or erased does not come back.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

from consolidator.database import Database
from consolidator.errors import ImportRefused, Interrupted, InvalidEvent, NotFound
from consolidator.formats import everything_below, is_there, recognise
from consolidator.formats.base import ForeignEvent, ForeignSession, Format, Item, Problem
from consolidator.jobs.importing.intake import BATCH_BYTES, Intake, Taken
from consolidator.llm.redaction.redact import redact, traced
from consolidator.models.event import NewEvent
from consolidator.store.log import events, sources

log = logging.getLogger("consolidator.jobs")
T = TypeVar("T")
BATCH_ITEMS = 256  # read at once; fewer where they are large
PROBLEMS_KEPT = 50
REASON, KIND = 300, 60  # characters shown of what a log says
KINDS = 100  # of lines with nothing for the log, told apart
_STOPPED = "asked to stop in the middle of an import: what was read is kept, the rest is read again"
Progress = Callable[[int, int, str], None]  # bytes done, of how many, the file done last


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
            self.problems.append(f"{where}: {problem.reason[:REASON]}")

    def skip(self, kind: str) -> None:
        """Count a line with nothing for the log."""
        kind = kind[:KIND]
        self.skipped[kind if kind in self.skipped or len(self.skipped) < KINDS else "others"] += 1

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
class ImportSource:
    """A path to import; without a format each file is recognised by itself."""

    path: Path
    format: Format | None = None

    def files(self) -> Iterator[tuple[Path, Format | None]]:
        """Yield the files with their formats; None where it is yet to be recognised."""
        for path in everything_below(self.path) if self.format is None else self.format.files(self.path):
            yield path, self.format


@dataclass(frozen=True, slots=True)
class _File:
    """A file to import."""

    path: Path
    root: Path  # the path that was named
    format: Format | None
    size: int  # for the progress that is told; 0 where none is


class _Unreadable(Exception):
    """A file cannot be read, or its reader failed on it; the message says why."""


async def import_sources(
    database: Database,
    wanted: list[ImportSource],
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
    files = await _unless_stopped(
        lambda: _listed(wanted, report if lenient else None, sized=progress is not None), stop
    )
    if strict:
        await asyncio.to_thread(_refuse_problems, files, stop)
    done, total = 0, sum(file.size for file in files)
    for file in files:
        if stop is not None and stop.is_set():
            raise Interrupted(_STOPPED)
        try:
            await _import_file(database, file, report, stop)
        except _Unreadable as error:
            report.note(file.path, Problem(str(error)))
        done += file.size
        if progress:
            progress(done, total, file.path.name)
    return report


def _listed(wanted: list[ImportSource], lenient: ImportReport | None, *, sized: bool) -> list[_File]:
    """Return the files of the sources; what is not there is noted in the report of a lenient import."""
    missing = [source for source in wanted if not is_there(source.path)]
    for source in missing:
        if lenient is None:
            raise NotFound(f"{source.path}: there is no such file or directory")
        lenient.note(source.path, Problem("there is no such file or directory"))
    return [
        _File(path, source.path, form, _size(path) if sized else 0)
        for source in wanted
        if source not in missing
        for path, form in source.files()
    ]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # whoever reads it says so
        return 0


async def _unless_stopped(work: Callable[[], T], stop: asyncio.Event | None) -> T:
    """Do what may take minutes, such as to walk a disk, in a thread that nobody waits for once `stop` is set.

    Raises Interrupted then.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(outcome: T | None, error: Exception | None) -> None:
        if not done.done():
            done.set_exception(error) if error else done.set_result(cast(T, outcome))

    def beside() -> None:
        outcome, failure = None, None
        try:
            outcome = work()
        except Exception as error:  # noqa: BLE001 - it is raised where it is waited for
            failure = error
        with suppress(RuntimeError):  # nobody waited, and the loop is gone
            loop.call_soon_threadsafe(settle, outcome, failure)

    threading.Thread(target=beside, daemon=True).start()  # one of asyncio's own would keep the process from ending
    stopping = asyncio.create_task((stop or asyncio.Event()).wait())
    try:
        await asyncio.wait((done, stopping), return_when=asyncio.FIRST_COMPLETED)
        if not done.done():
            raise Interrupted(_STOPPED)
        return done.result()
    finally:
        done.cancel()
        stopping.cancel()


def _refuse_problems(files: list[_File], stop: asyncio.Event | None) -> None:
    dry = ImportReport()
    for file in files:
        try:
            form = file.format or _read(recognise, file.path)
            if form is None:
                raise _Unreadable("not a log of any known format")
            for item in _items(form, file):
                if stop is not None and stop.is_set():
                    raise Interrupted("asked to stop while reading: nothing was written")
                if isinstance(item, _Unreadable):
                    raise item
                if isinstance(item, Problem):
                    dry.note(file.path, item)
                elif isinstance(item, ForeignEvent) and (problem := _misfit(item)):
                    dry.note(file.path, problem)
        except _Unreadable as error:
            dry.note(file.path, Problem(str(error)))
    if dry.problem_count:
        shown = "\n  ".join(dry.problems[:10])
        raise ImportRefused(f"{dry.problem_count} lines cannot be explained, so nothing was written:\n  {shown}")


def _read(reading: Callable[[Path], T], path: Path) -> T:
    """Do what touches a foreign file; raise _Unreadable whatever it fails of: no file stops the others."""
    try:
        return reading(path)
    except Exception as error:
        raise _unreadable(error) from error


def _items(form: Format, file: _File) -> Iterator[Item | _Unreadable]:
    """Yield what a file holds, and at last, where it cannot be read to its end, why."""
    try:
        yield from form.read(file.path, file.root)
    except Exception as error:  # noqa: BLE001 - a reader is fed whatever others wrote
        yield _unreadable(error)


def _unreadable(error: Exception) -> _Unreadable:
    if isinstance(error, OSError):  # it went away meanwhile, or is not ours to read
        return _Unreadable(f"cannot be read: {error.strerror or error}")
    log.debug("%s", traced(error))
    return _Unreadable(f"its reader failed: {redact(f'{type(error).__name__}: {error}')[:200]}")


def _batch(items: Iterator[Item | _Unreadable]) -> list[Item | _Unreadable]:
    """Return the next few items, fewer where they are large; none at the end."""
    batch: list[Item | _Unreadable] = []
    held = 0
    for item in items:
        batch.append(item)
        held += _weight(item)
        if len(batch) >= BATCH_ITEMS or held >= BATCH_BYTES:
            break
    return batch


def _weight(item: Item | _Unreadable) -> int:
    """Return about how many bytes an item holds."""
    left: list[Any] = [
        item.data if isinstance(item, ForeignEvent) else item.details if isinstance(item, ForeignSession) else None
    ]
    weight = 0
    while left:
        value = left.pop()
        if isinstance(value, str):
            weight += len(value)
        elif isinstance(value, Mapping):
            left += value.keys()
            left += value.values()
        elif isinstance(value, list):
            left += value
        else:
            weight += 8
    return weight


def _misfit(item: ForeignEvent) -> Problem | None:
    try:
        events.prepare(NewEvent(item.type, item.data))
    except InvalidEvent as error:
        return Problem(str(error), item.line)
    return None


async def _import_file(database: Database, file: _File, report: ImportReport, stop: asyncio.Event | None) -> None:
    """Import one file in batches; remember it as read only when its end was reached.

    Raises _Unreadable where it cannot be read, or not to its end; what came before that is kept.
    """
    path = file.path
    form = file.format or await asyncio.to_thread(_read, recognise, path)
    if form is None:
        report.unrecognised.append(str(path))
        return
    known = await asyncio.to_thread(_read, partial(_state, form), path)
    async with database.connection() as conn:
        if await sources.unchanged(conn, known):
            report.unchanged += 1
            return
    report.files += 1
    before, told = report.events + report.repeated + report.erased, len(report.problems)
    intake = Intake(database, form, path, report)
    items = _items(form, file)
    while batch := await asyncio.to_thread(_batch, items):
        if stop is not None and stop.is_set():
            raise Interrupted(_STOPPED)
        for item in batch:
            if isinstance(item, _Unreadable):
                await intake.flush()
                raise item
            await intake.take(item)
    await intake.flush()
    report.size += known.size
    if report.events + report.repeated + report.erased <= before + 1:  # at most that a session began
        other = await asyncio.to_thread(_read, recognise, path)
        if other is not None and other is not form:
            report.mistaken.append(f"{path} looks like {other.NAME}, not {form.NAME}")
            del report.problems[told:]
    async with database.connection() as conn:
        await sources.remember_file(conn, known, now=database.clock.now())


def _state(form: Format, path: Path) -> sources.FileState:
    """Return what tells whether a file has changed since it was read."""
    stat = path.stat()
    return sources.FileState(form.NAME, str(path.resolve()), stat.st_size, stat.st_mtime_ns)
