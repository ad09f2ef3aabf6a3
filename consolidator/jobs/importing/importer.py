"""Imports foreign logs: idempotent, in bounded batches, with every line accounted for.

Each item has a hashed key, which is kept longer than its event. So a file that is read twice adds nothing, one that has
grown adds the new part, and what was pruned or erased does not come back.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from consolidator.database import Database
from consolidator.database.jsonb import text_size
from consolidator.errors import ImportRefused, Interrupted, InvalidEvent, NotFound, UsageError
from consolidator.formats import bundle, native
from consolidator.formats.base import ForeignEvent, ForeignSession, Format, Item, Problem, Skipped
from consolidator.formats.common.log_files import find_files, is_below, open_log, path_exists
from consolidator.formats.common.sqlite_log import changes_beside
from consolidator.formats.registry import find_log_files, read_log, recognise_format
from consolidator.jobs.gather import unless_stopped
from consolidator.jobs.importing.bundle_import import check_bundle, import_bundle
from consolidator.jobs.importing.import_report import ImportReport, escape_unprintable
from consolidator.jobs.importing.intake import BATCH_BYTES, Intake
from consolidator.llm.redaction.redact import format_redacted_traceback, redact
from consolidator.models.audience import pluralize
from consolidator.models.event import NewEvent
from consolidator.models.payload import EventType
from consolidator.process import run_in_thread
from consolidator.store.log import events, sources

log = logging.getLogger("consolidator.jobs")
READERS = 1  # raise it when a reader understands more: files are read again then, and known events are skipped
BATCH_ITEMS = 256  # read at once; fewer if they are large


@dataclass(frozen=True, slots=True)
class ImportSource:
    """A path to import; without a format each file's own is recognised."""

    path: Path
    format: Format | None = None

    def files(self) -> Iterator[tuple[Path, Format | None]]:
        """Yield the files with their formats; None for a format that is not recognised yet."""
        for path in find_log_files(self.path) if self.format is None else self.format.files(self.path):
            yield path, self.format


@dataclass(frozen=True, slots=True)
class ImportFile:
    """A file to import."""

    path: Path
    root: Path  # the path of its source
    format: Format | None
    size: int  # bytes
    changed: float  # when; these two are 0 of a file that cannot be looked at


class UnreadableFile(Exception):
    """A file cannot be read, or its reader failed on it; the message says why."""


def list_files(requested: list[ImportSource], report: ImportReport, *, lenient: bool = False) -> list[ImportFile]:
    """Return the files of the sources; the other files there are counted in the report.

    A path that does not exist becomes a problem of the report of a lenient import; else raises NotFound.
    """
    missing = [source for source in requested if not path_exists(source.path)]
    for source in missing:
        if not lenient:
            raise NotFound(f"{source.path}: there is no such file or directory")
        report.add_problem(source.path, Problem("there is no such file or directory"))
    files = [
        ImportFile(path, source.path, log_format, *_look_at(path))
        for source in requested
        if source not in missing
        for path, log_format in source.files()
    ]
    logs = {file.path for file in files}
    for source in requested:
        for path in find_files(source.path, ""):
            if path not in logs:
                report.add_unread(path)
    return files


def _look_at(path: Path) -> tuple[int, float]:
    try:
        status = path.stat()
    except OSError:  # reported when the file is read
        return 0, 0.0
    return status.st_size, status.st_mtime


def read_file(read: Callable[[Path], T], path: Path) -> T:
    """Call `read` with a foreign file; raise UnreadableFile for any error, so that no file stops the others."""
    try:
        return read(path)
    except Exception as error:
        raise _unreadable(error) from error


def read_items(log_format: Format, file: ImportFile) -> Iterator[Item | UnreadableFile]:
    """Yield the items of a file; if it cannot be read to its end, the last one says why."""
    try:
        yield from read_log(log_format, file.path, file.root)
    except Exception as error:  # noqa: BLE001 - a reader gets whatever other programs wrote
        yield _unreadable(error)


def _unreadable(error: Exception) -> UnreadableFile:
    if isinstance(error, OSError):  # deleted meanwhile, or no permission
        return UnreadableFile(f"cannot be read: {error.strerror or error}")
    log.debug("%s", format_redacted_traceback(error))
    return UnreadableFile(f"its reader failed: {redact(f'{type(error).__name__}: {error}')[:200]}")


def next_batch(items: Iterator[Item | UnreadableFile]) -> tuple[list[Item | UnreadableFile], bool]:
    """Return the next few items, fewer if they are large, and whether they are the last ones."""
    batch: list[Item | UnreadableFile] = []
    size = 0
    for item in items:
        batch.append(item)
        size += _item_size(item)
        if len(batch) >= BATCH_ITEMS or size >= BATCH_BYTES:
            return batch, False
    return batch, True


def _item_size(item: Item | UnreadableFile) -> int:
    """Return about how many bytes an item takes."""
    if isinstance(item, ForeignEvent):
        return text_size(item.data)
    return text_size(item.details) if isinstance(item, ForeignSession) else 8


T = TypeVar("T")
_STOPPED = "asked to stop in the middle of an import: what was read is kept, the rest is read again"
WEEK_SECONDS, LONG_HISTORY = 7 * 24 * 3600, 100 << 20  # bytes
FILES_AT_ONCE = 64  # whose formats and states are looked up together


@dataclass(frozen=True, slots=True)
class ImportWatch:
    """What an import calls as it goes on."""

    progress: Callable[[int, int, str], None] | None = None  # bytes done, bytes in total, name of the last file
    latest_read: Callable[[], Awaitable[None]] | None = None  # after the latest week, where a long history follows


async def import_sources(
    database: Database,
    requested: list[ImportSource],
    *,
    strict: bool = False,
    watch: ImportWatch | None = None,
    stop: asyncio.Event | None = None,
    lenient: bool = False,
    as_copy: bool = False,
    person: str | None = None,
) -> ImportReport:
    """Import every file of the sources, the latest week first; with `strict`, check all and write nothing if one fails.

    `lenient` counts a path that does not exist as a problem and goes on, as a night must. `as_copy` makes copies of the
    sessions of bundles, which are never evidence; other files are problems then. With a `person` all new sessions are
    theirs; a bundle says itself whose it is, and is a problem then.

    Raises UsageError for a person's name that is none, ImportRefused if `strict` meets a line that is not understood,
    NotFound if a path does not exist, and Interrupted when `stop` is set; what was read until then is kept.
    """
    if person is not None and not (person.strip() == person != "" and person.isprintable() and ":" not in person):
        raise UsageError(f"{person!r} is no person's name: some characters without `:` or spaces around them")
    report = ImportReport(sources=[escape_unprintable(str(source.path)) for source in requested], person=person)
    list_requested = partial(list_files, requested, report, lenient=lenient)
    files = await unless_stopped(run_in_thread(list_requested), stop, _STOPPED)  # it may take minutes
    if strict:
        await asyncio.to_thread(_refuse_problems, files, stop)
    importing = _Import(database, report, stop, as_copy)
    done, total = 0, sum(file.size for file in files)
    week = max((file.changed for file in files), default=0) - WEEK_SECONDS
    latest, older = [file for file in files if file.changed >= week], [file for file in files if file.changed < week]
    for part in (latest, older):
        for start in range(0, len(part), FILES_AT_ONCE):
            for seen in await importing.look_at(part[start : start + FILES_AT_ONCE]):
                await importing.read(seen)
                done += seen.file.size
                if watch and watch.progress:
                    watch.progress(done, total, seen.file.path.name)
        if part is latest and watch and watch.latest_read and total - done > LONG_HISTORY:
            await importing.flush()
            await watch.latest_read()
    await importing.flush()
    return report


def inspect_sources(requested: list[ImportSource]) -> ImportReport:
    """Read every file without writing, and return what is not known of them: for a report that a person may send."""
    report = ImportReport(sources=[escape_unprintable(str(source.path)) for source in requested])
    _check_files(list_files(requested, report), report, None)
    return report


def _check_files(files: Sequence[ImportFile], report: ImportReport, stop: asyncio.Event | None) -> None:
    for file in files:
        report.files += 1
        try:
            _check_file(file, report, stop)
        except (UnreadableFile, ImportRefused) as error:
            report.add_problem(file.path, Problem(str(error)))


def _refuse_problems(files: list[ImportFile], stop: asyncio.Event | None) -> None:
    """Read all files without writing; raise ImportRefused if a line is not understood."""
    report = ImportReport()
    _check_files(files, report, stop)
    if report.problem_count:
        shown = "\n  ".join(report.problems[:10])
        raise ImportRefused(
            f"{pluralize(report.problem_count, 'line')} cannot be explained, so nothing was written:\n  {shown}"
        )


def _check_file(file: ImportFile, report: ImportReport, stop: asyncio.Event | None) -> None:
    _refuse_strayed(file)
    log_format = read_file(partial(_find_format, file), file.path)
    if log_format is None:
        raise UnreadableFile("not a log of any known format")
    if log_format.NAME == bundle.NAME:
        check_bundle(file.path)
        return
    version = ""
    for item in read_items(log_format, file):
        if stop is not None and stop.is_set():
            raise Interrupted("asked to stop while reading: nothing was written")
        if isinstance(item, UnreadableFile):
            raise item
        if isinstance(item, Problem):
            report.add_problem(file.path, item)
        elif isinstance(item, Skipped):
            report.add_shape(log_format.NAME, version, item)
        elif isinstance(item, ForeignEvent) and item.type is EventType.SESSION_START:
            version = "".join(re.findall(r"[\w.+-]", str(item.data.get("version") or "")))[:20]
        elif isinstance(item, ForeignEvent):
            try:
                events.prepare(NewEvent(item.type, item.data))
            except InvalidEvent as error:
                report.add_problem(file.path, Problem(str(error), item.line))


def _refuse_strayed(file: ImportFile) -> None:
    if not is_below(file.path, file.root):
        raise UnreadableFile("a folder on the way to it became a link out of the source")


@dataclass(frozen=True, slots=True)
class _SeenFile:
    """What is known of a file before it is read."""

    file: ImportFile
    format: Format | None = None
    state: sources.SourceFile | None = None  # None if it is of no known format
    unreadable: UnreadableFile | None = None  # why it cannot be read
    is_unchanged: bool = False  # since an earlier import


@dataclass(slots=True)
class _Import:
    """Reads one file after another; those of one format share an intake, so that small ones are written together."""

    database: Database
    report: ImportReport
    stop: asyncio.Event | None
    as_copy: bool
    intake: Intake | None = None
    finished: set[sources.SourceFile] = field(default_factory=set)  # in this import

    async def look_at(self, files: Sequence[ImportFile]) -> list[_SeenFile]:
        """Find the formats of files, and which are unchanged since they were read to their end."""
        await self._heed_stop()
        seen = await asyncio.to_thread(lambda: [_look_at_file(file) for file in files])
        if self.as_copy:
            return seen
        async with self.database.connection() as conn:
            states = [file.state for file in seen if file.state is not None]
            unchanged = await sources.find_unchanged(conn, states)
        return [replace(file, is_unchanged=file.state in unchanged) for file in seen]

    async def read(self, seen: _SeenFile) -> None:
        """Read a file into the log; what is wrong with it becomes a problem of the report."""
        await self._heed_stop()
        path, report = seen.file.path, self.report
        try:
            await self._read(seen)
        except UnreadableFile as error:
            report.add_problem(path, Problem(str(error)))
        except ImportRefused as error:
            report.damaged_bundles.append(escape_unprintable(str(error)))
            report.add_problem(path, Problem(str(error)))

    async def _read(self, seen: _SeenFile) -> None:
        """Read a file; remember it as read only if its end is reached.

        Raises UnreadableFile if it cannot be read, or not to its end; the events before that are kept.
        """
        if seen.unreadable is not None:
            raise seen.unreadable

        log_format, state, report, path = seen.format, seen.state, self.report, seen.file.path
        if log_format is None or state is None:
            report.unrecognised.append(escape_unprintable(str(path)))
            return
        if self.as_copy and log_format.NAME != bundle.NAME:
            raise UnreadableFile(f"a file of the format {log_format.NAME}: only bundles can be imported as copies")
        if seen.is_unchanged or state in self.finished:
            report.unchanged += 1
            return

        _refuse_strayed(seen.file)
        report.files += 1
        if log_format.NAME == bundle.NAME:
            if report.person is not None:
                raise UnreadableFile("a bundle says itself whose it is: import it without a name")
            await self.flush()
            try:
                imported = await import_bundle(self.database, path, report, as_copy=self.as_copy, stop=self.stop)
            except OSError as error:
                raise UnreadableFile(f"cannot be read: {error.strerror or error}") from error
            report.bundles.append(asdict(imported))
            report.bytes_read += state.size
            if not self.as_copy:
                async with self.database.connection() as conn:
                    await sources.remember_files(conn, [state], now=self.database.clock.now())
        else:
            await self._read_log(seen.file, log_format, state)

        if not self.as_copy:
            self.finished.add(state)

    async def _read_log(self, file: ImportFile, log_format: Format, state: sources.SourceFile) -> None:
        if self.intake is None or self.intake.format is not log_format:
            await self.flush()
            self.intake = Intake(self.database, log_format, self.report, person=self.report.person)
        intake, path, problems_before = self.intake, file.path, len(self.report.problems)
        count_before = self.report.problem_count
        intake.begin_file(path)
        items, is_end = read_items(log_format, file), False
        while not is_end:
            batch, is_end = await asyncio.to_thread(next_batch, items)
            await self._heed_stop()
            for item in batch:
                if isinstance(item, UnreadableFile):
                    raise item
                await intake.add(item)
        self.report.bytes_read += state.size
        if intake.events_of_file <= 1:  # at most the start of a session
            recognised = await asyncio.to_thread(read_file, recognise_format, path)
            if recognised is not None and recognised is not log_format:
                self.report.misread.append(
                    f"{escape_unprintable(str(path))} looks like {recognised.NAME}, not {log_format.NAME}"
                )
                self.report.forget_problems(path, problems_before)
        if intake.events_of_file or self.report.problem_count == count_before:
            await intake.finish_file(state)  # a file of which nothing could be read is tried again

    async def flush(self) -> None:
        """Write what is buffered."""
        if self.intake is not None:
            await self.intake.flush()

    async def _heed_stop(self) -> None:
        """Raise Interrupted if `stop` is set, after what was read is written."""
        if self.stop is not None and self.stop.is_set():
            await self.flush()
            raise Interrupted(_STOPPED)


def _look_at_file(file: ImportFile) -> _SeenFile:
    try:
        _refuse_strayed(file)
        log_format = read_file(partial(_find_format, file), file.path)
        state = read_file(partial(_file_state, log_format), file.path) if log_format is not None else None
    except UnreadableFile as error:
        return _SeenFile(file, unreadable=error)
    return _SeenFile(file, log_format, state)


def _find_format(file: ImportFile, path: Path) -> Format | None:
    """Return the format of a file; one of our own is a bundle if it says so."""
    if file.format is None or file.format.NAME == native.NAME:
        recognised = recognise_format(path)
        if file.format is None or (recognised is not None and recognised.NAME == bundle.NAME):
            return recognised
    return file.format


def _file_state(log_format: Format, path: Path) -> sources.SourceFile:
    """Return what shows whether a file has changed since it was read."""
    with open_log(path) as file:  # refuses what is no file
        stat = os.fstat(file.fileno())
    size, changed = changes_beside(path)  # of a database whose agent is running
    name = f"{log_format.NAME}/{READERS}"
    return sources.SourceFile(name, str(path.resolve()), stat.st_size + size, max(stat.st_mtime_ns, changed))
