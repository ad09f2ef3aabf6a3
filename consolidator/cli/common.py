"""What every command needs: settings read once, the database open, and a way to be asked to stop."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from consolidator.clock import Clock
from consolidator.database import Database, open_database
from consolidator.errors import Interrupted, UsageError
from consolidator.settings import Settings, load_settings

T = TypeVar("T")
_SPAN = re.compile(r"([0-9]{1,12})\s*([smhdw])")
_LONGEST = timedelta(days=36_500)  # a century: what goes beyond leaves the calendar
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a command's coroutine to its end; raise Interrupted where a person stops it."""
    try:
        return asyncio.run(work)
    except KeyboardInterrupt:
        raise Interrupted("what was finished is kept; the same command goes on from there") from None


@asynccontextmanager
async def opened() -> AsyncIterator[tuple[Database, Settings]]:
    """Read the settings and open the database."""
    settings = load_settings()
    async with open_database(settings, Clock(settings.clock)) as database:
        yield database, settings


def path_named(text: str) -> Path:
    """Return the path a person typed; raise UsageError for an empty word, which would mean the current directory."""
    if not text:
        raise UsageError("an empty path names nothing; . is the current directory")
    return Path(text)


def stop_on_signals() -> asyncio.Event:
    """Return an event that SIGTERM and SIGINT set, so that the unit in hand is finished or handed back.

    Whoever asks a second time does not wait for that.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def asked(number: signal.Signals) -> None:
        stop.set()
        loop.remove_signal_handler(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked, number)
    return stop


def span(text: str) -> timedelta:
    """Return what "30d" or "12h" says; raise UsageError where it says nothing, or more than a hundred years."""
    found = _SPAN.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"{text!r} is not a span of time, such as 30d, 12h or 45m")
    unit = timedelta(**{_UNITS[found[2]]: 1})
    if int(found[1]) > _LONGEST / unit:
        raise UsageError(f"{text!r} is longer than a hundred years")
    return int(found[1]) * unit


def moment(text: str | None, now: datetime) -> datetime | None:
    """Return what "2026-03-01", an ISO time or "7d" (ago) says; raise UsageError where it says nothing."""
    if text is None:
        return None
    try:
        told = datetime.fromisoformat(text)
    except ValueError:
        if _SPAN.fullmatch(text.strip()) is None:
            raise UsageError(f"{text!r} is no date (2026-03-01), time (2026-03-01T03:00) or span ago (7d)") from None
        return now - span(text)
    return told if told.tzinfo else told.replace(tzinfo=UTC)
