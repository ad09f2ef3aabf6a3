"""Calls that wait for a person."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field


class WaitingCall(BaseModel):
    """A call that waits for a person."""

    call_id: str
    session_id: str
    key: str | None
    agent: str
    kind: str = Field(description="approval, or uncertain: nobody knows whether it ran")
    tool: str | None
    arguments: Any = Field(default=None, description="as far as they were noted")


class AttentionList(BaseModel):
    """Calls that wait for a person."""

    calls: list[WaitingCall]
