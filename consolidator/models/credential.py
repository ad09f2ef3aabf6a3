"""Credentials: who else may ask memory, record what an agent did or speak for people, and what each is narrowed to."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal


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
