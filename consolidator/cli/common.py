"""What every command needs: settings, the open database, parsed times, and a way to stop.

`run` opens the database for one function of the service; `run_in` also looks up the session that a person named.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import MISSING, asdict, dataclass, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, ParamSpec, TypeVar, get_type_hints

import typer

from consolidator.cli.commands import SEARCH
from consolidator.cli.output import print_warning, progress_bar, progress_callbacks, status_line
from consolidator.clock import Clock
from consolidator.errors import Interrupted, UsageError
from consolidator.models.viewer import Viewer
from consolidator.service.database import Database, open_database
from consolidator.settings import Settings, describe_unknown_settings, load_settings

if TYPE_CHECKING:
    from consolidator.service.nights.runs import JobContext

T = TypeVar("T")
P = ParamSpec("P")
SessionName = Annotated[str, typer.Argument(help="A session's id, its foreign name, or the beginning of either.")]
_NOTED_AFTER = 0.3  # seconds
_SPAN = re.compile(r"([0-9]{1,12})\s*([smhdw])")
_MAX_SPAN = timedelta(days=36_500)  # a century; longer ones leave the calendar
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def run(function: Callable[Concatenate[Database, P], Coroutine[Any, Any, T]], *args: P.args, **options: P.kwargs) -> T:
    """Open the database, call a function with it and these arguments, and return what that returns."""
    return run_configured(lambda database, _: function(database, *args, **options))


def run_configured(
    function: Callable[Concatenate[Database, Settings, P], Coroutine[Any, Any, T]], *args: P.args, **options: P.kwargs
) -> T:
    """Do the same with a function that takes the settings, too."""

    async def opened() -> T:
        async with open_configured() as (database, settings):
            return await function(database, settings, *args, **options)

    return run_async(opened())


def run_in(
    session: str,
    function: Callable[Concatenate[Database, str, P], Coroutine[Any, Any, T]],
    *args: P.args,
    **options: P.kwargs,
) -> T:
    """Do the same with the id of the session that a person named; raise NotFound if there is none."""
    from consolidator.runtime.session.access import find_session_id  # what opens no session does not load it

    async def in_session(database: Database) -> T:
        return await function(database, await find_session_id(database, session), *args, **options)

    return run(in_session)


def run_job(label: str, work: Callable[[JobContext], Coroutine[Any, Any, T]]) -> T:
    """Run a job with a progress bar on a terminal; a signal sets its event, so that it ends with the current unit."""

    from consolidator.service.nights.runs import JobContext  # what runs no job does not load it

    async def started() -> T:
        stop = stop_on_signals()
        async with open_configured() as (database, settings):
            with progress_bar(label) as bar:
                return await work(JobContext(database, settings, stop, *progress_callbacks(bar)))

    return run_async(started())


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run a command's coroutine to its end; raise Interrupted if a person stops it."""
    try:
        return asyncio.run(work)
    except KeyboardInterrupt:
        raise Interrupted("what was finished is kept; the same command resumes there") from None


def read_settings() -> Settings:
    """Return the settings, log at their level, and tell once on stderr of each name that is no setting."""
    settings = load_settings()
    if "log_level" in settings.model_fields_set and not os.environ.get("CONSOLIDATOR_LOG_LEVEL"):  # it is in the file
        logging.getLogger().setLevel(settings.log_level)
    _warn_of_unknown_settings()
    return settings


@cache
def _warn_of_unknown_settings() -> None:
    for line in describe_unknown_settings():
        print_warning(line)


@asynccontextmanager
async def open_configured() -> AsyncIterator[tuple[Database, Settings]]:
    """Read the settings and open the database."""
    settings = read_settings()
    async with AsyncExitStack() as stack:
        is_first = settings.database_url is None and not (settings.home / "postgres").exists()
        what = "setting up the embedded database, once" if is_first else "opening the database"
        async with waiting_note(what):
            database = await stack.enter_async_context(open_database(settings, Clock(settings.clock)))
        yield database, settings


@asynccontextmanager
async def waiting_note(what: str) -> AsyncIterator[None]:
    """Say on a terminal what is being waited for, unless it takes no time."""

    async def show() -> None:
        await asyncio.sleep(_NOTED_AFTER)
        with status_line(what):
            await asyncio.Event().wait()

    showing = asyncio.create_task(show())
    try:
        yield
    finally:
        showing.cancel()
        await asyncio.wait([showing])


def parse_path(text: str) -> Path:
    """Return a path; raise UsageError for an empty text, which would mean the current directory."""
    if not text:
        raise UsageError("an empty path names nothing; . is the current directory")
    return Path(text)


def parse_pairs(texts: list[str] | None, what: str) -> dict[str, str] | None:
    """Parse texts such as "name=Ada"; None where there are none. Raises UsageError for anything else."""
    if not texts:
        return None
    pairs: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"{text!r} is no {what}: NAME=VALUE")
        pairs[name] = value
    return pairs


def read_text(name: str) -> str:
    """Return the text of a file, or of standard input if it is called `-`. Raises UsageError."""
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise UsageError(f"{name} cannot be read: {reason}") from error


def stop_on_signals() -> asyncio.Event:
    """Return an event that SIGTERM and SIGINT set, so that the current unit is finished or released.

    A second signal ends the process at once.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_signal(number: signal.Signals) -> None:
        stop.set()
        loop.remove_signal_handler(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    return stop


def parse_span(text: str) -> timedelta:
    """Parse a span of time such as "30d" or "12h"; raise UsageError for anything else, or more than a hundred years."""
    match = _SPAN.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{text!r} is not a span of time, such as 30d, 12h or 45m")
    unit = timedelta(**{_UNITS[match[2]]: 1})
    if int(match[1]) > _MAX_SPAN / unit:
        raise UsageError(f"{text!r} is longer than a hundred years")
    return int(match[1]) * unit


def parse_moment(text: str | None, now: datetime) -> datetime | None:
    """Parse a date "2026-03-01", an ISO time, or a span ago "7d"; without a zone it is UTC. None stays None."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        if _SPAN.fullmatch(text.strip()) is None:
            raise UsageError(f"{text!r} is not a date (2026-03-01), time (2026-03-01T03:00) or span ago (7d)") from None
        return now - parse_span(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


PlaceOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="A project: its path or its last part; by default the project of the working directory."
    ),
]
QueryWords = Annotated[
    list[str] | None,
    typer.Argument(metavar="[QUERY]", help="What to look for: words; `search` before them is left out."),
]
TERMINAL = Viewer(surface="cli")  # whose the words of these commands are, in the log


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command whose parameters are its own and, in place of each group, the options of that group."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    if not groups:
        return command
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name in groups:
            parameters += _list_options(groups[name])
        else:
            parameters.append(parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY))

    @wraps(command)
    def expanded(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{option.name: values.pop(option.name) for option in fields(group)})
        command(**values)

    expanded.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    vars(expanded)["__signature__"] = inspect.Signature(parameters)
    return expanded


def _list_options(group: Any) -> Iterator[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    for option in fields(group):
        default = option.default if option.default_factory is MISSING else option.default_factory()
        yield inspect.Parameter(
            option.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hints[option.name]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerOptions:
    """Whose memory a command reads."""

    agent: Annotated[str | None, typer.Option(help="Only this agent, such as claude-code.")] = None
    project: Annotated[str | None, typer.Option(help="Only this project: its path, or the last part of it.")] = None
    peer: Annotated[str | None, typer.Option(help="Only what this person may see.")] = None

    def values(self) -> dict[str, Any]:
        """Return the options as the keyword arguments of a service function."""
        return asdict(self)


def join_query(words: list[str] | None) -> str | None:
    """Return the words of a query, without the word `search` before them; None where there are none."""
    words = words or []
    return " ".join(words[1:] if words[:1] == [SEARCH] else words) or None


def require_at_most_one(**flags: object) -> None:
    """Raise UsageError if more than one of these options is given."""
    options = [f"--{name.rstrip('_').replace('_', '-')}" for name, value in flags.items() if value]
    if len(options) > 1:
        raise UsageError(f"{' and '.join(options)} are different things to do: give one of them")
