"""What recall finds: turns of a session, facts with the events that prove them, and the channels that found them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

EventRef = tuple[str, int]  # session and seq


@dataclass(frozen=True, slots=True)
class RecalledTurn:
    """A turn that a channel found."""

    number: int  # of the document in the index
    event: EventRef
    role: str  # user | assistant
    speaker: str | None
    text: str
    occurred_at: datetime


@dataclass(frozen=True, slots=True)
class RecalledFact:
    """A fact that a channel found, with the events that prove it."""

    number: int  # of the document in the index
    id: str
    sentence: str
    trust: str
    valid_from: datetime
    events: tuple[EventRef, ...]
    times_recalled: int = 0
    last_used_at: datetime | None = None  # when it was last said or recalled; None where a person stated it
    valid_to: datetime | None = None
    steers_succeeded: int = 0  # steers that said it, after which the task succeeded
    steers_failed: int = 0
    searched: str = ""  # the text that is indexed: the sentence, its predicate and kind
    observed: int = 0  # of an observation: by how many sessions it was shown since it was last said to be over
    says_since: bool = True  # whether its words say since when it is true; else `valid_from` is when it was said


@dataclass(frozen=True, slots=True)
class Channel:
    """What one search found: documents of a kind, scored between 0 and 1, and what the search counts for."""

    kind: str  # turn | fact
    scores: Mapping[int, float]  # by document number; the best has 1
    weight: float = 1.0
    name: str = ""  # of the search, for whoever asks why
    cosine: float = 0.0  # of the document nearest to the query's vector; 0 for a search by words
