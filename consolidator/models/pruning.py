"""What retention pruned, as the functions that prune wrote it down: no other role can."""

from __future__ import annotations

from datetime import datetime

from sqlmodel import SQLModel

from consolidator.models.columns import (
    bigint_column,
    boolean_column,
    nullable_text_column,
    text_column,
    timestamp_column,
)


class PruningTable(SQLModel, table=True):
    """One row for each time that retention began to prune."""

    __tablename__ = "pruning"

    id: str = text_column(primary_key=True)
    run_id: str | None = nullable_text_column()
    cutoff: datetime = timestamp_column()  # events ingested before it were candidates
    log_events: int = bigint_column()  # in the log when it began
    events: int = bigint_column()  # marked as pruned
    sessions: int = bigint_column()
    overridden: bool = boolean_column()  # whether the owner told it to go past the brakes
    login: str = text_column()  # the role that asked for it
    begun_at: datetime = timestamp_column()  # by the database's clock
