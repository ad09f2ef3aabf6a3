"""The files of an import: finds them and reads their items in bounded batches, whatever their readers fail on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from consolidator.errors import NotFound
from consolidator.formats.base import ForeignEvent, ForeignSession, Format, Item, Problem
from consolidator.formats.common.log_files import find_files, path_exists
from consolidator.formats.registry import find_log_files, read_log
from consolidator.jobs.importing.intake import BATCH_BYTES
from consolidator.jobs.importing.report import ImportReport
from consolidator.llm.redaction.redact import format_redacted_traceback, redact

log = logging.getLogger("consolidator.jobs")
T = TypeVar("T")
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
    size: int  # bytes, for the progress; 0 if no progress is reported


class UnreadableFile(Exception):
    """A file cannot be read, or its reader failed on it; the message says why."""


def list_files(
    requested: list[ImportSource], report: ImportReport, *, lenient: bool = False, with_sizes: bool = False
) -> list[ImportFile]:
    """Return the files of the sources; the other files there are counted in the report.

    A path that does not exist becomes a problem of the report of a lenient import; else raises NotFound.
    """
    missing = [source for source in requested if not path_exists(source.path)]
    for source in missing:
        if not lenient:
            raise NotFound(f"{source.path}: there is no such file or directory")
        report.add_problem(source.path, Problem("there is no such file or directory"))
    files = [
        ImportFile(path, source.path, log_format, _size(path) if with_sizes else 0)
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


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # reported when the file is read
        return 0


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
        pending: list[Any] = [item.data]
    elif isinstance(item, ForeignSession):
        pending = [item.details]
    else:
        return 8
    size = 0
    while pending:
        tree = pending.pop()
        if isinstance(tree, Mapping):
            size += sum(map(len, tree))
            tree = tree.values()
        for value in tree:
            if isinstance(value, str):
                size += len(value)
            elif isinstance(value, (Mapping, list)):
                pending.append(value)
            else:
                size += 8
    return size
