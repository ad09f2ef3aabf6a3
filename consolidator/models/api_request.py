"""Answers to requests of the HTTP API that came with a key, so that a repeated one is answered and not done again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

UNDER_WAY = 102  # the status of a request whose work has begun; its answer is the name of the process, see `has_ended`


@dataclass(frozen=True, slots=True)
class ApiRequestRow:
    """A request that was done, and its answer; or one that is under way."""

    credential: str
    key: str
    request_hash: bytes
    status: int
    answer: str
    location: str | None
    session_id: str | None
    created_at: datetime
