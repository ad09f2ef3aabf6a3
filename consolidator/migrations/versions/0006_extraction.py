"""How far a model has read each session."""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

UP: tuple[str, ...] = (
    "alter table session add extracted_to bigint default 0 not null",
    "create index session_late on session (agent, id) where greatest(extracted_to, pruned_to) < consolidated_to",
)
DOWN: tuple[str, ...] = ("drop index session_late", "alter table session drop extracted_to")


def upgrade() -> None:
    for statement in UP:
        op.execute(statement)


def downgrade() -> None:
    for statement in DOWN:
        op.execute(statement)
