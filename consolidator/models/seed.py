"""Seeds: what a session's model saw at the start, in order, before anything was logged. The nights do not read them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import Column, ForeignKey, Text
from sqlmodel import Field, SQLModel

from consolidator.models.columns import (
    boolean_column,
    json_object_column,
    nullable_timestamp_column,
    text_column,
)

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
    ordinal: int  # from 0
    role: str
    content: str
    is_new: bool
    occurred_at: datetime | None
    details: dict[str, Any]


class SeedTable(SQLModel, table=True):
    """Seeds of sessions; they go with their session."""

    __tablename__ = "seed"

    session_id: str = Field(sa_column=Column(Text, ForeignKey("session.id", ondelete="CASCADE"), primary_key=True))
    ordinal: int = Field(primary_key=True, nullable=False)
    role: str = text_column()
    content: str = text_column()
    is_new: bool = boolean_column()
    occurred_at: datetime | None = nullable_timestamp_column()
    details: dict[str, Any] = json_object_column()
