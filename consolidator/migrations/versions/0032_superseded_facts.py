"""Facts by what took their place: the page of a fact draws the chain of those that replaced each other."""

from __future__ import annotations

from alembic import op

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("create index fact_superseded on fact (superseded_by) where superseded_by is not null")


def downgrade() -> None:
    op.execute("drop index fact_superseded")
