"""A session: one conversation of one agent, its key, the head and marks of its log, the fold of its past, its steers.

A key says whose conversation it is: one parser for the runtime, for clients and for imports.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Literal

from consolidator.models import ESCAPED

StoredStatus = Literal["open", "ended", "running", "waiting", "pending", "failed"]
SessionOrder = Literal["latest", "created", "runs"]


class PastReader:
    """What is needed of a session's row to read its past."""

    __slots__ = ()
    parent_id: str | None
    past_id: str | None
    kind: str
    base_seq: int
    pruned_to: int
    created_at: datetime
    last_event_at: datetime

    @property
    def may_read_ancestors(self) -> bool:
        """Whether its past may begin in another session's log: `store.log.lineage` knows."""
        return (self.parent_id or self.past_id) is not None and self.kind != "sub-agent"

    @property
    def ingest_bounds(self) -> tuple[datetime, datetime]:
        """Between which times its events were ingested: readers skip the partitions outside."""
        return self.created_at, self.last_event_at


@dataclass(frozen=True, slots=True)
class SessionRow(PastReader):
    """A whole session: identity, lineage, the head and marks of its log, lease, configuration and totals."""

    id: str
    origin: str | None
    key: str | None
    current: bool
    conversation_id: str | None
    agent: str
    memory: str  # whose memory it teaches: see `memory_filter`
    channel: str | None
    peer: str | None
    project: str | None
    parent_id: str | None
    parent_seq: int | None
    past_id: str | None
    past_seq: int | None
    root_id: str
    kind: str
    simulated: bool
    trigger_type: str | None
    trigger_id: str | None
    labels: dict[str, Any]
    model: str | None
    answered_by: str | None
    context_window: int | None
    details: dict[str, Any]
    state: dict[str, Any]
    open_task: str | None
    status: str
    error: str | None
    completed_at: datetime | None
    base_seq: int
    head: int
    due: bool
    consolidated_to: int
    extracted_to: int
    awaits_model: bool
    pruned_to: int
    lease_epoch: int
    lease_owner: str | None
    lease_until: datetime | None
    settled_to: int
    delivered_to: int
    pending: bool
    hidden: bool
    attention: dict[str, Any]
    config: dict[str, Any]
    max_cost: Decimal | None
    reserved: Decimal
    turns: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cost: Decimal
    compactions: int
    created_at: datetime
    last_event_at: datetime
    last_occurred_at: datetime
    last_day: date
    expires_at: datetime | None
    unchained_to: int
    chain_hash: bytes | None
    pruned_hash: bytes | None
    recorded_by: str | None
    followed_until: datetime | None
    wake_failures: int
    wake_after: datetime | None

    @property
    def is_driven_elsewhere(self) -> bool:
        """Whether the log is the record of another harness (imported, or recorded by a client): never driven here."""
        return self.origin is not None or self.recorded_by is not None

    @property
    def channel_name(self) -> str:
        """The name of the channel that its messages are sent to."""
        return self.channel or "direct"

    @property
    def is_dry_run(self) -> bool:
        """Whether tools with side effects do not run in it."""
        return self.simulated and not self.config.get("live_tools")

    @property
    def is_whole(self) -> bool:
        """Whether none of its own events is pruned."""
        return self.pruned_to <= self.base_seq


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFilter:
    """Which sessions to list; None selects all."""

    agent: str | None = None
    project: str | None = None  # a path, or the last part of it
    peer: str | None = None
    status: StoredStatus | None = None
    key: str | None = None
    conversation: str | None = None
    trigger_type: str | None = None
    trigger_id: str | None = None
    labels: Mapping[str, Any] | None = None  # all of these
    parent: str | None = None  # its id
    root: str | None = None  # of its lineage: the id
    kind: str | None = None
    since: datetime | None = None  # something happened in it since
    hidden: bool = False  # also those that a person deleted


@dataclass(frozen=True, slots=True)
class SessionCursor:
    """The last session of a page."""

    at: datetime  # when the last thing happened in it, or when it was created, as the order is
    id: str


SeedRole = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class Seed:
    """One entry of what a session starts with: the rendered system prompt, or a message of an earlier thread."""

    role: SeedRole
    content: str
    is_new: bool = False  # no earlier session of its thread began with it
    occurred_at: datetime | None = None
    details: dict[str, Any] | None = None  # `speaker` (who said it), and whatever else the caller wants kept


@dataclass(frozen=True, slots=True)
class SeedRow:
    """A stored seed."""

    session_id: str
    ordinal: int
    role: str
    content: str = field(metadata=ESCAPED)
    is_new: bool
    occurred_at: datetime | None
    details: dict[str, Any]


SteerOutcome = Literal["succeeded", "failed", "unknown"]


@dataclass(frozen=True, slots=True)
class SteerRow:
    """A message with which a person steered; it outlives its event."""

    session_id: str
    seq: int
    task: str | None  # a hash of the id of the task that was open


@dataclass(frozen=True, slots=True)
class TaskOutcomeRow:
    """How a task ended, in the log of one session; it outlives its event."""

    session_id: str
    seq: int
    task: str  # a hash of its id
    outcome: SteerOutcome


@dataclass(frozen=True, slots=True)
class SteerCounts:
    """How many steers said something, and what became of the tasks that they were given in."""

    steers: int = 0
    succeeded: int = 0
    failed: int = 0  # of the rest nobody knows

    def __str__(self) -> str:
        times = "once" if self.steers == 1 else f"{self.steers} times"
        unknown = self.steers - self.succeeded - self.failed
        counts = ((self.succeeded, "succeeded"), (self.failed, "failed"), (unknown, "without a known outcome"))
        return f"steered {times}; the task after it: " + ", ".join(f"{count} {how}" for count, how in counts if count)


# Controls, separators of lines, and what turns the direction of writing: two keys that look alike must be one.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
_GROUP_KINDS = frozenset({"group", "supergroup", "channel", "room", "thread"})


@dataclass(frozen=True, slots=True)
class SessionKey:
    """The owner of a session: `agent:channel:peer`, or `agent:<id>:<channel>:<kind>:<peer>` and its shorter forms."""

    agent: str
    channel: str | None = None
    peer: str | None = None

    @classmethod
    def parse(cls, key: str) -> SessionKey:
        """Parse a key. A peer that is not a single person keeps its kind, as in "group:ops"."""
        parts = key.split(":")
        if parts[0] == "agent" and len(parts) >= 3 and (len(parts) != 3 or parts[2] == "main"):
            agent, rest = parts[1], parts[2:]
            if rest == ["main"]:  # all direct messages share one session
                return cls(agent)
            if rest[0] == "direct":
                return cls(agent, None, ":".join(rest[1:]))
            if len(rest) == 2:
                return cls(agent, rest[0], rest[1])
            return cls(agent, rest[0], ":".join(rest[2:] if rest[1] in ("direct", "dm") else rest[1:]))
        if len(parts) >= 3:
            return cls(parts[0], parts[1], ":".join(parts[2:]))
        return cls(parts[0], parts[1] if len(parts) == 2 else None)


def has_controls(name: str) -> bool:
    """Tell whether a key, or a name in one, has characters that nobody sees and that change what is around them."""
    return _CONTROLS.search(name) is not None


def is_group(peer: str) -> bool:
    """Tell whether a key's peer is several people, by its kind, as in "group:ops"; one that does not say is one."""
    kind, separator, name = peer.partition(":")
    return kind in _GROUP_KINDS and bool(separator and name)
