"""A session with all that a surface needs to show it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from consolidator.api.schemas.child import Checkpoint
from consolidator.api.schemas.event import Event
from consolidator.api.schemas.rows import RowAnswer
from consolidator.api.schemas.session import Session
from consolidator.api.schemas.work import Scratchpad, StoredSeed, Task
from consolidator.runtime.session import hydration


class OpenCall(RowAnswer):
    """A call without a result."""

    seq: int
    call_id: str
    tool: str
    arguments: Any
    message_id: str | None
    state: Literal["maybe_ran", "waiting", "granted", "denied", "not_started"] = Field(
        description="waiting: for a person's decision"
    )


class SubAgentOf(BaseModel):
    """A sub-agent of a session."""

    session_id: str
    model: str | None
    status: str
    cost_usd: str


class WholeSession(Session):
    """A session with its checkpoints, scratchpad and sub-agents."""

    checkpoints: list[Checkpoint] = Field(description="the latest 100")
    scratchpad: Scratchpad
    sub_agents: list[SubAgentOf] = Field(description="of the newest 100 children")

    @classmethod
    def of(cls, found: hydration.HydratedSession, session: Session) -> WholeSession:  # type: ignore[override]
        """Return a hydrated session as the API shows it, without its messages."""
        return cls.model_construct(
            **session.__dict__,
            checkpoints=[Checkpoint.of(row) for row in found.checkpoints],
            scratchpad=Scratchpad.of(found.scratchpad),
            sub_agents=[
                SubAgentOf(session_id=row.id, model=row.model, status=row.status, cost_usd=str(row.cost))
                for row in found.children
                if row.kind == "sub-agent"
            ],
        )


class HydratedSession(BaseModel):
    """A session at one moment: what it is, what was said, and what is open."""

    session: Session = Field(description="with its totals, and the calls that wait for a person")
    seeds: list[StoredSeed] = Field(description="the system prompt, then the latest 100 of the earlier thread")
    seed_count: int = Field(description="how many there are")
    messages: list[Event] = Field(
        description="what was said and done, in order: messages, answers, calls, results, decisions, errors"
    )
    next_cursor: str | None = Field(description="for the messages before these; null where there are none")
    state: dict[str, Any]
    scratchpad: Scratchpad
    open_calls: list[OpenCall]
    answering: str | None = Field(description="id of the message that is being generated")
    open_task: Task | None
    children: list[Session] = Field(description="the newest 100: forks, restores, branches and sub-agents")
    checkpoints: list[Checkpoint] = Field(description="the latest 100")
    last_event_id: str = Field(description="to follow from here: Last-Event-ID of a stream of its events")

    @classmethod
    def of(
        cls, found: hydration.HydratedSession, session: Session, children: list[Session], next_cursor: str | None
    ) -> HydratedSession:
        """Return a hydrated session as the API shows it."""
        task = found.open_task
        return cls.model_construct(
            session=session,
            seeds=[StoredSeed.of(row) for row in found.seeds],
            seed_count=found.seed_count,
            messages=[Event.of(event) for event in found.messages],
            next_cursor=next_cursor,
            state=found.session.state,
            scratchpad=Scratchpad.of(found.scratchpad),
            open_calls=[OpenCall.of(each) for each in found.open_calls],
            answering=found.answering,
            open_task=None if task is None else Task.of(task),
            children=children,
            checkpoints=[Checkpoint.of(row) for row in found.checkpoints],
            last_event_id=str(found.session.head),
        )
