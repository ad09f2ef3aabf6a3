"""Messages of people, and what became of them."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from consolidator.api.schemas.session import Input


class NewMessage(Input):
    """What a person says."""

    text: str = Field(min_length=1, max_length=1_000_000, examples=["What did I ask you yesterday?"])
    speaker: str | None = Field(default=None, max_length=200, description="who of a group says it")


class SentMessage(BaseModel):
    """A message in the log: whoever drives the session answers it."""

    session_id: str
    seq: int


class StoppedTurn(BaseModel):
    """What was under way in a session, and is to end."""

    session_id: str
    seq: int | None = Field(description="of the stop in the log; null where nothing was under way")


class Verdict(Input):
    """A person's word about a call that waits for approval."""

    session_id: str | None = Field(default=None, max_length=200, description="where calls of several have this id")
    reason: str | None = Field(default=None, max_length=10_000, description="the model is told it")


class Resolution(Input):
    """How a call went of which nobody knows whether it ran."""

    outcome: Literal["ok", "failed"]
    session_id: str | None = Field(default=None, max_length=200, description="where calls of several have this id")


class Decided(BaseModel):
    """The call that was decided about."""

    call_id: str
    session_id: str
