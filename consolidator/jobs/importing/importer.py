"""Imports foreign logs: idempotent, in bounded batches, with every line accounted for.

Each item has a hashed key, which is kept longer than its event. So a file that is read twice adds nothing, one that has
grown adds the new part, and what was pruned or erased does not come back.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TypeVar, cast

from consolidator.database import Database
from consolidator.errors import ImportRefused, Interrupted, InvalidEvent
from consolidator.formats import bundle, native
from consolidator.formats.base import ForeignEvent, Format, Problem
from consolidator.formats.common.log_files import is_below, open_log
from consolidator.formats.registry import recognise_format
from consolidator.jobs.importing.bundle_import import check_bundle, import_bundle
from consolidator.jobs.importing.intake import Intake
from consolidator.jobs.importing.report import ImportReport, escape_unprintable
from consolidator.jobs.importing.source_files import (
    ImportFile,
    ImportSource,
    UnreadableFile,
    list_files,
    next_batch,
    read_file,
    read_items,
)
from consolidator.models.event import NewEvent
from consolidator.store.log import events, sources

T = TypeVar("T")
_STOPPED = "asked to stop in the middle of an import: what was read is kept, the rest is read again"
Progress = Callable[[int, int, str], None]  # bytes done, bytes in total, name of the last file


async def import_sources(
    database: Database,
    requested: list[ImportSource],
    *,
    strict: bool = False,
    progress: Progress | None = None,
    stop: asyncio.Event | None = None,
    lenient: bool = False,
    as_copy: bool = False,
) -> ImportReport:
    """Import every file of the sources; with `strict`, check all of them first and write nothing if one is faulty.

    `lenient` counts a path that does not exist as a problem and goes on, as a night must. `as_copy` makes copies of the
    sessions of bundles, which are never evidence; other files are problems then.

    Raises ImportRefused if `strict` meets a line that is not understood, NotFound if a path does not exist, and
    Interrupted when `stop` is set; what was read until then is kept.
    """
    report = ImportReport()
    list_requested = partial(list_files, requested, report if lenient else None, with_sizes=progress is not None)
    files = await _run_unless_stopped(list_requested, stop)
    if strict:
        await asyncio.to_thread(_refuse_problems, files, stop)
    done, total = 0, sum(file.size for file in files)
    for file in files:
        if stop is not None and stop.is_set():
            raise Interrupted(_STOPPED)
        try:
            await _import_file(database, file, report, stop, as_copy=as_copy)
        except UnreadableFile as error:
            report.add_problem(file.path, Problem(str(error)))
        except ImportRefused as error:
            report.damaged_bundles.append(escape_unprintable(str(error)))
            report.add_problem(file.path, Problem(str(error)))
        done += file.size
        if progress:
            progress(done, total, file.path.name)
    return report


async def _run_unless_stopped(work: Callable[[], T], stop: asyncio.Event | None) -> T:
    """Run what may take minutes, such as walking a disk, in a thread; raise Interrupted at once when `stop` is set."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def set_future_result(outcome: T | None, error: Exception | None) -> None:
        if not done.done():
            done.set_exception(error) if error else done.set_result(cast(T, outcome))

    def run() -> None:
        outcome, failure = None, None
        try:
            outcome = work()
        except Exception as error:  # noqa: BLE001 - it is raised where the result is awaited
            failure = error
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(set_future_result, outcome, failure)

    threading.Thread(target=run, daemon=True).start()  # a thread of asyncio's pool would keep the process from ending
    stopping = asyncio.create_task((stop or asyncio.Event()).wait())
    try:
        await asyncio.wait((done, stopping), return_when=asyncio.FIRST_COMPLETED)
        if not done.done():
            raise Interrupted(_STOPPED)
        return done.result()
    finally:
        done.cancel()
        stopping.cancel()


def _refuse_problems(files: list[ImportFile], stop: asyncio.Event | None) -> None:
    """Read all files without writing; raise ImportRefused if a line is not understood."""
    report = ImportReport()
    for file in files:
        try:
            _check_file(file, report, stop)
        except (UnreadableFile, ImportRefused) as error:
            report.add_problem(file.path, Problem(str(error)))
    if report.problem_count:
        shown = "\n  ".join(report.problems[:10])
        raise ImportRefused(f"{report.problem_count} lines cannot be explained, so nothing was written:\n  {shown}")


def _check_file(file: ImportFile, report: ImportReport, stop: asyncio.Event | None) -> None:
    _refuse_strayed(file)
    log_format = read_file(partial(_find_format, file), file.path)
    if log_format is None:
        raise UnreadableFile("not a log of any known format")
    if log_format.NAME == bundle.NAME:
        check_bundle(file.path)
        return
    for item in read_items(log_format, file):
        if stop is not None and stop.is_set():
            raise Interrupted("asked to stop while reading: nothing was written")
        if isinstance(item, UnreadableFile):
            raise item
        if isinstance(item, Problem):
            report.add_problem(file.path, item)
        elif isinstance(item, ForeignEvent) and (problem := _payload_problem(item)):
            report.add_problem(file.path, problem)


def _refuse_strayed(file: ImportFile) -> None:
    if not is_below(file.path, file.root):
        raise UnreadableFile("a folder on the way to it became a link out of the source")


def _payload_problem(item: ForeignEvent) -> Problem | None:
    try:
        events.prepare(NewEvent(item.type, item.data))
    except InvalidEvent as error:
        return Problem(str(error), item.line)
    return None


async def _import_file(
    database: Database, file: ImportFile, report: ImportReport, stop: asyncio.Event | None, *, as_copy: bool
) -> None:
    """Import one file in batches; remember it as read only if its end was reached.

    Raises UnreadableFile if it cannot be read, or not to its end; the events before that are kept.
    """
    path = file.path
    _refuse_strayed(file)
    log_format = await asyncio.to_thread(read_file, partial(_find_format, file), path)
    if log_format is None:
        report.unrecognised.append(escape_unprintable(str(path)))
        return
    if as_copy and log_format.NAME != bundle.NAME:
        raise UnreadableFile(f"a file of the format {log_format.NAME}: only bundles can be imported as copies")
    state = await asyncio.to_thread(read_file, partial(_file_state, log_format), path)
    async with database.connection() as conn:
        if not as_copy and await sources.is_unchanged(conn, state):
            report.unchanged += 1
            return
    report.files += 1
    if log_format.NAME == bundle.NAME:
        await _import_bundle(database, state, file, report, stop, as_copy=as_copy)
        return
    events_before, problems_before = _count_events(report), len(report.problems)
    intake = Intake(database, log_format, path, report)
    items = read_items(log_format, file)
    while batch := await asyncio.to_thread(next_batch, items):
        if stop is not None and stop.is_set():
            raise Interrupted(_STOPPED)
        for item in batch:
            if isinstance(item, UnreadableFile):
                await intake.flush()
                raise item
            await intake.add(item)
    await intake.flush()
    report.bytes_read += state.size
    if _count_events(report) <= events_before + 1:  # at most the start of a session
        recognised = await asyncio.to_thread(read_file, recognise_format, path)
        if recognised is not None and recognised is not log_format:
            report.misread.append(
                f"{escape_unprintable(str(path))} looks like {recognised.NAME}, not {log_format.NAME}"
            )
            del report.problems[problems_before:]
    async with database.connection() as conn:
        await sources.remember_file(conn, state, now=database.clock.now())


async def _import_bundle(
    database: Database,
    state: sources.SourceFile,
    file: ImportFile,
    report: ImportReport,
    stop: asyncio.Event | None,
    *,
    as_copy: bool,
) -> None:
    try:
        imported = await import_bundle(database, file.path, report, as_copy=as_copy, stop=stop)
    except OSError as error:
        raise UnreadableFile(f"cannot be read: {error.strerror or error}") from error
    report.bundles.append(asdict(imported))
    report.bytes_read += state.size
    if not as_copy:
        async with database.connection() as conn:
            await sources.remember_file(conn, state, now=database.clock.now())


def _find_format(file: ImportFile, path: Path) -> Format | None:
    """Return the format of a file; one of our own is a bundle if it says so."""
    if file.format is None or file.format.NAME == native.NAME:
        recognised = recognise_format(path)
        if file.format is None or (recognised is not None and recognised.NAME == bundle.NAME):
            return recognised
    return file.format


def _count_events(report: ImportReport) -> int:
    return report.events + report.repeated + report.erased


def _file_state(log_format: Format, path: Path) -> sources.SourceFile:
    """Return what shows whether a file has changed since it was read."""
    with open_log(path) as file:  # refuses what is no file
        stat = os.fstat(file.fileno())
    return sources.SourceFile(log_format.NAME, str(path.resolve()), stat.st_size, stat.st_mtime_ns)
