"""Builds small session logs, and folds and mines them, for the tests of what is learned from calls."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from consolidator.memory.procedures.digest import Digest, PackedDigest
from consolidator.memory.procedures.key_texts import KeyTexts
from consolidator.memory.procedures.patterns import DigestArrays, MinedPatterns, mine_patterns
from consolidator.memory.procedures.publication_rule import PublicationRule
from consolidator.memory.procedures.tool_profiles import ToolProfile, build_profiles
from consolidator.models.event import Event
from consolidator.models.payload import EventType

NOW = datetime(2026, 1, 5, tzinfo=UTC)
SALT = b"test"


def redact_nothing(text: str) -> str:
    """Return the text as it is."""
    return text


class SessionLog:
    """Writes a session's events; its methods can be chained."""

    def __init__(self, session_id: str = "s1") -> None:
        self.session_id = session_id
        self.events: list[Event] = []

    def add(self, kind: EventType, **data: Any) -> SessionLog:
        """Append an event."""
        self.events.append(Event(self.session_id, len(self.events) + 1, kind, data, NOW))
        return self

    def user(self, text: str) -> SessionLog:
        """Append what the user said."""
        return self.add(EventType.USER_MESSAGE, text=text)

    def call(self, tool: str, arguments: Any = None, result: Any = "done", status: str = "ok") -> SessionLog:
        """Append a call and its result."""
        name = f"c{len(self.events)}"
        self.add(EventType.TOOL_CALL, call_id=name, tool=tool, arguments=arguments or {})
        return self.add(EventType.TOOL_RESULT, call_id=name, tool=tool, status=status, content=result)

    def shell(self, command: str, result: str = "", status: str = "ok") -> SessionLog:
        """Append a shell call."""
        return self.call("bash", {"command": command}, result, status)


def fold_events(events: Iterable[Event], packed: PackedDigest | None = None, *, keep_values: bool = False) -> Digest:
    """Fold events into a digest, continuing from a stored one if any."""
    digest = Digest(redact_nothing, SALT, packed=packed, keep_values=keep_values)
    for event in events:
        digest.feed(event)
    return digest


def unpack_arrays(
    packed: PackedDigest, session_id: str, root_id: str | None = None, last_at: float = 0.0
) -> DigestArrays:
    """Return the arrays of a stored digest."""
    parts = (packed.sequence, packed.seqs, packed.keys, packed.counts)
    return DigestArrays.unpack(session_id, root_id or session_id, parts, last_at)


def mine_logs(logs: Iterable[SessionLog], min_support: int = 3) -> tuple[MinedPatterns, KeyTexts]:
    """Mine sessions, each its own root; return the patterns and the texts of all keys."""
    digests = []
    texts: dict[int, str] = {}
    for number, log in enumerate(logs):
        digest = fold_events(log.events)
        digests.append(unpack_arrays(digest.pack(), f"session-{number:03}"))
        texts |= digest.counts.texts
    return mine_patterns(digests, PublicationRule(min_support)), KeyTexts.from_dict(texts)


def learn_profiles(logs: Iterable[SessionLog]) -> dict[str, ToolProfile]:
    """Return the profiles of the tools that sessions use."""
    patterns, texts = mine_logs(logs)
    return build_profiles(patterns.key_sums, texts)
