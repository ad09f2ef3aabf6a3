"""Calls of models, their answers, and the batches of questions that a provider answers at half the price."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import Index, Numeric, text
from sqlmodel import Field, SQLModel

from consolidator.models.columns import (
    bigint_column,
    json_object_column,
    nullable_text_column,
    nullable_timestamp_column,
    text_column,
    timestamp_column,
)


@dataclass(frozen=True, slots=True)
class ModelBatchRow:
    """A row of `model_batch`: questions that were submitted together."""

    id: str  # the provider's, once it has given one
    status: str  # submitting, the provider's status, or how it ended: collected | refused | lost | overdue
    submitted_at: datetime
    due_at: datetime  # when its unanswered questions are asked without a batch
    collected_at: datetime | None


@dataclass(frozen=True, slots=True)
class ModelQuestionRow:
    """A row of `model_question`: one question that goes through a batch."""

    key: str  # a hash of the question
    purpose: str
    model: str
    body: dict[str, Any]  # the provider's request; {} once it is answered or failed
    run_id: str
    session_id: str | None
    call_id: str  # the call that reserved for it
    batch_id: str | None
    status: str  # queued | submitted | answered | failed
    created_at: datetime


def _dollars() -> Any:
    return Field(default=None, sa_type=Numeric, nullable=True)


class ModelAnswerTable(SQLModel, table=True):
    """Answers by the hash of their question, so that no retry pays for one twice."""

    __tablename__ = "model_answer"
    __table_args__ = (Index("model_answer_session", "session_id", postgresql_where=text("session_id is not null")),)

    key: str = text_column(primary_key=True)
    purpose: str = text_column()
    model: str = text_column()
    text: str = text_column()
    run_id: str = text_column()
    created_at: datetime = timestamp_column()
    session_id: str | None = nullable_text_column()  # whose words it quotes; None in rows from before this column


class ModelCallTable(SQLModel, table=True):
    """Calls: reserved before they are made, settled after it; a call that is never settled has cost its reserve."""

    __tablename__ = "model_call"
    __table_args__ = (
        Index("model_call_run", "run_id"),
        Index("model_call_session", "session_id", postgresql_where=text("session_id is not null")),
    )

    id: str = text_column(primary_key=True)
    run_id: str = text_column()
    session_id: str | None = nullable_text_column()
    purpose: str = text_column()
    model: str = text_column()
    key: str = text_column()
    reserved_tokens: int = bigint_column()
    reserved_cost: Decimal | None = _dollars()
    input_tokens: int = bigint_column()
    cached_tokens: int = bigint_column()
    output_tokens: int = bigint_column()
    cost: Decimal | None = _dollars()
    outcome: str | None = nullable_text_column()
    created_at: datetime = timestamp_column()
    settled_at: datetime | None = nullable_timestamp_column()


class ModelBatchTable(SQLModel, table=True):
    """Batches."""

    __tablename__ = "model_batch"
    __table_args__ = (Index("model_batch_open", "id", postgresql_where=text("collected_at is null")),)

    id: str = text_column(primary_key=True)
    status: str = text_column()
    submitted_at: datetime = timestamp_column()
    due_at: datetime = timestamp_column()
    collected_at: datetime | None = nullable_timestamp_column()


class ModelQuestionTable(SQLModel, table=True):
    """Questions that go through a batch."""

    __tablename__ = "model_question"
    __table_args__ = (
        Index("model_question_queued", "key", postgresql_where=text("status = 'queued'")),
        Index("model_question_batch", "batch_id", postgresql_where=text("batch_id is not null")),
        Index("model_question_session", "session_id", postgresql_where=text("session_id is not null")),
    )

    key: str = text_column(primary_key=True)
    purpose: str = text_column()
    model: str = text_column()
    body: dict[str, Any] = json_object_column()
    run_id: str = text_column()
    session_id: str | None = nullable_text_column()
    call_id: str = text_column()
    batch_id: str | None = nullable_text_column()
    status: str = text_column(default="queued")
    created_at: datetime = timestamp_column()
