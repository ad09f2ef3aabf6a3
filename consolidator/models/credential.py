"""Credentials: who else may ask memory, record what an agent did or speak for people, and what each is narrowed to."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from sqlalchemy import Index, LargeBinary
from sqlmodel import Field, SQLModel

from consolidator.models.columns import (
    nullable_text_column,
    nullable_timestamp_column,
    text_array_column,
    text_column,
    timestamp_column,
)


@dataclass(frozen=True, slots=True)
class CredentialRow:
    """A credential; its token is not kept."""

    name: str
    scopes: list[str]  # of read | record | write | admin
    agent: str | None  # null: any
    project: str | None
    peer: str | None
    created_at: datetime
    revoked_at: datetime | None
    expires_at: datetime | None  # null: never

    def status(self, now: datetime) -> Literal["valid", "revoked", "expired"]:
        """Tell whether its token is taken, or why not."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "valid"


class CredentialTable(SQLModel, table=True):
    """One row for each token that was ever made; a revoked or expired one stays, so that its name is not used again."""

    __tablename__ = "credential"
    __table_args__ = (Index("credential_token", "token_hash", unique=True),)

    name: str = text_column(primary_key=True)
    token_hash: bytes = Field(sa_type=LargeBinary, nullable=False)  # SHA-256
    scopes: list[str] = text_array_column()
    agent: str | None = nullable_text_column()
    project: str | None = nullable_text_column()
    peer: str | None = nullable_text_column()
    created_at: datetime = timestamp_column()
    revoked_at: datetime | None = nullable_timestamp_column()
    expires_at: datetime | None = nullable_timestamp_column()
