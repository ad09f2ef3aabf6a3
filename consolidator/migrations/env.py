"""Runs the migrations on the connection that `consolidator.database.upgrade` hands over, in our schema."""

from __future__ import annotations

from typing import Any

from alembic import context

from consolidator.models.tables import METADATA

SCHEMA = "consolidator"


def include(name: str | None, kind: str, _parents: Any) -> bool:
    """Leave partitions out: they are made by `create_event_partition`, not by migrations."""
    return not (kind == "table" and name is not None and name.startswith("event_"))


context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    include_name=include,
    compare_type=True,
    compare_server_default=False,
    transaction_per_migration=False,
)
with context.begin_transaction():
    context.run_migrations()
