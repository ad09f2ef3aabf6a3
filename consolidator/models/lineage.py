"""Lineage: which part of which log a session reads as its own past. Pure: ranges and positions, no events.

A *position* is a place in a session's whole past, in the session's own numbering: its own events stand at their seq.
A child that the runtime creates continues its parent's numbering, so that a position is a seq everywhere in its
lineage. An imported fork numbers its own events from 1; what it reads of its ancestors stands before, at positions of 0
and below, by the `shift` of the range.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from consolidator.models import ESCAPED

MAX_RANGES = 1000  # ancestors that one session may read
_ANY_TIME = (datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC))


@dataclass(frozen=True, slots=True)
class LineageRange:
    """Events of one session with after_seq < seq <= upto_seq, which stand at position seq + shift."""

    session_id: str
    after_seq: int
    upto_seq: int
    shift: int = 0
    bounds: tuple[datetime, datetime] = _ANY_TIME  # between which its events were ingested
    pruned_to: int | None = 0  # seq up to which its events are gone; None if the session itself is

    @property
    def after(self) -> int:
        """The position before its first event."""
        return self.after_seq + self.shift

    @property
    def upto(self) -> int:
        """The position of its last event."""
        return self.upto_seq + self.shift

    @property
    def readable_after(self) -> int:
        """The position after which all of its events can be read."""
        if self.pruned_to is None:
            return self.upto
        return min(max(self.after_seq, self.pruned_to), self.upto_seq) + self.shift

    def clip(self, after: int, upto: int) -> LineageRange:
        """Return the part of it with after < position <= upto."""
        first, last = max(self.after_seq, after - self.shift), min(self.upto_seq, upto - self.shift)
        return replace(self, after_seq=first, upto_seq=max(first, last))


@dataclass(frozen=True, slots=True)
class Lineage:
    """A session's whole past: what it reads of its ancestors, the farthest first, and its own log."""

    own: LineageRange  # its own log, without an end: `upto_seq` is beyond any seq
    ancestors: tuple[LineageRange, ...] = ()

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self.own.session_id

    @property
    def ranges(self) -> tuple[LineageRange, ...]:
        """All ranges, in order of position."""
        return (*self.ancestors, self.own)

    @property
    def begins_after(self) -> int:
        """The position before the first event that there ever was."""
        return self.ranges[0].after

    @property
    def readable_after(self) -> int:
        """The position after which everything can be read: before it, something is pruned or gone."""
        holes = [part.readable_after for part in self.ranges if part.readable_after > part.after]
        return max(holes, default=self.begins_after)

    @property
    def is_truncated(self) -> bool:
        """Whether a part of the past cannot be read any more."""
        return self.readable_after > self.begins_after

    def slice(self, after: int, upto: int) -> list[LineageRange]:
        """Return the parts with after < position <= upto, in order; parts without events are left out."""
        parts = [part.clip(after, upto) for part in self.ranges]
        return [part for part in parts if part.upto_seq > part.after_seq]

    def locate(self, position: int) -> LineageRange | None:
        """Return the range that holds the event at a position; None where there is none."""
        return next((part for part in self.ranges if part.after < position <= part.upto), None)

    def inherit(self, point: int) -> tuple[LineageRange, ...]:
        """Return what a child reads that leaves this past after the event at `point`."""
        return tuple(self.slice(self.begins_after, point))


def own_range(
    session_id: str, *, base_seq: int, pruned_to: int = 0, bounds: tuple[datetime, datetime] = _ANY_TIME
) -> LineageRange:
    """Return a session's own log as a range: its own events are those after `base_seq`."""
    return LineageRange(session_id, base_seq, 2**62, 0, bounds, max(base_seq, pruned_to))


@dataclass(frozen=True, slots=True)
class CheckpointRow:
    """A checkpoint as it is stored."""

    id: str
    session_id: str
    seq: int
    label: str | None = field(metadata=ESCAPED)
    metadata: dict[str, Any]
    delta: dict[str, Any]
    fold: dict[str, Any]
    created_at: datetime
    expires_at: datetime | None

    def has_expired(self, now: datetime) -> bool:
        """Whether nothing can be restored from it any more."""
        return self.expires_at is not None and self.expires_at <= now
