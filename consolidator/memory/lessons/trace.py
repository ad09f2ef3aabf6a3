"""Folds a session's events into its trace: what lessons need to know of its calls, redacted and bounded.

A left fold: however a session is cut into nights, the trace is the same. It is kept after the events are pruned.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from consolidator.models.event import Event

TRACE_VERSION = "t1"


class TraceFold:
    """The fold. Feed it a session's events in order of seq, then `pack` it."""

    def __init__(self, redact: Callable[[str], str], packed: bytes = b"") -> None:
        self._redact = redact

    def feed(self, event: Event) -> None:
        """Take the next event."""

    def pack(self) -> bytes:
        """Return the trace with the state of the fold, compressed; `TraceFold` and `Trace.unpack` read it."""
        return b""


@dataclass(frozen=True, slots=True)
class Trace:
    """One session's trace, as lessons are learned from it."""

    session_id: str
    root_id: str  # its lineage root: forks and resumes count once
    agent: str
    calls: tuple[dict[str, Any], ...]

    @classmethod
    def unpack(cls, session_id: str, root_id: str, agent: str, packed: bytes) -> Trace:
        """Read what `TraceFold.pack` returned; a trace of another version holds nothing."""
        return cls(session_id, root_id, agent, ())
