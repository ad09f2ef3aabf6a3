"""What is stored of a session for merges and recall: its digest, errors, turns and facts; and the merged scopes."""

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
class TurnRow:
    """A turn as recall ranks and shows it: redacted and bounded."""

    number: int  # of the document in the index
    session_id: str
    seq: int
    role: str  # user | assistant
    speaker: str | None
    text: str  # of a turn that was found, at most 2,000 characters
    occurred_at: datetime
    announces: bool  # what an agent does next

    @property
    def event(self) -> tuple[str, int]:
        """The session and seq of what was said."""
        return self.session_id, self.seq


@dataclass(frozen=True, slots=True)
class IndexedTurn(TurnRow):
    """A turn as it is stored, with the scope in which it is searched."""

    scope: int


@dataclass(frozen=True, slots=True)
class RecalledFact:
    """A fact as recall ranks and shows it."""

    number: int  # of the document in the index
    id: str
    sentence: str
    kind: str
    confidence: str
    trust: str
    valid_from: datetime
    valid_to: datetime | None
    sessions: int
    steers_succeeded: int = 0  # steers that said it, after which the task succeeded
    steers_failed: int = 0
    recalled: int = 0  # how often
    says_since: bool = True  # whether its words say since when it is true; else `valid_from` is when it was said
    last_used_at: datetime | None = None  # when it was last said or recalled; None where a person stated it
    proofs: str = "[]"  # JSON: [session id, seq, further seqs there] of each candidate that proves it
    searched: str = ""  # the text that is indexed: the sentence, its predicate and kind
    events: tuple[tuple[str, int], ...] = ()  # that prove it, as `proofs` has them

    @property
    def observed(self) -> int:
        """Of an observation: by how many sessions it was shown; one that a session's results prove counts as two."""
        if self.kind != "observation" or self.trust != "agent":
            return 0
        return max(self.sessions, 2) if self.confidence == "explicit" else self.sessions


@dataclass(frozen=True, slots=True)
class IndexedFactRow:
    """A fact as the index has it, without its agent; compared with the fact, it shows what changed since."""

    id: str
    number: int
    scope: int
    text: str
