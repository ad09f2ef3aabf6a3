"""What an import read and wrote, and what it could not read: counts, and the first lines that were not understood."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from consolidator.formats.base import Problem, Skipped
from consolidator.models.audience import pluralize
from consolidator.store.queries import row_values

PROBLEMS_KEPT = 50
REASON_LENGTH, KIND_LENGTH = 300, 60  # characters shown of a log's own words
_KIND_PARTS = re.compile(r"[A-Za-z0-9_.:/-]+")
_PACKED = (".zst", ".gz", ".xz", ".bz2", ".br", ".lz4", ".zip", ".tar", ".7z")
MAX_KINDS = 100  # of skipped lines; further kinds are counted as "others"


def escape_unprintable(text: str) -> str:
    """Return a text in one line that shows what it is: line breaks and control, format and half characters escaped."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


@dataclass(slots=True)
class ImportReport:
    """What an import, or one transaction of it, read and wrote; `problems` keeps the first fifty."""

    sources: list[str] = field(default_factory=list)  # the paths that were looked in
    person: str | None = None  # whose the logs are said to be; None: the owner's where they name nobody
    assumed: set[str] = field(default_factory=set)  # new sessions of that person, or of the owner
    files: int = 0
    unchanged: int = 0  # files that were imported before and have not changed
    unrecognised: list[str] = field(default_factory=list)  # files of no known format
    bytes_read: int = 0
    sessions: set[str] = field(default_factory=set)
    events: int = 0  # new in the log
    repeated: int = 0  # imported before
    erased: int = 0  # of erased sessions
    skipped: Counter[str] = field(default_factory=Counter)  # lines with nothing for the log, by kind
    problem_count: int = 0
    problems: list[str] = field(default_factory=list)
    bundles: list[dict[str, Any]] = field(default_factory=list)  # what became of each: session_id, origin, is_new ...
    damaged_bundles: list[str] = field(default_factory=list)  # why bundles were not imported
    shapes: Counter[str] = field(default_factory=Counter)  # lines of unknown kinds, by format, version and fields
    unread: Counter[str] = field(default_factory=Counter)  # files in the places that no reader reads, by suffix
    misread: list[str] = field(default_factory=list)  # files without events in the given format, and their likely one

    def add_problem(self, path: Path, problem: Problem) -> None:
        """Count a line that was not understood."""
        self.problem_count += 1
        if len(self.problems) < PROBLEMS_KEPT:
            where = f"{path}:{problem.line}" if problem.line else str(path)
            self.problems.append(escape_unprintable(f"{where}: {problem.reason[:REASON_LENGTH]}"))

    def forget_problems(self, path: Path, since: int) -> None:
        """Remove what was said of a file, all of it after the first `since` problems; it stays counted."""
        shown_path = escape_unprintable(str(path))
        self.problems[since:] = [
            problem for problem in self.problems[since:] if not problem.startswith(f"{shown_path}:")
        ]

    def add_unread(self, path: Path) -> None:
        """Count a file that no reader reads; one that is compressed may be a log, and is named."""
        suffix = path.suffix.lower()
        self.unread[suffix if re.fullmatch(r"\.[a-z0-9]{1,8}", suffix) else "without suffix"] += 1
        if suffix in _PACKED:
            self.unrecognised.append(escape_unprintable(str(path)))

    def add_skipped(self, kind: str) -> None:
        """Count a line with nothing for the log."""
        kind = escape_unprintable(kind[:KIND_LENGTH])
        self.skipped[kind if kind in self.skipped or len(self.skipped) < MAX_KINDS else "others"] += 1

    def add_shape(self, format_name: str, version: str, item: Skipped) -> None:
        """Count a line of a kind that is not known, by the names of its fields."""
        if item.shape is not None:
            kind = "".join(_KIND_PARTS.findall(item.kind))[:KIND_LENGTH]
            name = f"{format_name} {version}".strip() + f" {kind}{item.shape}"
            self.shapes[name if name in self.shapes or len(self.shapes) < MAX_KINDS else "others"] += 1

    def describe_unknown(self) -> str:
        """Return one line that says which kinds of lines were not known, and nothing of what they hold."""
        shapes = [f"{name} x{count}" for name, count in self.shapes.most_common()]
        unread = [f"{suffix} x{count}" for suffix, count in self.unread.most_common()]
        parts = [("unknown lines", shapes), ("files not read", unread)]
        unknown = [f"{title}: {'; '.join(names)}" for title, names in parts if names]
        return f"{pluralize(self.files, 'file')}, {pluralize(self.problem_count, 'line')} not understood; " + (
            "; ".join(unknown) or "nothing unknown"
        )

    def add_batch(self, batch: ImportReport) -> None:
        """Count what a committed transaction did."""
        for name in ("events", "repeated", "erased", "problem_count"):
            setattr(self, name, getattr(self, name) + getattr(batch, name))
        self.sessions |= batch.sessions
        self.assumed |= batch.assumed
        self.problems = [*self.problems, *batch.problems][:PROBLEMS_KEPT]

    def as_json(self) -> dict[str, Any]:
        """Return the report for programs and the ledger."""
        values = row_values(self) | {
            "assumed": {"person": self.person, "sessions": len(self.assumed)},
            "sessions": len(self.sessions),
            "skipped": dict(sorted(self.skipped.items())),
            "unread": dict(sorted(self.unread.items())),
        }
        names = {"bytes_read": "bytes", "misread": "mistaken"}
        return {names.get(name, name): value for name, value in values.items() if name not in ("person", "shapes")}
