"""Calls of models, their answers, and the batches of questions that a provider answers at half the price."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Numeric
from sqlmodel import Field


@dataclass(frozen=True, slots=True)
class ModelBatchRow:
    """A row of `model_batch`: questions that were submitted together."""

    id: str
    status: str
    submitted_at: datetime
    due_at: datetime
    collected_at: datetime | None


@dataclass(frozen=True, slots=True)
class ModelQuestionRow:
    """A row of `model_question`: one question that goes through a batch."""

    key: str
    purpose: str
    model: str
    body: dict[str, Any]
    run_id: str
    session_id: str | None
    call_id: str
    batch_id: str | None
    status: str
    created_at: datetime


def _dollars() -> Any:
    return Field(default=None, sa_type=Numeric, nullable=True)
