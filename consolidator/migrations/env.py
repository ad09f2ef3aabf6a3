"""Runs the migrations on the connection that `consolidator.database.upgrade` hands over, in our schema."""

from __future__ import annotations

from alembic import context

context.configure(connection=context.config.attributes["connection"], transaction_per_migration=False)
with context.begin_transaction():
    context.run_migrations()
