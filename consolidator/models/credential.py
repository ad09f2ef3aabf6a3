"""Credentials for HTTP and MCP, and the requests that were answered."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

UNDER_WAY = 102  # the status of a request whose work has begun; its answer is the name of the process, see `has_ended`


@dataclass(frozen=True, slots=True)
class CredentialRow:
    """A credential; its token is not kept."""

    name: str
    scopes: list[str]
    agent: str | None
    project: str | None
    peer: str | None
    created_at: datetime
    revoked_at: datetime | None
    expires_at: datetime | None

    def status(self, now: datetime) -> Literal["valid", "revoked", "expired"]:
        """Tell whether its token is taken, or why not."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "valid"


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
