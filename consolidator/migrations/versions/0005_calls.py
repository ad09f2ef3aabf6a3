"""What is learned from calls: digests, their sums, error records, procedures, solutions."""

from __future__ import annotations

from alembic import op

revision = "0005"
down_revision = "0004"
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
    error_state bytea default ''::bytea not null,
    summary jsonb default '{}'::jsonb not null,
    version text not null,
    summed boolean default false not null,
    summed_keys bytea,
    summed_counts bytea,
    outcome integer default 0 not null,
    primary key (session_id)
);
create index digest_new on digest (agent) where not summed;
create index digest_scope on digest (agent, project);

create table agent_sums (
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

create table sum_text (
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
    fix_shape text,
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
    run_id text,
    cause text default 'run' not null,
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
    run_id text,
    cause text default 'run' not null,
    primary key (id)
);
create index solution_fingerprint on solution (fingerprint);
create index solution_scope on solution (agent, project);
create index solution_search on solution using gin (to_tsvector('simple', search));
create index solution_signature on solution (substr(fingerprint, strpos(fingerprint, '|') + 1));
"""

CONSTRAINTS = """
alter table error_record add constraint error_status check (status in ('open', 'resolved', 'unresolved', 'noise'));
alter table procedure add constraint procedure_cause check (cause in ('run', 'person', 'review', 'erasure'));
alter table procedure add constraint procedure_run check ((run_id is not null) = (cause = 'run'));
alter table solution add constraint solution_cause check (cause in ('run', 'person', 'review', 'erasure'));
alter table solution add constraint solution_run check ((run_id is not null) = (cause = 'run'));
"""

COMMENTS = """
comment on table setting is 'Values that belong to this database alone, such as the salt of its hashes.';
comment on table digest is 'All that is kept of a session''s calls once its events are pruned.';
comment on table agent_sums is 'Which digests the kept sums of an agent include.';
comment on table scope_sum is 'Sums over the digests of an agent in one project, or in all.';
comment on table sum_text is 'The texts of what an agent''s sums count.';
comment on table error_record is 'Failed calls of sessions, and what resolved them.';
comment on table scope is 'An agent''s memory in one project: whether it has to be merged again.';
comment on table procedure is 'Published procedures.';
comment on table tool_profile is 'How an agent uses each tool: usual arguments, their sources, usual successors.';
comment on table solution is 'Published solutions: an error''s fingerprint and its fixes.';
"""


def upgrade() -> None:
    op.execute(TABLES)
    op.execute(CONSTRAINTS)
    op.execute(COMMENTS)


def downgrade() -> None:
    for table in (
        "solution",
        "tool_profile",
        "procedure",
        "scope",
        "error_record",
        "sum_text",
        "scope_sum",
        "agent_sums",
        "digest",
        "setting",
    ):
        op.execute(f"drop table {table}")
