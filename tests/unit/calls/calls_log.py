"""Small session logs for the tests of what is learned from calls."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from consolidator.memory.procedures.digest import Digest, PackedDigest
from consolidator.memory.procedures.key_counts import Ints
from consolidator.memory.procedures.key_texts import KeyTexts
from consolidator.memory.procedures.patterns import DigestArrays, MinedPatterns, mine_patterns
from consolidator.memory.procedures.publication_rule import PublicationRule
from consolidator.memory.procedures.tool_profiles import ToolProfile, build_profiles
from consolidator.models.event import Event
from consolidator.models.payload import EventType

NOW = datetime(2026, 1, 5, tzinfo=UTC)
SALT = b"test"


def plain(text: str) -> str:
    """Redact nothing."""
    return text


class Log:
    """Writes a session's events."""

    def __init__(self, session_id: str = "s1") -> None:
        self.session_id = session_id
        self.events: list[Event] = []

    def add(self, kind: EventType, **data: Any) -> Log:
        """Append an event."""
        self.events.append(Event(self.session_id, len(self.events) + 1, kind, data, NOW))
        return self

    def user(self, text: str) -> Log:
        """Append what the user said."""
        return self.add(EventType.USER_MESSAGE, text=text)

    def call(self, tool: str, arguments: Any = None, result: Any = "done", status: str = "ok") -> Log:
        """Append a call and its result."""
        name = f"c{len(self.events)}"
        self.add(EventType.TOOL_CALL, call_id=name, tool=tool, arguments=arguments or {})
        return self.add(EventType.TOOL_RESULT, call_id=name, tool=tool, status=status, content=result)

    def sh(self, command: str, result: str = "", status: str = "ok") -> Log:
        """Append a shell call."""
        return self.call("bash", {"command": command}, result, status)


def fold(events: Iterable[Event], packed: PackedDigest | None = None, *, keep_values: bool = False) -> Digest:
    """Fold events into a digest, going on from a stored one where it is given."""
    digest = Digest(plain, SALT, packed=packed, keep_values=keep_values)
    for event in events:
        digest.feed(event)
    return digest


def arrays(packed: PackedDigest, session_id: str, root_id: str | None = None, last_at: float = 0.0) -> DigestArrays:
    """Return what is summed of a stored digest."""
    parts = (packed.sequence, packed.seqs, packed.keys, packed.counts)
    return DigestArrays.unpack(session_id, root_id or session_id, *parts, last_at=last_at)


def summed(logs: Iterable[Log], min_support: int = 3) -> tuple[MinedPatterns, KeyTexts]:
    """Tally sessions that are roots of their own, with the names of all that they count."""
    packed = {}
    terms: dict[int, str] = {}
    for number, log in enumerate(logs):
        digest = fold(log.events)
        packed[f"session-{number:03}"] = digest.pack()
        terms |= digest.counts.texts
    rule = PublicationRule(min_support)
    return mine_patterns([arrays(one, name) for name, one in packed.items()], rule), KeyTexts.from_dict(terms)


def learned_profiles(logs: Iterable[Log]) -> dict[str, ToolProfile]:
    """Return the profiles of the tools that sessions use."""
    found, names = summed(logs)
    return build_profiles(found.key_sums, names)


def listed(values: Ints) -> list[int]:
    """Return an array as a list."""
    return [int(value) for value in values]
