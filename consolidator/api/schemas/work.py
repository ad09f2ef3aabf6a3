"""Tasks, the scratchpad and seeds of a session."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, Field

from consolidator.api.schemas.session import Input


class NewTask(Input):
    """What a session is about to do."""

    title: str = Field(min_length=1, max_length=2000, examples=["Fix the failing build"])


class TaskEnd(Input):
    """How the open task ended."""

    outcome: Literal["success", "failure", "cancelled"]
    note: str | None = Field(default=None, max_length=4000)
    task_id: str | None = Field(default=None, max_length=200, description="only if this one is open")


class Task(BaseModel):
    """A task of a session."""

    id: str
    title: str | None = Field(description="null for a credential that may not read")
    started_seq: int | None = Field(description="null where its start was pruned")
    started_at: datetime | None
    started_by: str | None = Field(description="a principal")
    ended_seq: int | None
    ended_at: datetime | None
    ended_by: str | None
    outcome: str | None = Field(description="success, failure, cancelled, abandoned or unknown; null while it is open")
    note: str | None
    steers: int | None = Field(description="how often people steered meanwhile; in lists, while its start is there")


class TaskList(BaseModel):
    """The tasks of a session, the latest first."""

    tasks: list[Task]


class ScratchpadChange(Input):
    """A change of a scratchpad."""

    mode: Literal["replace", "append", "edit"] = Field(default="replace")
    text: str = Field(max_length=1_000_000, examples=["- [ ] ask for the invoice"])
    old: str | None = Field(default=None, max_length=1_000_000, description="the one place to edit, as it reads now")
    expected_seq: int | None = Field(default=None, ge=0, le=2**53 - 1, description="only this version; else 409")


class Scratchpad(BaseModel):
    """A session's notes, which stand at the end of each of its contexts."""

    session_id: str
    text: str | None = Field(description="null for a credential that may not read")
    seq: int = Field(description="its version: the event that set it, 0 where none did")
    limit: int = Field(description="characters that it may have")


class StoredSeed(BaseModel):
    """A part of what a session's model saw at the start."""

    ordinal: int
    role: str
    content: str
    is_new: bool
    occurred_at: datetime | None
    details: dict[str, Any]


class SeedList(BaseModel):
    """What a session's model saw at the start, in order."""

    seeds: list[StoredSeed]


class Shown(Input):
    """How far a surface has shown a session."""

    surface: str = Field(min_length=1, max_length=200, examples=["web"])
    cursor: str = Field(
        min_length=1, max_length=40, description="id of the last event of a stream that it showed", examples=["1"]
    )


class Acknowledged(BaseModel):
    """What a surface has shown."""

    session_id: str
    messages: int = Field(description="how many messages the cursor names")
