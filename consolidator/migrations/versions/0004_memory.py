"""Memory: digests and errors of sessions, procedures, solutions, facts."""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

TABLES = """
create table setting (
    name text not null,
    value bytea default ''::bytea not null,
    primary key (name)
);

create table digest (
    session_id text not null,
    agent text not null,
    project text,
    last_at timestamptz not null,
    calls bigint default 0 not null,
    sequence bytea default ''::bytea not null,
    seqs bytea default ''::bytea not null,
    keys bytea default ''::bytea not null,
    counts bytea default ''::bytea not null,
    terms bytea default ''::bytea not null,
    quotes bytea default ''::bytea not null,
    state bytea default ''::bytea not null,
    folds bytea default ''::bytea not null,
    summary jsonb default '{}'::jsonb not null,
    version text not null,
    summed boolean default false not null,
    was_keys bytea,
    was_counts bytea,
    outcome integer default 0 not null,
    primary key (session_id)
);
create index digest_new on digest (agent) where not summed;
create index digest_scope on digest (agent, project);

create table summed (
    agent text not null,
    version text not null,
    lineage bigint default 0 not null,
    primary key (agent)
);

create table scope_sum (
    agent text not null,
    project text not null,
    keys bytea default ''::bytea not null,
    totals bytea default ''::bytea not null,
    roots bytea default ''::bytea not null,
    primary key (agent, project)
);
alter table scope_sum alter column keys set storage external,
    alter column totals set storage external, alter column roots set storage external;

create table summed_name (
    agent text not null,
    part integer not null,
    keys bytea default ''::bytea not null,
    groups bytea default ''::bytea not null,
    texts bytea default ''::bytea not null,
    primary key (agent, part)
);

create table error_record (
    session_id text not null,
    seq bigint not null,
    agent text not null,
    project text,
    fingerprint text not null,
    status text not null,
    record jsonb default '{}'::jsonb not null,
    shape text,
    merged boolean default false not null,
    primary key (session_id, seq)
);
create index error_record_group on error_record (agent, fingerprint);
create index error_record_new on error_record (agent, fingerprint) where not merged;

create table scope (
    agent text not null,
    project text not null,
    version bigint default 0 not null,
    merged bigint default 0 not null,
    sessions integer default 0 not null,
    primary key (agent, project)
);

create table procedure (
    id text not null,
    agent text not null,
    project text,
    title text not null,
    support bigint default 0 not null,
    rank float not null,
    body jsonb default '{}'::jsonb not null,
    learned_at timestamptz not null,
    updated_at timestamptz not null,
    retired_at timestamptz,
    run_id text not null,
    primary key (id)
);
create index procedure_scope on procedure (agent, project);
create index procedure_search on procedure using gin (to_tsvector('simple', title));

create table tool_profile (
    agent text not null,
    project text not null,
    tool text not null,
    body jsonb default '{}'::jsonb not null,
    primary key (agent, project, tool)
);

create table solution (
    id text not null,
    agent text not null,
    project text,
    fingerprint text not null,
    tool text not null,
    headline text not null,
    confirmed boolean default false not null,
    sessions bigint default 0 not null,
    occurrences bigint default 0 not null,
    search text not null,
    body jsonb default '{}'::jsonb not null,
    learned_at timestamptz not null,
    updated_at timestamptz not null,
    retired_at timestamptz,
    run_id text not null,
    primary key (id)
);
create index solution_fingerprint on solution (fingerprint);
create index solution_scope on solution (agent, project);
create index solution_search on solution using gin (to_tsvector('simple', search));
create index solution_signature on solution (substr(fingerprint, strpos(fingerprint, '|') + 1));

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
    rejected text,
    reconciled boolean default false not null,
    run_id text not null,
    primary key (id)
);
create index candidate_group on candidate (agent, subject, predicate);
create index candidate_new on candidate (agent) where not reconciled;
create index candidate_session on candidate (session_id);

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
    sessions bigint default 0 not null,
    evidence text[] default '{}'::text[] not null,
    run_id text not null,
    primary key (id)
);
create index fact_group on fact (agent, subject, predicate);
create index fact_search on fact using gin (to_tsvector('simple', sentence));
"""

GUARDS = """
alter table candidate add constraint candidate_level check (level in ('peer', 'project', 'agent'));
alter table candidate add constraint candidate_trust check (trust in ('user', 'agent', 'tool'));
alter table fact add constraint fact_level check (level in ('peer', 'project', 'agent'));
alter table error_record add constraint error_status check (status in ('open', 'resolved', 'unresolved', 'noise'));
"""


def upgrade() -> None:
    op.execute(TABLES)
    op.execute(GUARDS)


def downgrade() -> None:
    op.execute("drop table setting")
    op.execute("drop table fact")
    op.execute("drop table candidate")
    op.execute("drop table solution")
    op.execute("drop table tool_profile")
    op.execute("drop table procedure")
    op.execute("drop table scope")
    op.execute("drop table error_record")
    op.execute("drop table summed_name")
    op.execute("drop table scope_sum")
    op.execute("drop table summed")
    op.execute("drop table digest")
