"""Import of session logs that agents left on this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from consolidator.database import Database
from consolidator.errors import NotFound, UsageError
from consolidator.formats.common.log_files import path_exists
from consolidator.formats.registry import find_local_logs, get_format
from consolidator.jobs.importing.importer import import_sources
from consolidator.jobs.importing.report import ImportReport
from consolidator.jobs.importing.source_files import ImportSource

__all__ = ["ImportReport", "ImportSource", "import_logs", "select_sources"]


def select_sources(format_name: str, paths: Sequence[Path]) -> list[ImportSource]:
    """Return what to import: the paths, else the places where a format ("auto": any format) leaves its logs here."""
    if format_name == "auto":
        if paths:
            return [ImportSource(path) for path in paths]
        sources = [ImportSource(path, log_format) for log_format, path in find_local_logs(Path.home())]
        if not sources:
            raise NotFound("no agent left its logs in a known place on this machine; name a path")
        return sources
    log_format = get_format(format_name)
    if paths:
        return [ImportSource(path, log_format) for path in paths]
    sources = [ImportSource(path, log_format) for path in log_format.default_paths(Path.home()) if path_exists(path)]
    if not sources:
        raise UsageError(f"name the files or directories to import: {format_name} has none in a known place here")
    return sources


async def import_logs(
    database: Database,
    sources: list[ImportSource],
    stop: asyncio.Event,
    *,
    strict: bool = False,
    progress: Callable[[int, int, str], None] | None = None,
    as_copy: bool = False,
) -> ImportReport:
    """Import sources; with `strict` write nothing if a line cannot be explained; `as_copy` is for bundles."""
    return await import_sources(database, sources, strict=strict, stop=stop, progress=progress, as_copy=as_copy)
