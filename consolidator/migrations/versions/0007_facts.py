"""Facts decided upon: decisions, generations, versions, tombstones."""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

UP: tuple[str, ...] = (
    "alter table fact add recalled bigint default 0 not null, add last_recalled_at timestamptz",
    """alter table candidate add evidence jsonb default '[]'::jsonb not null, add generation integer default 0 not null,
       add quarantined text, add valid_from timestamptz, add valid_to timestamptz""",
    "create index candidate_quarantined on candidate (agent) where quarantined is not null",
    "create index fact_stated on fact (agent) where trust = 'person'",
    """create table tombstone (
        fact_id text not null,
        agent text not null,
        level text not null,
        project text,
        peer text,
        subject text not null,
        predicate text not null,
        value text not null,
        created_at timestamptz not null,
        primary key (fact_id)
    )""",
    "create index tombstone_agent on tombstone (agent)",
)
DOWN: tuple[str, ...] = (
    "drop table tombstone",
    "drop index fact_stated",
    "alter table candidate drop evidence, drop generation, drop quarantined, drop valid_from, drop valid_to",
    "alter table fact drop recalled, drop last_recalled_at",
)


def upgrade() -> None:
    for statement in UP:
        op.execute(statement)


def downgrade() -> None:
    for statement in DOWN:
        op.execute(statement)
