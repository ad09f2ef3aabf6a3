"""A session: one conversation of one agent, the head and marks of its log, and the fold of its past."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import BigInteger, Column, Computed, Date, ForeignKey, Index, Numeric, Text, text
from sqlmodel import Field, SQLModel

from consolidator.models.columns import (
    bigint_column,
    boolean_column,
    integer_column,
    json_object_column,
    nullable_bytes_column,
    nullable_integer_column,
    nullable_text_column,
    nullable_timestamp_column,
    text_column,
    timestamp_column,
)


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A whole session: identity, lineage, the head and marks of its log, lease, configuration and totals."""

    id: str
    origin: str | None  # "format:name" if it was imported
    key: str | None  # agent:channel:peer
    current: bool  # whether it is the one session that its key names now
    conversation_id: str | None
    agent: str
    channel: str | None
    peer: str | None
    project: str | None
    parent_id: str | None  # may name a session whose log was never seen
    parent_seq: int | None  # the event of the parent at which it began
    past_id: str | None  # whose log holds what came before its own events, where that is not its parent's
    past_seq: int | None  # the event of that log after which its own come
    root_id: str  # the root of its lineage; support counts lineages
    kind: str  # root | fork | resume | branch | sub-agent
    simulated: bool  # dry runs and simulations are never evidence
    trigger_type: str | None  # what started it: chat | message | email | cron | api, or another word
    trigger_id: str | None  # of that: the message, the mail, the job
    labels: dict[str, Any]  # names by which its sessions are found: space_id, mailbox_id, anything
    model: str | None  # or `auto`
    context_window: int | None  # of the model, in tokens, where it is known or was named
    details: dict[str, Any]  # whatever else a foreign log said about the session
    state: dict[str, Any]  # the sum of the tools' state changes
    open_task: str | None  # id of the task that is open
    status: str  # open | ended
    error: str | None  # in which its last turn ended
    completed_at: datetime | None  # when it ended
    base_seq: int  # its own events come after it: the point of the parent, whose numbering a child continues
    head: int  # seq of the last event
    due: bool  # whether head > consolidated_to
    consolidated_to: int  # the watermark: every event up to here was learned from or dead-lettered
    extracted_to: int  # every event up to here was read by a model, or was pruned before one could
    awaits_model: bool  # events after it are learned from by rules, and not stamped until the model has read them
    pruned_to: int  # every own event up to here is gone, or there never was one
    lease_epoch: int  # grows with each harness that acquires the session
    lease_owner: str | None
    lease_until: datetime | None
    settled_to: int  # nothing up to here is open: no call, generation, approval or unanswered message
    delivered_to: int  # every message up to here reached the session's channel
    pending: bool  # whether a wake must look at something after `settled_to`
    hidden: bool  # a person deleted it: ended and not listed; only an erasure removes it
    attention: dict[str, Any]  # call_id -> what a person must decide; its kind is approval | uncertain
    config: dict[str, Any]  # system prompt, strategy, budgets, tools
    max_cost: Decimal | None  # USD
    reserved: Decimal  # USD set aside for calls that are not settled
    turns: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cost: Decimal  # USD of settled calls
    compactions: int
    created_at: datetime
    last_event_at: datetime  # ingest time of the last event
    last_occurred_at: datetime  # when the last thing happened
    last_day: date  # of that, in UTC: what lists of the latest sessions are read by
    expires_at: datetime | None  # retention ends it after this; a person's message moves it on
    unchained_to: int  # events up to here were written before events were hash-chained
    chain_hash: bytes | None  # of the last event; null before the first one
    pruned_hash: bytes | None  # of the event at `pruned_to`, or what a child's chain begins with
    recorded_by: str | None  # the client or import that writes it, where the runtime does not: it is never driven
    followed_until: datetime | None  # until then, by the database's clock, writers notify those who follow the session
    wake_failures: int  # wakes in a row that did not come to an end
    wake_after: datetime | None  # a driver does not wake it before

    @property
    def is_driven_elsewhere(self) -> bool:
        """Whether the log is the record of another harness (imported, or recorded by a client): never driven here."""
        return self.origin is not None or self.recorded_by is not None

    @property
    def is_dry_run(self) -> bool:
        """Whether tools with side effects do not run in it."""
        return self.simulated and not self.config.get("live_tools")

    @property
    def is_whole(self) -> bool:
        """Whether none of its own events is pruned."""
        return self.pruned_to <= self.base_seq

    @property
    def may_read_ancestors(self) -> bool:
        """Whether its past may begin in another session's log: `store.log.lineage` knows."""
        return (self.parent_id or self.past_id) is not None and self.kind != "sub-agent"

    @property
    def ingest_bounds(self) -> tuple[datetime, datetime]:
        """Between which times its events were ingested: readers skip the partitions outside."""
        return self.created_at, self.last_event_at


class SessionTable(SQLModel, table=True):
    """The session's row: its lock, its version and its fence are `head` and `lease_epoch`."""

    __tablename__ = "session"
    __table_args__ = (
        # No index covers a column that an append changes, so that appends stay HOT updates, but for the first of a day.
        Index("session_last_day", text("last_day desc")),
        Index("session_due", "agent", "id", postgresql_where=text("due")),
        Index(
            "session_late", "agent", "id", postgresql_where=text("greatest(extracted_to, pruned_to) < consolidated_to")
        ),
        Index("session_key_current", "key", unique=True, postgresql_where=text("current and recorded_by is null")),
        Index(
            "session_key_recorded",
            "recorded_by",
            "key",
            unique=True,
            postgresql_where=text("current and recorded_by is not null"),
        ),
        Index("session_awaits_model", "id", postgresql_where=text("awaits_model")),
        Index("session_parent", "parent_id", postgresql_where=text("parent_id is not null")),
        Index("session_past", "past_id", postgresql_where=text("past_id is not null")),
        Index("session_unfinished", "parent_id", postgresql_where=text("config ? 'unfinished'::text")),
        Index("session_root", "root_id"),
        Index("session_project", "project", "agent", "peer", postgresql_where=text("project is not null")),
        Index("session_peer", "peer", postgresql_where=text("peer is not null")),
        Index("session_origin", "origin", unique=True),
        Index("session_pending", "id", postgresql_where=text("pending")),
        Index("session_created", "created_at", "id"),
        Index("session_conversation", "conversation_id", postgresql_where=text("conversation_id is not null")),
        Index("session_runs", "key", "created_at", postgresql_where=text("key is not null")),
        Index("session_trigger", "trigger_type", "trigger_id", postgresql_where=text("trigger_type is not null")),
        Index(
            "session_labels",
            "labels",
            postgresql_using="gin",
            postgresql_ops={"labels": "jsonb_path_ops"},
            postgresql_where=text("labels <> '{}'::jsonb"),
        ),
        Index(
            "session_expires", "expires_at", postgresql_where=text("expires_at is not null and status = 'open'::text")
        ),
        Index("session_attention", "id", postgresql_where=text("attention <> '{}'::jsonb")),
    )

    id: str = text_column(primary_key=True)
    origin: str | None = nullable_text_column()
    key: str | None = nullable_text_column()
    current: bool = boolean_column()
    conversation_id: str | None = nullable_text_column()
    agent: str = text_column()
    channel: str | None = nullable_text_column()
    peer: str | None = nullable_text_column()
    project: str | None = nullable_text_column()
    parent_id: str | None = nullable_text_column()
    parent_seq: int | None = Field(default=None, sa_type=BigInteger)
    past_id: str | None = nullable_text_column()
    past_seq: int | None = Field(default=None, sa_type=BigInteger)
    root_id: str = text_column()
    kind: str = text_column(default="root")
    simulated: bool = boolean_column()
    trigger_type: str | None = nullable_text_column()
    trigger_id: str | None = nullable_text_column()
    labels: dict[str, Any] = json_object_column()
    model: str | None = nullable_text_column()
    context_window: int | None = nullable_integer_column()
    details: dict[str, Any] = json_object_column()
    state: dict[str, Any] = json_object_column()
    open_task: str | None = nullable_text_column()
    status: str = text_column(default="open")
    error: str | None = nullable_text_column()
    completed_at: datetime | None = nullable_timestamp_column()
    base_seq: int = bigint_column()
    head: int = bigint_column()
    due: bool = boolean_column()
    consolidated_to: int = bigint_column()
    extracted_to: int = bigint_column()
    awaits_model: bool = boolean_column()
    pruned_to: int = bigint_column()
    lease_epoch: int = bigint_column()
    lease_owner: str | None = nullable_text_column()
    lease_until: datetime | None = nullable_timestamp_column()
    settled_to: int = bigint_column()
    delivered_to: int = bigint_column()
    pending: bool = boolean_column()
    hidden: bool = boolean_column()
    attention: dict[str, Any] = json_object_column()
    config: dict[str, Any] = json_object_column()
    max_cost: Decimal | None = Field(default=None, sa_type=Numeric, nullable=True)
    reserved: Decimal = Field(
        default=Decimal(0), sa_type=Numeric, nullable=False, sa_column_kwargs={"server_default": text("0")}
    )
    turns: int = integer_column()
    input_tokens: int = bigint_column()
    output_tokens: int = bigint_column()
    cached_tokens: int = bigint_column()
    cost: Decimal = Field(
        default=Decimal(0), sa_type=Numeric, nullable=False, sa_column_kwargs={"server_default": text("0")}
    )
    compactions: int = integer_column()
    created_at: datetime = timestamp_column()
    last_event_at: datetime = timestamp_column()
    last_occurred_at: datetime = timestamp_column()
    last_day: date = Field(
        sa_column=Column(Date, Computed("(last_occurred_at at time zone 'UTC')::date", persisted=True), nullable=False)
    )
    expires_at: datetime | None = nullable_timestamp_column()
    unchained_to: int = bigint_column()
    chain_hash: bytes | None = nullable_bytes_column()
    pruned_hash: bytes | None = nullable_bytes_column()
    recorded_by: str | None = nullable_text_column()
    followed_until: datetime | None = nullable_timestamp_column()
    wake_failures: int = integer_column()
    wake_after: datetime | None = nullable_timestamp_column()


class SessionViewTable(SQLModel, table=True):
    """The fold of a session's past for its contexts: it outlives its events. See `SessionView` for the columns."""

    __tablename__ = "session_view"

    session_id: str = Field(sa_column=Column(Text, ForeignKey("session.id", ondelete="CASCADE"), primary_key=True))
    upto: int = bigint_column()  # every event up to here is in the summary
    summary: dict[str, Any] = json_object_column()  # the fold of tools, errors, approvals, sub-agents
    compaction_seq: int = bigint_column()  # of the latest compaction, 0 where there is none
    compaction: dict[str, Any] = json_object_column()  # what it says
    scratchpad_seq: int = bigint_column()
    scratchpad: str | None = nullable_text_column()  # the agent's own notes, as they stand
