"""Changes of other programs' files: shown as a diff, made in one step with a backup, and taken back."""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from consolidator.errors import UsageError

MAX_FILE = 64 << 20  # bytes


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file as it is and as it is to be; None: there is none."""

    path: Path
    before: str | None
    after: str | None

    @property
    def is_change(self) -> bool:
        """Whether anything changes."""
        return self.before != self.after

    def diff(self) -> list[str]:
        """Return the lines of a unified diff."""
        before, after = ((text or "").splitlines() for text in (self.before, self.after))
        names = str(self.path), str(self.path)
        return list(difflib.unified_diff(list(before), list(after), *names, lineterm=""))


@dataclass(frozen=True, slots=True)
class MadeChange:
    """What is remembered of a change, so that it can be taken back: the backup, and what was written."""

    path: str
    backup: str | None  # None: there was no file
    written: str  # SHA-256


def read_text(path: Path) -> str | None:
    """Return a file's text; None where there is none. Raises UsageError for what cannot be read."""
    try:
        if path.stat().st_size > MAX_FILE:
            raise UsageError(f"{path} is larger than {MAX_FILE >> 20} MiB")
        with path.open(encoding="utf-8", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}") from error


def apply(changes: Sequence[FileChange], backups: Path, stamp: str, record: Path | None = None) -> list[MadeChange]:
    """Make changes, each in one step, after a backup of each file, and remember them in the file `record`.

    Raises UsageError where a file changed meanwhile.
    """
    made = []
    for change in changes:
        if not change.is_change:
            continue
        if read_text(change.path) != change.before:
            raise UsageError(f"{change.path} was changed by another program in the meantime; try again")
        backup = None if change.before is None else _back_up(change, backups, stamp)
        if change.after is None:
            change.path.unlink()
        else:
            _replace(change.path, change.after, new_mode=0o666)
        made.append(MadeChange(str(change.path), backup, _hash(change.after or "")))
    if record is not None:
        earlier = [change for change in load_record(record) if change.path not in {new.path for new in made}]
        record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _replace(record, json.dumps([asdict(change) for change in [*earlier, *made]], indent=2) + "\n")
    return made


def restore_text(change: MadeChange, current: str) -> tuple[bool, str | None]:
    """Tell whether a file is still what was written to it, and return what stood there before (None: no file)."""
    if _hash(current) != change.written:
        return False, None
    if change.backup is None:
        return True, None
    before = read_text(Path(change.backup))
    return before is not None, before


def load_record(path: Path) -> list[MadeChange]:
    """Return the changes that are remembered, the first one first."""
    try:
        return [MadeChange(**entry) for entry in json.loads(read_text(path) or "[]")]
    except (ValueError, TypeError) as error:
        raise UsageError(f"{path} is not what `install` wrote: {error}") from error


def _back_up(change: FileChange, backups: Path, stamp: str) -> str:
    """Write a copy that only its owner reads; return its path."""
    backups.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = hashlib.sha256(str(change.path).encode("utf-8", "surrogateescape")).hexdigest()[:8]
    backup = backups / f"{stamp}-{name}-{change.path.name}"
    _replace(backup, change.before or "")
    return str(backup)


def _replace(path: Path, text: str, *, new_mode: int = 0o600) -> None:
    """Write a file in one step; links stay links, a file keeps its mode, a new one gets `new_mode` less the umask."""
    target = Path(os.path.realpath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    mode = target.stat().st_mode & 0o7777 if target.exists() else None
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, new_mode if mode is None else 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            temporary.chmod(mode)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
