"""Tasks, the scratchpad and seeds of a session, and calls that wait for a person."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import BaseModel, Field

from consolidator.api.schemas.rows import RowAnswer, list_of, of_row
from consolidator.api.schemas.session import Input
from consolidator.api.schemas.specification import accept_members
from consolidator.llm.tokens import count_tokens
from consolidator.models.seed import SeedRow
from consolidator.runtime.session.scratchpad import Scratchpad as StoredScratchpad
from consolidator.service.sessions.work import TaskRow


class NewTask(Input):
    """What a session is about to do."""

    title: str = Field(min_length=1, max_length=2000, examples=["Fix the failing build"])


class TaskEnd(Input):
    """How the open task ended."""

    outcome: Literal["success", "failure", "cancelled"]
    note: str | None = Field(default=None, max_length=4000)
    task_id: str | None = Field(default=None, max_length=200, description="only if this one is open")


@of_row(TaskRow)
class Task(RowAnswer):
    """A task of a session."""

    title: str | None = Field(description="null for a credential that may not read")


TaskList = list_of("TaskList", "The tasks of a session, the latest first.", tasks=Task)


class ScratchpadChange(Input):
    """A change of a scratchpad."""

    _accept_specification = accept_members({"content": "text"})

    mode: Literal["replace", "append", "edit"] = Field(default="replace")
    text: str = Field(max_length=1_000_000, examples=["- [ ] ask for the invoice"])
    old: str | None = Field(default=None, max_length=1_000_000, description="the one place to edit, as it reads now")
    expected_seq: int | None = Field(default=None, ge=0, le=2**53 - 1, description="only this version; else 409")


@of_row(StoredScratchpad, leave_out="set_at")
class Scratchpad(RowAnswer):
    """A session's notes, which stand at the end of each of its contexts."""

    text: str | None = Field(description="null for a credential that may not read")
    content: str | None = Field(description="the text by its name in the specification")
    last_updated_at: int | None = Field(description="milliseconds since 1970; null for one that is as it began")
    token_count: int = Field(description="of the text: an upper estimate where the vocabulary is not installed")

    @classmethod
    def of(cls, row: StoredScratchpad, *, may_read: bool = True, **own: Any) -> Self:
        """Return a scratchpad as the API shows it; who may not read it is not shown its text."""
        text = row.text if may_read else None
        at = None if row.set_at is None else int(row.set_at.timestamp() * 1000)
        tokens = count_tokens(row.text)
        return super().of(row, text=text, content=text, last_updated_at=at, token_count=tokens, **own)


@of_row(SeedRow, "seed", leave_out="session_id")
class StoredSeed(RowAnswer):
    """A part of what a session's model saw at the start."""


SeedList = list_of("SeedList", "What a session's model saw at the start, in order.", seeds=StoredSeed)


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


class WaitingCall(BaseModel):
    """A call that waits for a person."""

    call_id: str
    session_id: str
    key: str | None
    agent: str
    kind: str = Field(description="approval, or uncertain: nobody knows whether it ran")
    tool: str | None
    arguments: Any = Field(default=None, description="as far as they were noted")


AttentionList = list_of("AttentionList", "Calls that wait for a person.", calls=WaitingCall)
