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
    """alter table candidate add active boolean default true not null, add retired_by integer, add operation text,
       add target text, add decided_by text, add why text, add flagged text, add as_subject text, add as_predicate text,
       add as_value text, add owner text default '' not null""",
    "alter table fact add flagged text",
    "drop index candidate_group",
    """create index candidate_group on candidate (agent, (coalesce(as_subject, subject)),
       (coalesce(as_predicate, predicate)), owner)""",
    "drop index fact_group",
    "create index fact_group on fact (agent, subject, predicate, (coalesce(project, peer, '')))",
    """create index candidate_undecided on candidate (agent)
       where generation > 0 and operation is null and rejected is null and quarantined is null""",
    "create index candidate_generation on candidate (generation) where generation > 1",
    "create index candidate_retired on candidate (retired_by) where retired_by is not null",
    "create index candidate_target on candidate (target) where target is not null",
    """create table fact_version (
        fact_id text not null references fact (id) on delete cascade,
        until timestamptz not null,
        value text not null,
        sentence text not null,
        valid_from timestamptz not null,
        valid_to timestamptz,
        superseded_at timestamptz,
        superseded_by text,
        primary key (fact_id, until)
    )""",
    """create table memory_generation (
        id integer not null,
        model text not null,
        status text default 'draft' not null check (status in ('draft', 'current', 'former', 'discarded')),
        choice jsonb default '{}'::jsonb not null,
        created_at timestamptz not null,
        promoted_at timestamptz,
        primary key (id)
    )""",
    "create unique index memory_generation_current on memory_generation (status) where status = 'current'",
    """create table generation_reach (
        generation bigint not null,
        session_id text not null,
        after bigint default 0 not null,
        upto bigint default 0 not null,
        primary key (generation, session_id)
    )""",
    "create index generation_reach_session on generation_reach (session_id)",
    """alter table candidate add constraint candidate_operation
       check (operation in ('add', 'reinforce', 'refine', 'supersede', 'noop'))""",
)
DOWN: tuple[str, ...] = (
    "drop table generation_reach",
    "drop table memory_generation",
    "drop table fact_version",
    "drop index candidate_target",
    "drop index candidate_retired",
    "drop index candidate_generation",
    "drop index candidate_undecided",
    "drop index fact_group",
    "create index fact_group on fact (agent, subject, predicate)",
    "drop index candidate_group",
    "create index candidate_group on candidate (agent, subject, predicate)",
    "alter table fact drop flagged",
    """alter table candidate drop constraint candidate_operation, drop active, drop retired_by, drop operation,
       drop target, drop decided_by, drop why, drop flagged, drop as_subject, drop as_predicate, drop as_value,
       drop owner""",
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
