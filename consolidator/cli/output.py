"""How the commands speak: tables and colours on a terminal, JSON for programs, progress on stderr.

Content of events is data: control characters never reach the terminal, and nothing in it is read as markup.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from consolidator.errors import UsageError


class ReaderGone(Exception):
    """Who read our output has gone, such as `head`: nothing is wrong, and nothing more is to be said."""


class _Out(Console):
    def on_broken_pipe(self) -> None:
        raise ReaderGone


OUT = _Out(highlight=False)
ERR = Console(stderr=True, highlight=False, soft_wrap=True)
_IDS = ("id", "run", "dead letter")  # columns that are copied from: never broken
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs, nothing else.")]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="Show at most this many.")]
Agent = Annotated[str | None, typer.Option(help="Only this agent, such as claude-code.")]
Project = Annotated[str | None, typer.Option(help="Only projects whose name contains this.")]


def plain(value: Any) -> str:
    """Return a value as text that can do nothing to a terminal."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M")
    return _CONTROL.sub("�", str(value))


def short(value: Any, width: int) -> str:
    """Return a value on one line of at most `width` characters."""
    line = " ".join(plain(value).split())
    return line if len(line) <= width else line[: width - 1] + "…"


def say(text: str = "", style: str | None = None) -> None:
    """Print a line for people."""
    OUT.print(Text(plain(text), style=style or ""), soft_wrap=True)


def warn(text: str) -> None:
    """Print a line on stderr for whoever looks after the nights."""
    ERR.print(Text(plain(f"warning: {text}"), style="yellow"))


def note(text: str) -> None:
    """Print a line beside what is said."""
    ERR.print(Text(plain(text), style="yellow"))


def usd(amount: Decimal) -> str:
    """Return an amount of US dollars, to a hundredth of a cent, or to its first digit where it is less."""
    places = 4 if not amount or abs(amount) >= Decimal("0.0001") else 1 - amount.adjusted()
    return f"${amount:.{places}f}"


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, right: Sequence[str] = ()) -> None:
    """Print rows as a table on a terminal, tab-separated elsewhere."""
    if not OUT.is_terminal:
        for cells in rows:
            write("\t".join(" ".join(plain(cell).split()) for cell in cells) + "\n")
        return
    rows = list(rows)
    if not rows:
        say(f"no {title.partition(':')[0]}", style="dim")
        return
    drawn = Table(title=title, title_justify="left", header_style="bold", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for column in columns:
        whole = column in _IDS
        drawn.add_column(column, justify="right" if column in right else "left", overflow="fold", no_wrap=whole)
    for cells in rows:
        drawn.add_row(*(Text(plain(cell)) for cell in cells))
    OUT.print(drawn)


def place(found: Mapping[str, Any]) -> str:
    """Say whom something belongs to: on a terminal a project by its folder's name."""
    whole = found["project"] or found.get("peer") or found["agent"]
    return short(re.split(r"[\\/]", whole.rstrip("\\/"))[-1] if OUT.is_terminal else whole, 40)


def begins(identity: str) -> str:
    """Return a session's id; on a terminal its beginning, which every command takes. What has a colon stays whole."""
    return identity[:10] if OUT.is_terminal and ":" not in identity else identity


def entry(text: str, *facts: Any) -> None:
    """Print a line for people with a dim one below it: for texts that are too long for a table's cell."""
    OUT.print(Padding(Text(short(text, 500)), (0, 0, 0, 2)))
    OUT.print(Padding(Text(" · ".join(plain(one) for one in facts if one), style="dim"), (0, 0, 0, 4)))


def many(number: int, noun: str) -> str:
    """Return a number of things in words."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def write(text: str) -> None:
    """Write to standard output as it is."""
    try:
        sys.stdout.write(text)
    except BrokenPipeError:
        raise ReaderGone from None


def piece(text: str) -> None:
    """Write a piece of what comes bit by bit, and have it arrive at once."""
    write(text)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise ReaderGone from None


@contextmanager
def replaced(path: Path) -> Iterator[TextIO]:
    """Yield a file that takes the place of `path` when all is written, and leaves it as it was where not.

    Raises UsageError where nothing can be written there; what is no regular file, such as a pipe, is written directly.
    """
    try:
        special = path.exists() and not path.is_file()
        path = path if special else path.resolve()  # of a link, what it leads to is replaced
        beside = path if special else path.with_name(f".{path.name}.{os.getpid()}.part")
        file = beside.open("w", encoding="utf-8", newline="\n")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
    try:
        with file:
            yield file
        if beside != path:
            if path.exists():
                shutil.copymode(path, beside)
            beside.replace(path)
    finally:
        if beside != path:
            beside.unlink(missing_ok=True)


def flush() -> None:
    """Have everything written arrive; say nothing at exit where nobody is there to read it."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def emit(value: Any) -> None:
    """Print a value as JSON."""
    write(_dumped(value, indent=2) + "\n")


def emit_line(value: Any) -> None:
    """Print a value as one line of JSON."""
    write(_dumped(value) + "\n")
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise ReaderGone from None


def _dumped(value: Any, indent: int | None = None) -> str:
    """Return JSON text with what a terminal or UTF-8 cannot take escaped; it parses to the same."""
    text = json.dumps(value, ensure_ascii=False, indent=indent, default=_json)
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _json(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, set):
        return sorted(value)
    return str(value)


@contextmanager
def progress(what: str, total: int | None = None) -> Iterator[Progress]:
    """Show progress on stderr, on a terminal only."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),  # it names files and sessions
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=ERR, transient=True, disable=not ERR.is_terminal) as bar:
        bar.add_task(what, total=total)
        yield bar
