"""What models were asked and answered, and what that took: a call, an answer, a batch of questions."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import Index, Numeric, text
from sqlmodel import Field, SQLModel

from consolidator.models.columns import count, document, maybe_moment, maybe_words, moment, words


def _dollars() -> Any:
    return Field(default=None, sa_type=Numeric, nullable=True)


class ModelAnswerTable(SQLModel, table=True):
    """An answer by the hash of its question, so that no retry pays for it twice."""

    __tablename__ = "model_answer"

    key: str = words(primary_key=True)
    purpose: str = words()
    model: str = words()
    text: str = words()
    run_id: str = words()
    created_at: datetime = moment()


class ModelCallTable(SQLModel, table=True):
    """One call: reserved before it, settled after it; one that never settles has cost its reserve."""

    __tablename__ = "model_call"
    __table_args__ = (
        Index("model_call_run", "run_id"),
        Index("model_call_session", "session_id", postgresql_where=text("session_id is not null")),
    )

    id: str = words(primary_key=True)
    run_id: str = words()
    session_id: str | None = maybe_words()
    purpose: str = words()
    model: str = words()
    key: str = words()
    reserved_tokens: int = count()
    reserved_cost: Decimal | None = _dollars()
    input_tokens: int = count()
    cached_tokens: int = count()
    output_tokens: int = count()
    cost: Decimal | None = _dollars()
    outcome: str | None = maybe_words()  # answered | failed: ...; nothing while it is open
    created_at: datetime = moment()
    settled_at: datetime | None = maybe_moment()


class ModelBatchTable(SQLModel, table=True):
    """Questions that were handed to the provider together."""

    __tablename__ = "model_batch"
    __table_args__ = (Index("model_batch_open", "id", postgresql_where=text("collected_at is null")),)

    id: str = words(primary_key=True)  # the provider's
    status: str = words()
    submitted_at: datetime = moment()
    due_at: datetime = moment()  # what has not come back by then goes the normal way
    collected_at: datetime | None = maybe_moment()


class ModelQuestionTable(SQLModel, table=True):
    """A question that goes through a batch."""

    __tablename__ = "model_question"
    __table_args__ = (
        Index("model_question_queued", "key", postgresql_where=text("status = 'queued'")),
        Index("model_question_batch", "batch_id", postgresql_where=text("batch_id is not null")),
        Index("model_question_session", "session_id", postgresql_where=text("session_id is not null")),
    )

    key: str = words(primary_key=True)
    purpose: str = words()
    model: str = words()
    body: dict[str, Any] = document()
    run_id: str = words()
    session_id: str | None = maybe_words()
    call_id: str = words()  # its reserve
    batch_id: str | None = maybe_words()
    status: str = words(default="queued")  # queued | submitted | answered | failed
    created_at: datetime = moment()
