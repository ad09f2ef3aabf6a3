"""Import of session logs that agents left on this machine."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from consolidator.database import Database
from consolidator.errors import NotFound, UsageError
from consolidator.formats.agent_folders import log_folders
from consolidator.formats.common.log_files import path_exists
from consolidator.formats.registry import FORMATS, find_local_logs, get_format
from consolidator.jobs.importing.importer import ImportSource, import_sources
from consolidator.jobs.importing.importer import inspect_sources as inspect_sources
from consolidator.jobs.importing.intake import ImportReport as ImportReport


def select_sources(format_name: str, paths: Sequence[Path]) -> list[ImportSource]:
    """Return what to import: the paths, else the places where a format ("auto": any format) leaves its logs here."""
    if format_name == "auto":
        if paths:
            return [ImportSource(path) for path in paths]
        sources = [ImportSource(path, log_format) for log_format, path in find_local_logs(Path.home(), os.environ)]
        if not sources:
            looked_in = [str(path) for name in FORMATS for path in log_folders(name, Path.home(), os.environ)]
            raise NotFound(f"no agent left its logs on this machine (looked in {', '.join(looked_in)}); name a path")
        return sources
    log_format = get_format(format_name)
    if paths:
        return [ImportSource(path, log_format) for path in paths]
    usual = log_folders(format_name, Path.home(), os.environ)
    sources = [ImportSource(path, log_format) for path in usual if path_exists(path)]
    if not sources:
        places = f" (looked in {', '.join(map(str, usual))})" if usual else ""
        raise UsageError(f"name the files or directories to import: {format_name} has none here{places}")
    return sources


async def import_logs(
    database: Database,
    sources: list[ImportSource],
    stop: asyncio.Event,
    *,
    strict: bool = False,
    progress: Callable[[int, int, str], None] | None = None,
    as_copy: bool = False,
    person: str | None = None,
) -> ImportReport:
    """Import sources; with `strict` write nothing if a line cannot be explained; `as_copy` is for bundles.

    `person` says whose logs they are, where they are another's than the owner's. Raises UsageError for a name that is
    none.
    """
    if person is not None and not (person.strip() == person != "" and person.isprintable() and ":" not in person):
        raise UsageError(f"{person!r} is no person's name: some characters without `:` or spaces around them")
    return await import_sources(
        database, sources, strict=strict, stop=stop, progress=progress, as_copy=as_copy, person=person
    )
