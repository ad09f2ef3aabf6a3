"""A session: one conversation of one agent, the head of its log, and what is folded of its past."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Numeric, Text, text
from sqlmodel import Field, SQLModel

from consolidator.models.columns import count, document, flag, maybe_moment, maybe_words, moment, small, words


class SessionTable(SQLModel, table=True):
    """The session's row: its lock, its version and its fence are `head` and `lease_epoch`."""

    __tablename__ = "session"
    __table_args__ = (
        # No index holds what an append changes, so that the row's new version stays on its page (a HOT update).
        Index("session_due", "agent", "id", postgresql_where=text("due")),
        Index(
            "session_late", "agent", "id", postgresql_where=text("greatest(extracted_to, pruned_to) < consolidated_to")
        ),
        Index("session_key_current", "key", unique=True, postgresql_where=text("current")),
        Index("session_parent", "parent_id", postgresql_where=text("parent_id is not null")),
        Index("session_root", "root_id"),
        Index("session_peer", "peer", postgresql_where=text("peer is not null")),
        Index("session_origin", "origin", unique=True),
        Index("session_pending", "id", postgresql_where=text("pending")),
        Index("session_attention", "id", postgresql_where=text("attention <> '{}'::jsonb")),
    )

    id: str = words(primary_key=True)
    origin: str | None = maybe_words()  # "format:name" where it was imported
    key: str | None = maybe_words()  # agent:channel:peer
    current: bool = flag()  # the one session its key names now
    conversation_id: str | None = maybe_words()
    agent: str = words()
    channel: str | None = maybe_words()
    peer: str | None = maybe_words()
    project: str | None = maybe_words()
    parent_id: str | None = maybe_words()  # may name a session whose log was never seen
    parent_seq: int | None = Field(default=None, sa_type=BigInteger)
    root_id: str = words()  # of its lineage: support counts these
    kind: str = words(default="root")  # root | fork | resume | branch | sub-agent
    simulated: bool = flag()  # dry runs and simulations are never evidence
    model: str | None = maybe_words()
    details: dict[str, Any] = document()  # whatever else a foreign log said of the session
    state: dict[str, Any] = document()
    status: str = words(default="open")  # open | ended
    error: str | None = maybe_words()
    head: int = count()  # seq of the last event
    due: bool = flag()  # whether head > consolidated_to
    consolidated_to: int = count()  # every event up to here was learned from or dead-lettered
    extracted_to: int = count()  # every event up to here was read by a model, or was pruned before one could
    pruned_to: int = count()  # every event up to here is gone
    lease_epoch: int = count()  # grows with each harness that takes the session up
    lease_owner: str | None = maybe_words()
    lease_until: datetime | None = maybe_moment()
    settled_to: int = count()  # up to here nothing is open: no call, generation or approval, no message unanswered
    delivered_to: int = count()  # every message up to here reached the session's channel
    pending: bool = flag()  # whether something is open after `settled_to`, for a wake to look at
    hidden: bool = flag()  # a person deleted it: it is ended and not listed; only an erasure removes it
    attention: dict[str, Any] = document()  # call_id -> what a person must say: approval | uncertain
    config: dict[str, Any] = document()  # system prompt, strategy, budgets, tools
    max_cost: Decimal | None = Field(default=None, sa_type=Numeric, nullable=True)
    reserved: Decimal = Field(
        default=Decimal(0), sa_type=Numeric, nullable=False, sa_column_kwargs={"server_default": text("0")}
    )
    turns: int = small()
    input_tokens: int = count()
    output_tokens: int = count()
    cached_tokens: int = count()
    cost: Decimal = Field(
        default=Decimal(0), sa_type=Numeric, nullable=False, sa_column_kwargs={"server_default": text("0")}
    )
    compactions: int = small()
    created_at: datetime = moment()
    last_event_at: datetime = moment()  # ingest time of the last event
    last_occurred_at: datetime = moment()  # when the last thing happened
    expires_at: datetime | None = maybe_moment()


class SessionViewTable(SQLModel, table=True):
    """What a context needs of a session's past without reading it again: folds, which outlive their events."""

    __tablename__ = "session_view"

    session_id: str = Field(sa_column=Column(Text, ForeignKey("session.id", ondelete="CASCADE"), primary_key=True))
    upto: int = count()  # every event up to here is in the summary
    summary: dict[str, Any] = document()  # the fold of tools, errors, approvals, sub-agents
    compaction_seq: int = count()  # of the latest compaction, 0 where there is none
    compaction: dict[str, Any] = document()  # what it says
    scratchpad_seq: int = count()
    scratchpad: str | None = maybe_words()  # the agent's own notes, as they stand
