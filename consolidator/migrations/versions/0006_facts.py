"""Facts: candidates, what is believed of them, tombstones, revisions."""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

TABLES = """
create table candidate (
    agent text not null,
    project text,
    peer text,
    level text not null,
    subject text not null,
    predicate text not null,
    value text not null,
    sentence text not null,
    kind text not null,
    confidence text not null,
    trust text not null,
    id text not null,
    session_id text not null,
    seq bigint default 0 not null,
    occurred_at timestamptz not null,
    quote text not null,
    extractor text not null,
    single_valued boolean default false not null,
    evidence jsonb default '[]'::jsonb not null,
    revision integer default 0 not null,
    quarantined text,
    valid_from timestamptz,
    valid_to timestamptz,
    rejected text,
    active boolean default true not null,
    retired_by integer,
    operation text,
    target text,
    decided_by text,
    why text,
    flagged text,
    as_subject text,
    as_predicate text,
    as_value text,
    owner text default '' not null,
    reconciled boolean default false not null,
    run_id text not null,
    primary key (id)
);
create index candidate_group
    on candidate (agent, (coalesce(as_subject, subject)), (coalesce(as_predicate, predicate)), owner);
create index candidate_new on candidate (agent) where not reconciled;
create index candidate_undecided on candidate (agent)
    where revision > 0 and operation is null and rejected is null and quarantined is null;
create index candidate_revision on candidate (revision) where revision > 1;
create index candidate_retired on candidate (retired_by) where retired_by is not null;
create index candidate_target on candidate (target) where target is not null;
create index candidate_session on candidate (session_id);
create index candidate_quarantined on candidate (agent) where quarantined is not null;

create table fact (
    agent text not null,
    project text,
    peer text,
    level text not null,
    subject text not null,
    predicate text not null,
    value text not null,
    sentence text not null,
    kind text not null,
    confidence text not null,
    trust text not null,
    id text not null,
    valid_from timestamptz not null,
    valid_to timestamptz,
    recorded_at timestamptz not null,
    superseded_at timestamptz,
    superseded_by text,
    superseded_reason text,
    sessions bigint default 0 not null,
    evidence text[] default '{}'::text[] not null,
    flagged text,
    run_id text,
    cause text default 'run' not null,
    recalled bigint default 0 not null,
    last_recalled_at timestamptz,
    primary key (id)
);
create index fact_group on fact (agent, subject, predicate, (coalesce(project, peer, '')));
create index fact_stated on fact (agent) where trust = 'person';
create index fact_search on fact using gin (to_tsvector('simple', sentence));

create table fact_version (
    fact_id text not null references fact (id) on delete cascade,
    until timestamptz not null,
    value text not null,
    sentence text not null,
    valid_from timestamptz not null,
    valid_to timestamptz,
    superseded_at timestamptz,
    superseded_by text,
    superseded_reason text,
    primary key (fact_id, until)
);

create table tombstone (
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
);
create index tombstone_agent on tombstone (agent);

create table revision (
    id integer not null,
    model text not null,
    status text default 'draft' not null check (status in ('draft', 'current', 'former', 'discarded')),
    choice jsonb default '{}'::jsonb not null,
    created_at timestamptz not null,
    promoted_at timestamptz,
    primary key (id)
);
create unique index revision_current on revision (status) where status = 'current';

create table revision_reach (
    revision bigint not null,
    session_id text not null,
    after bigint default 0 not null,
    upto bigint default 0 not null,
    primary key (revision, session_id)
);
create index revision_reach_session on revision_reach (session_id);
"""

CONSTRAINTS = """
alter table candidate add constraint candidate_level check (level in ('peer', 'project', 'agent'));
alter table candidate add constraint candidate_trust check (trust in ('user', 'agent', 'tool'));
alter table candidate add constraint candidate_operation
    check (operation in ('add', 'reinforce', 'refine', 'supersede', 'noop'));
alter table fact add constraint fact_level check (level in ('peer', 'project', 'agent'));
alter table fact add constraint fact_superseded_reason
    check (superseded_reason in ('replaced', 'forgotten', 'revision'));
alter table fact add constraint fact_superseded_by
    check ((superseded_by is not null) = (superseded_reason is not distinct from 'replaced'));
alter table fact add constraint fact_cause check (cause in ('run', 'person', 'review', 'erasure'));
alter table fact add constraint fact_run check ((run_id is not null) = (cause = 'run'));
"""

COMMENTS = """
comment on table candidate is 'Statements found in the log by rules or a model, with their verified quotes.';
comment on table fact is 'What is believed, since when, and the candidates it rests on.';
comment on table fact_version is 'What was believed of a fact before it was refined or superseded.';
comment on table tombstone is 'Values that a person told memory to forget.';
comment on table revision is 'Revisions of the facts: draft, current, former, discarded.';
comment on table revision_reach is 'How far a revision has read each session.';
"""


def upgrade() -> None:
    op.execute(TABLES)
    op.execute(CONSTRAINTS)
    op.execute(COMMENTS)


def downgrade() -> None:
    for table in ("revision_reach", "revision", "tombstone", "fact_version", "fact", "candidate"):
        op.execute(f"drop table {table}")
