"""A row of a memory bundle: one statement that another installation believes, and what it rests on there."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Text = Annotated[str, Field(min_length=1, max_length=2000)]
Name = Annotated[str, Field(min_length=1, max_length=1000)]


class MovedQuote(BaseModel):
    """Words that a statement rests on."""

    model_config = ConfigDict(frozen=True)

    text: Text
    at: datetime | None = None
    session: Annotated[str, Field(max_length=200)] = ""


class MovedMemory(BaseModel):
    """A fact, or a lesson, solution or procedure in its own words."""

    model_config = ConfigDict(frozen=True)

    kind: Literal["fact", "observation", "command", "solution", "procedure"]
    agent: Name  # whose memory it is
    project: Name | None = None  # "~" stands for the home directory
    peer: Name | None = None
    subject: Name
    predicate: Name
    value: Text
    sentence: Text
    fact_kind: Literal[
        "preference", "profile", "environment", "project", "decision", "constraint", "relation", "observation"
    ]
    trust: Literal["person", "user", "agent", "tool"]
    single_valued: bool = False
    since: datetime
    sessions: Annotated[int, Field(ge=0, le=10**9)] = 1
    quotes: Annotated[tuple[MovedQuote, ...], Field(max_length=20)] = ()
