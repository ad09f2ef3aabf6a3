"""What is stored of a session for merges and recall: its digest, errors and turns; and the merged scopes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class DigestRow:
    """One session's digest, a left fold over its calls, in a form that sums over sessions."""

    session_id: str
    agent: str
    project: str | None
    last_at: datetime
    calls: int
    sequence: bytes
    seqs: bytes
    keys: bytes
    counts: bytes
    terms: bytes
    quotes: bytes
    state: bytes
    error_state: bytes
    summary: dict[str, Any]
    version: str
    trace: bytes = b""


@dataclass(frozen=True, slots=True)
class ErrorRecordRow:
    """A failed call as it is stored; `fix_shape` and `merged` are set by the merge that publishes its solution."""

    session_id: str
    seq: int
    agent: str
    project: str | None
    fingerprint: str
    status: str
    record: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ScopeRow:
    """One person's part of a scope; its procedures are merged again when its `version` is above `merged`."""

    agent: str
    project: str
    peer: str
    version: int


@dataclass(frozen=True, slots=True)
class ScopeStateRow:
    """What the last merge of a scope leaves for the next one: a cache, which can be made again from the digests."""

    agent: str
    project: str
    audience: str
    keys: bytes
    groups: bytes
    texts: bytes
    selected: bytes


@dataclass(frozen=True, slots=True)
class EpisodeRow:
    """A row of `episode`: the text of one turn as it is searched, redacted and bounded."""

    id: int
    session_id: str
    seq: int
    scope: int
    role: str
    speaker: str | None
    text: str
    occurred_at: datetime
    announces: bool


@dataclass(frozen=True, slots=True)
class IndexedFactRow:
    """A fact as the index has it, without its agent; compared with the fact, it shows what changed since."""

    id: str
    number: int
    scope: int
    text: str
