"""The clock that all code asks for the time, so that tests and the demo can set it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


class Clock:
    """Tells the time in UTC: the real time or, with `start`, a time that begins there and runs at real speed."""

    def __init__(self, start: datetime | None = None) -> None:
        self._offset = timedelta(0) if start is None else start.astimezone(UTC) - datetime.now(UTC)

    @property
    def is_real(self) -> bool:
        """Whether it tells the real time, and not that of a rehearsal."""
        return not self._offset

    def now(self) -> datetime:
        """Return the current time, aware, in UTC."""
        return datetime.now(UTC) + self._offset


class FrozenClock(Clock):
    """A clock that only moves when it is set."""

    def __init__(self, start: datetime) -> None:
        self._now = start.astimezone(UTC)

    @property
    def is_real(self) -> bool:
        """It never does."""
        return False

    def now(self) -> datetime:
        """Return the time it was last set to."""
        return self._now

    def set(self, moment: datetime) -> None:
        """Set the time."""
        self._now = moment.astimezone(UTC)

    def advance(self, step: timedelta) -> None:
        """Move the time forward by `step`."""
        self._now += step
