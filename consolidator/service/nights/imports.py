"""Import of session logs that agents left on this machine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from consolidator.errors import NotFound, UsageError
from consolidator.formats.agent_folders import log_folders
from consolidator.formats.common.log_files import path_exists
from consolidator.formats.registry import FORMATS, find_local_logs, get_format
from consolidator.jobs.importing.import_report import ImportReport as ImportReport
from consolidator.jobs.importing.importer import ImportSource
from consolidator.jobs.importing.importer import ImportWatch as ImportWatch
from consolidator.jobs.importing.importer import import_sources as import_sources
from consolidator.jobs.importing.importer import inspect_sources as inspect_sources


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
    log_format, usual = get_format(format_name), log_folders(format_name, Path.home(), os.environ)
    sources = [ImportSource(path, log_format) for path in paths or filter(path_exists, usual)]
    if not sources:
        places = f" (looked in {', '.join(map(str, usual))})" if usual else ""
        raise UsageError(f"name the files or directories to import: {format_name} has none here{places}")
    return sources
