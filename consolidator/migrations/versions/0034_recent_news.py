"""Indexes of what the page looks for: rules, facts that lost their place lately, facts of a person or project."""

from __future__ import annotations

from alembic import op

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("create index fact_superseded_at on fact (superseded_at) where superseded_by is not null")
    op.execute("create index fact_project on fact (project) where project is not null")
    op.execute("create index fact_peer on fact (peer) where peer is not null")
    op.execute(
        "create index fact_rule on fact (sessions desc, valid_from desc) where superseded_at is null "
        "and trust in ('person', 'user') and kind = 'constraint' and predicate <> 'instruction'"
    )
    op.execute("create index candidate_accepted on candidate (agent, level, owner) where extractor = 'accepted:1'")
    op.execute("create index procedure_worth on procedure (worth desc, id) where retired_at is null and worth > 0")


def downgrade() -> None:
    op.execute("drop index procedure_worth; drop index candidate_accepted; drop index fact_rule")
    op.execute("drop index fact_peer; drop index fact_project; drop index fact_superseded_at")
