"""Backup and restore of a whole database with PostgreSQL's own pg_dump and pg_restore, while it is in use.

The log, memory, the ledger and the schema's revision go into one file, as of one moment. A backup restores into the
same or a newer major version of PostgreSQL, and is upgraded to this version.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict

from consolidator.database.embedded import binaries
from consolidator.database.upgrade import SCHEMA
from consolidator.errors import DatabaseError, UsageError

EXTENSION = "vector"  # lives in our schema where vectors are kept
_HAS_EXTENSION = "select exists (select from pg_extension where extname = %s)"
_DUMPED_FROM = re.compile(r"Dumped from database version: (\d+)")
APPLICATION = "consolidator backup"
_IS_RUNNING = "select count(*) from pg_stat_activity where application_name = %s and datname = current_database()"
_IS_EMPTY = "select not exists (select from {schema}.session) and not exists (select from {schema}.fact)"


def dump(dsn: str, path: Path) -> int:
    """Write a backup to a file that must not exist yet, readable by its owner alone; return its size in bytes."""
    path = path.absolute()
    if path.exists():
        raise UsageError(f"{path} exists; name another file, or remove it first")
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.touch(mode=0o600, exist_ok=False)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
    try:
        with psycopg.connect(dsn) as conn:
            row = conn.execute(_HAS_EXTENSION, [EXTENSION]).fetchone()
        options = ["--format=custom", f"--schema={SCHEMA}", "--no-owner", "--no-privileges", f"--file={part}"]
        if row is not None and row[0]:
            options.append(f"--extension={EXTENSION}")
        _run("pg_dump", dsn, options)
        size = part.stat().st_size
        part.replace(path)
        return size
    finally:
        part.unlink(missing_ok=True)


def restore(dsn: str, path: Path) -> None:
    """Restore a backup, all or nothing; raise DatabaseError if the database holds something."""
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    listing = _run("pg_restore", None, ["--list", str(path)])  # what is no backup is refused before anything is dropped
    with psycopg.connect(dsn) as conn:
        _check_version(conn, listing)
        if conn.execute(_IS_RUNNING, [APPLICATION]).fetchone() != (0,):
            raise DatabaseError("another restore into this database is running; wait for its end")
        exists = conn.execute("select to_regclass(%s) is not null", [f"{SCHEMA}.session"]).fetchone()
        if exists is not None and exists[0]:
            empty = conn.execute(_IS_EMPTY.format(schema=SCHEMA).encode()).fetchone()
            if empty is None or not empty[0]:
                raise DatabaseError(
                    "the database holds sessions or facts, and a restore would replace them; "
                    "set CONSOLIDATOR_HOME or CONSOLIDATOR_DATABASE_URL to an empty one"
                )
        conn.execute(f"drop schema if exists {SCHEMA} cascade".encode())
    options = ["--exit-on-error", "--single-transaction", "--no-owner", "--no-privileges", str(path)]
    _run("pg_restore", dsn, [f"--dbname={conninfo_to_dict(dsn).get('dbname') or 'postgres'}", *options])


def _check_version(conn: psycopg.Connection, listing: str) -> None:
    """Raise DatabaseError if a backup is of a newer major version of PostgreSQL than the server."""
    version = _DUMPED_FROM.search(listing)
    server = conn.info.server_version // 10000
    if version is not None and int(version[1]) > server:
        raise DatabaseError(
            f"this backup is of PostgreSQL {version[1]}, and the server is {server}: a backup "
            "restores into the same or a newer major version; `consolidator export` and `import` move sessions anywhere"
        )


def _run(program: str, dsn: str | None, options: list[str]) -> str:
    """Run a program of PostgreSQL; credentials go by the environment, which other users cannot read."""
    environment = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "HOME") if name in os.environ}
    environment["PGAPPNAME"] = APPLICATION
    for option in psycopg.pq.Conninfo.parse((dsn or "").encode()):
        if option.envvar is not None and option.val is not None:
            environment[option.envvar.decode()] = option.val.decode()
    command = [binaries.locate().program(program), *options]
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip() or f"exit code {done.returncode}"
        raise DatabaseError(f"{program} failed: {reason[:2000]}")
    return done.stdout.decode(errors="replace")
