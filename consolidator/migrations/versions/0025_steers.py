"""Steers with the outcome of their task, and how many of them, with which outcome, a fact rests on."""

from __future__ import annotations

from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None

COUNTS = ("steers", "steers_succeeded", "steers_failed")


def upgrade() -> None:
    op.execute(
        "create table steer (session_id text not null, seq bigint not null, task text, run_id text not null, "
        "primary key (session_id, seq))"
    )
    op.execute("create index steer_run on steer (run_id)")
    op.execute(
        "create table task_outcome (session_id text not null, seq bigint not null, task text not null, "
        "outcome text not null, run_id text not null, primary key (session_id, seq))"
    )
    for column in COUNTS:
        op.execute(f"alter table fact add column {column} integer default 0 not null")


def downgrade() -> None:
    for column in COUNTS:
        op.execute(f"alter table fact drop column {column}")
    op.execute("drop table task_outcome")
    op.execute("drop table steer")
