"""Facts decided upon: decisions, generations, versions, tombstones."""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

UP: tuple[str, ...] = ("alter table fact add recalled bigint default 0 not null, add last_recalled_at timestamptz",)
DOWN: tuple[str, ...] = ("alter table fact drop recalled, drop last_recalled_at",)


def upgrade() -> None:
    for statement in UP:
        op.execute(statement)


def downgrade() -> None:
    for statement in DOWN:
        op.execute(statement)
