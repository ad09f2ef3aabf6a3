"""Sums are kept for each audience: also of each person's sessions, so that a night reads no others of that person.

Sums are a function of the digests: the next night makes them again.
"""

from __future__ import annotations

from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _key_by("audience text default 'all' not null", "audience", instead_of="by_person")


def downgrade() -> None:
    _key_by("by_person boolean default false not null", "by_person", instead_of="audience")


def _key_by(definition: str, column: str, *, instead_of: str) -> None:
    op.execute("delete from agent_sums")
    op.execute("delete from scope_sum")
    op.execute("alter table scope_sum drop constraint scope_sum_pkey")
    op.execute(f"alter table scope_sum drop column {instead_of}")
    op.execute(f"alter table scope_sum add column {definition}")
    op.execute(f"alter table scope_sum add primary key (agent, project, {column})")
