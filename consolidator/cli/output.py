"""Output of the commands: tables and colours on a terminal, JSON for programs, progress on stderr.

Content of events is data: control characters never reach the terminal, and nothing is interpreted as markup.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TextIO, TypeVar

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from consolidator.cli.streams import OutputClosed, is_json, write_now, write_text
from consolidator.errors import Interrupted, UsageError
from consolidator.models.audience import describe_peer
from consolidator.models.audience import pluralize as pluralize
from consolidator.service.encoding import encode_json, escape_invisible, mark_invisible, to_visible_json

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn

T = TypeVar("T")


class _OutputConsole(Console):
    def on_broken_pipe(self) -> None:
        raise OutputClosed


OUT = _OutputConsole(highlight=False)
ERR = Console(stderr=True, highlight=False, soft_wrap=True)
_SHORT_LENGTH = 10  # characters of an id: among a million of them, hardly two begin alike
MIN_TABLE_WIDTH = 100  # columns of a terminal; on a narrower one a list is laid out as lines
# Never wrapped, so that they can be copied.
_ID_COLUMNS = ("id", "run", "dead letter", "session", "call", "task", "checkpoint")

Limit = Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="Show at most this many.")]
AgentOption = Annotated[
    str | None, typer.Option(help="What this agent is told, such as claude-code: its own and shared.")
]
ProjectOption = Annotated[str | None, typer.Option(help="Only this project: its path, or the last part of it.")]


@dataclass(frozen=True, slots=True)
class Table:
    """How rows are printed: each column with its cell, an attribute (or a key) of the row or a function of it."""

    title: str
    columns: Mapping[str, str | Callable[[Any], Any]]
    right: Sequence[str] = ()  # the columns of numbers
    nothing: str | None = None  # the sentence for no rows
    main: str | None = None  # the column that leads on a narrow terminal, by default the longest
    entry: Callable[[Any], Iterable[Any]] | None = None  # a row's text and details on a terminal, if too long for cells

    def print(self, rows: Iterable[Any]) -> None:
        """Print the rows."""
        rows = list(rows)
        if rows and OUT.is_terminal and self.entry is not None:
            for row in rows:
                print_entry(*self.entry(row))
            return
        cells = ([_cell(row, column) for column in self.columns.values()] for row in rows)
        print_table(self.title, tuple(self.columns), cells, right=self.right, nothing=self.nothing, main=self.main)


def table(
    title: str,
    columns: str,
    /,
    *,
    nothing: str | None = None,
    entry: Callable[[Any], Iterable[Any]] | None = None,
    **cells: Callable[[Any], Any],
) -> Table:
    """Return a table of columns such as `>events=head`: `>` is for numbers, `=` for an attribute of another name.

    `cells` are functions of a row, by the names of their columns.
    """
    cell_of: dict[str, str | Callable[[Any], Any]] = {}
    names = columns.split(", ")
    for column in names:
        name, _, attribute = column.removeprefix(">").partition("=")
        key = name.replace(" ", "_")
        cell_of[name] = cells.get(key) or attribute or key
    right = [column.removeprefix(">").partition("=")[0] for column in names if column.startswith(">")]
    return Table(title, cell_of, right, nothing, entry=entry)


def _cell(row: Any, column: str | Callable[[Any], Any]) -> Any:
    if not isinstance(column, str):
        return column(row)
    return row[column] if isinstance(row, Mapping) else getattr(row, column)


def emit(value: T, show: Table | Callable[[T], str | None] | str, *, encode: Callable[[T], Any] | None = None) -> None:
    """Print what a command returns: with --json through `encode` or its own `as_json`; else for people.

    `show` is a table of its rows, a line, or a function that returns a line or prints by itself.
    """
    if is_json():
        encode = encode or getattr(type(value), "as_json", None)
        print_json(value if encode is None else encode(value))
    elif isinstance(show, Table):
        show.print(value)  # type: ignore[arg-type]
    elif (line := show if isinstance(show, str) else show(value)) is not None:
        print_line(line)


def confirm(question: str, refusal: str) -> None:
    """Ask on stderr; raise Interrupted if the answer is no, and UsageError where nobody can answer."""
    is_confirmed = ask(question)
    if is_confirmed is None:
        raise UsageError("a person has to confirm this: run it on a terminal, or say --yes")
    if not is_confirmed:
        raise Interrupted(refusal)


def ask(question: str) -> bool | None:
    """Ask on stderr and return the answer, no unless a person says yes; None where nobody can answer."""
    if not sys.stdin.isatty():
        return None
    try:
        with redirect_stdout(sys.stderr):  # typer's `err` prints the last character to stdout
            return typer.confirm(question)
    except typer.Abort:
        print_note("")  # ends the question's line
        return False


def sanitize(value: Any) -> str:
    """Return a value as text that is safe on a terminal: a mark stands for each character that nobody sees."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M")
    return mark_invisible(str(value))


def shorten(value: Any, width: int) -> str:
    """Return a value on one line of at most `width` characters."""
    line = " ".join(sanitize(value).split())
    return line if len(line) <= width else line[: width - 1] + "…"


def print_line(text: str = "", style: str | None = None) -> None:
    """Print a line for people."""
    OUT.print(Text(sanitize(text), style=style or ""), soft_wrap=True)


def print_warning(text: str) -> None:
    """Print a warning on stderr."""
    ERR.print(Text(sanitize(f"warning: {text}"), style="yellow"))


def print_note(text: str) -> None:
    """Print a line on stderr, apart from the output."""
    ERR.print(Text(sanitize(text), style="yellow"))


def format_usd(amount: Decimal) -> str:
    """Return an amount of US dollars with four decimals, or with more if it is smaller than that."""
    places = 4 if not amount or abs(amount) >= Decimal("0.0001") else 1 - amount.adjusted()
    return f"${amount:.{places}f}"


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    right: Sequence[str] = (),
    nothing: str | None = None,
    main: str | None = None,
) -> None:
    """Print rows as a table on a terminal, as lines on a narrow one, tab-separated elsewhere.

    `nothing` is the sentence for no rows, `main` the column that leads on a narrow terminal, by default the longest.
    """
    if not OUT.is_terminal:
        for cells in rows:
            write_text("\t".join(" ".join(sanitize(cell).split()) for cell in cells) + "\n")
        return
    rows = list(rows)
    if not rows:
        print_line(nothing or f"no {title.partition(':')[0]}", style="dim")
        return
    if OUT.width < MIN_TABLE_WIDTH:
        _print_records(title, columns, rows, main)
        return
    grid = Grid(title=title, title_justify="left", header_style="bold", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for column in columns:
        justify: Literal["left", "right"] = "right" if column in right else "left"
        grid.add_column(column, justify=justify, overflow="fold", no_wrap=column in _ID_COLUMNS)
    for cells in rows:
        grid.add_row(*(Text(sanitize(cell)) for cell in cells))
    OUT.print(grid)


def _print_records(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], leading: str | None) -> None:
    """Print each row as its leading text, by default the longest, and the others below it with their columns' names."""
    print_line(title, style="bold")
    if len(columns) == 2:
        for name, value in rows:
            print_line(
                f"  {sanitize(name)}: {sanitize(value)}"
            )  # a path stays whole where the terminal breaks the line
        return
    lengths = [sum(len(sanitize(row[position])) for row in rows) for position in range(len(columns))]
    texts = [position for position, column in enumerate(columns) if column not in _ID_COLUMNS]
    main = columns.index(leading) if leading else max(texts, key=lengths.__getitem__)
    for row in rows:
        cells = [(column, sanitize(cell)) for column, cell in zip(columns, row, strict=True)]
        shown = main if cells[main][1] else 0
        rest = [(column, cell) for position, (column, cell) in enumerate(cells) if position != shown and cell]
        print_entry(cells[shown][1], *(f"{column}\u00a0{cell}" for column, cell in rest))


def owner_name(*names: str | None) -> str:
    """Return the first name that is not empty; on a terminal only the last part of a path."""
    name = describe_peer(next(filter(None, names), ""))
    return shorten(re.split(r"[\\/]", name.rstrip("\\/"))[-1] if OUT.is_terminal else name, 40)


def short_id(name: str) -> str:
    """Return an id; on a terminal its beginning, which every command accepts. A name with a colon stays whole."""
    if not OUT.is_terminal or ":" in name:
        return name
    kind, underscore, digits = name.rpartition("_")
    return kind + underscore + digits[:_SHORT_LENGTH]


def print_entry(text: str, *details: Any) -> None:
    """Print a line and a dim one with details below it: for texts that are too long for a table."""
    OUT.print(Padding(Text(shorten(text, 500)), (0, 0, 0, 2)))
    OUT.print(Padding(Text(" · ".join(sanitize(detail) for detail in details if detail), style="dim"), (0, 0, 0, 4)))


@contextmanager
def replace_file(path: Path) -> Iterator[TextIO]:
    """Yield a file that replaces `path` when it is written completely; on an error `path` stays as it was.

    What is not a regular file, such as a pipe, is written directly. Raises UsageError if the file cannot be written.
    """
    try:
        special = path.exists() and not path.is_file()
        path = path if special else path.resolve()  # replaces the target of a link
        part_file = path if special else path.with_name(f".{path.name}.{os.getpid()}.part")
        file = part_file.open("w", encoding="utf-8", newline="\n")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
    try:
        with file:
            yield file
        if part_file != path:
            if path.exists():
                shutil.copymode(path, part_file)
            part_file.replace(path)
    finally:
        if part_file != path:
            part_file.unlink(missing_ok=True)


def print_json(value: Any) -> None:
    """Print a value as JSON, without the characters that nobody sees."""
    write_text(json.dumps(to_visible_json(value), ensure_ascii=False, indent=2) + "\n")


def print_json_line(value: Any) -> None:
    """Print a value as one line of JSON, at once; what nobody sees is escaped, so that it parses to the same value."""
    write_now(escape_invisible(json.dumps(value, ensure_ascii=False, default=encode_json)) + "\n")


@contextmanager
def status_line(text: str) -> Iterator[None]:
    """Show on stderr what goes on, with a spinner, only on a terminal; it is gone afterwards."""
    with _show_progress(text, None):
        yield


@contextmanager
def progress_bar(label: str, total: int | None = None, *, of_bytes: bool = False) -> Iterator[Progress]:
    """Show progress on stderr, only on a terminal."""
    from rich import progress  # what shows none does not load it

    amount = progress.DownloadColumn() if of_bytes else progress.MofNCompleteColumn()
    with _show_progress(label, total, progress.BarColumn(bar_width=20), amount) as bar:
        yield bar


@contextmanager
def _show_progress(label: str, total: int | None, *columns: ProgressColumn) -> Iterator[Progress]:
    """Show a spinner, a label and the time; they are gone afterwards."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    text = TextColumn("{task.description}", markup=False)  # it holds names of files and projects
    columns = (SpinnerColumn(), text, *columns, TimeElapsedColumn())
    with Progress(*columns, console=ERR, transient=True, disable=not ERR.is_terminal) as bar:
        bar.add_task(label, total=total)
        yield bar


def byte_progress(bar: Progress, label: str = "") -> Callable[[int, int, str], None] | None:
    """Return what moves a bar of bytes and names the file; None where no bar is shown."""

    def show(done: int, total: int, name: str) -> None:
        bar.update(bar.task_ids[0], completed=done, total=total, description=label + shorten(name, 40))

    return None if bar.disable else show


def progress_callbacks(bar: Progress) -> tuple[Callable[[int], None], Callable[[str], None]]:
    """Return what a job calls with the number of its units, and with the name of each that ended, to move a bar."""
    task = bar.task_ids[0]
    label = bar.tasks[0].description

    def show(unit: str) -> None:
        # Sessions are named by their projects, merges by their agents, all others by ids, which tell a person nothing.
        doing, _, name = unit.partition(" ")
        what = {"in": name, "merge": f"merging {name}"}.get(doing, "")
        bar.update(task, advance=int(doing != "merge"), description=f"{label} · {shorten(what, 30)}" if what else label)

    return (lambda count: bar.update(task, total=count)), show


_LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_NOISY = ("alembic", "uvicorn", "asyncio", "httpx", "httpx2", "mcp")


def _redact_record(record: logging.LogRecord) -> bool:
    from consolidator.llm.redaction.redact import redact_record  # most commands log nothing

    return redact_record(record)


def configure_logging() -> None:
    """Log to standard error at the level of CONSOLIDATOR_LOG_LEVEL; libraries only warnings."""
    level = os.environ.get("CONSOLIDATOR_LOG_LEVEL", "INFO").upper()
    level = level if level in logging.getLevelNamesMapping() else "INFO"
    handler: logging.Handler = logging.StreamHandler()
    if ERR.is_terminal:
        from rich.logging import RichHandler

        handler = RichHandler(console=ERR, show_path=False)
    handler.addFilter(_redact_record)
    logging.basicConfig(level=level, handlers=[handler], format="%(message)s" if ERR.is_terminal else _LOG_FORMAT)
    for noisy in _NOISY:
        logging.getLogger(noisy).setLevel(max(logging.WARNING, logging.getLevelNamesMapping()[level]))
