"""Read an agent's SQLite database without ever locking it: as it is where nobody writes, else from a copy.

An agent that runs has its last changes in a write-ahead log beside the file (or a journal, after a crash): then both
are copied to a temporary folder, and the copy is read. Only tables are read, no view: its SQL would be the file's.
"""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from consolidator.formats.base import Problem
from consolidator.formats.common.log_files import open_log

MAGIC = b"SQLite format 3\x00"
MAX_COPY = 8 * 1024**3  # bytes; a larger database is read once its agent has ended
MAX_VALUE = 64 * 1024**2  # bytes of one value
_ATTEMPTS = 3  # to copy a database while it changes
_COMPANIONS = ("-wal", "-journal")


@contextmanager
def open_database(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database to read it; raises OSError for one that cannot be read now, or is none."""
    with open_log(path) as file:  # refuses what is no file
        if file.read(len(MAGIC)) != MAGIC:
            raise OSError(errno.EINVAL, "not an SQLite database", str(path))
    with tempfile.TemporaryDirectory(prefix="consolidator-") as folder:
        source = _copy(path, Path(folder)) if changes_beside(path)[0] else path
        query = "mode=ro&immutable=1" if source is path else "mode=rw"
        try:
            # An import goes on in whichever thread is free.
            uri = f"{source.resolve().as_uri()}?{query}"
            with closing(sqlite3.connect(uri, uri=True, check_same_thread=False)) as connection:
                connection.row_factory = sqlite3.Row
                connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
                connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE)
                connection.execute("PRAGMA trusted_schema = OFF")
                connection.execute("PRAGMA cell_size_check = ON")
                yield connection
        except sqlite3.Error as error:
            raise OSError(errno.EIO, f"the database cannot be read: {error}", str(path)) from error


def read_rows(
    connection: sqlite3.Connection, path: Path, columns: Mapping[str, str], source: str, tables: tuple[str, ...]
) -> Iterator[tuple[int, dict[str, Any] | Problem]]:
    """Yield the rows of `SELECT columns source` with their numbers; `columns` are SQL texts, by name of the value.

    A column that a table of this version does not have is None. Yields a Problem where a table is missing.
    """
    kinds = {row["name"]: row["type"] for row in connection.execute("SELECT name, type FROM sqlite_master")}
    if missing := [table for table in tables if kinds.get(table) != "table"]:
        yield 1, Problem(f"the database has no table {missing[0]}")
        return
    names = {f"{table}.{row[1]}" for table in tables for row in connection.execute(f"PRAGMA table_info({table})")}
    names |= {f"{table}.rowid" for table in tables}
    chosen = ", ".join(f"{sql if sql in names else 'NULL'} AS {name}" for name, sql in columns.items())
    most = max(path.stat().st_size, 4096)  # a damaged tree of pages could repeat its rows without end
    for number, row in enumerate(connection.execute(f"SELECT {chosen} {source}"), start=1):
        if number > most:
            yield number, Problem("more rows than the file can hold: it is damaged")
            return
        yield number, dict(row)


def changes_beside(path: Path) -> tuple[int, int]:
    """Return the size and the latest time (ns) of what stands beside a database and belongs to it; 0 for nothing."""
    states = [state for suffix in _COMPANIONS if (state := _state(Path(f"{path}{suffix}"))) is not None]
    return sum(size for size, _ in states), max((changed for _, changed in states), default=0)


def _state(path: Path) -> tuple[int, int] | None:
    try:
        state = os.lstat(path)
    except OSError:
        return None
    return state.st_size, state.st_mtime_ns


def _copy(path: Path, folder: Path) -> Path:
    """Copy a database and what stands beside it into a folder; again, if it changed meanwhile."""
    names = [Path(f"{path}{suffix}") for suffix in ("", *_COMPANIONS)]
    size = sum(state[0] for state in map(_state, names) if state)
    if size > MAX_COPY or size * 2 > shutil.disk_usage(folder).free:
        raise OSError(errno.EFBIG, f"{size} bytes that are being written: end the agent, then import again", str(path))
    for _ in range(_ATTEMPTS):
        before = [_state(name) for name in names]
        for name, state in zip(names, before, strict=True):
            target = folder / name.name
            target.unlink(missing_ok=True)
            if state and state[0]:
                with open_log(name) as file, target.open("wb") as copy:
                    shutil.copyfileobj(file, copy, 1024 * 1024)
        if [_state(name) for name in names] == before:
            break
    # One that changes all the time is read as it was copied; SQLite refuses a log whose sums do not fit.
    return folder / path.name
