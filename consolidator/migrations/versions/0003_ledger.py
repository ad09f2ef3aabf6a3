"""The ledger: runs, claims, dead letters."""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

TABLES = """
create table run (
    id text not null,
    job text not null,
    scheduled_at timestamptz not null,
    trigger text default 'schedule' not null,
    status text default 'running' not null,
    started_at timestamptz not null,
    finished_at timestamptz,
    heartbeat_at timestamptz not null,
    owner text not null,
    arguments jsonb default '{}'::jsonb not null,
    report jsonb default '{}'::jsonb not null,
    error text,
    deaths integer default 0 not null,
    primary key (id),
    constraint run_job_scheduled_at unique (job, scheduled_at)
);

create table claim (
    run_id text not null,
    kind text not null,
    unit text not null,
    phase integer default 0 not null,
    status text default 'open' not null,
    owner text,
    lease_until timestamptz,
    attempts integer default 0 not null,
    seen bigint default 0 not null,
    learned bigint default 0 not null,
    nothing bigint default 0 not null,
    deferred bigint default 0 not null,
    dead bigint default 0 not null,
    error text,
    note text,
    primary key (run_id, kind, unit),
    constraint the_ledger_balances check (seen = learned + nothing + deferred + dead),
    foreign key(run_id) references run (id) on delete cascade
);
create index claim_open on claim (run_id, unit) where status in ('open', 'leased');

create table dead_letter (
    id text not null,
    run_id text not null,
    session_id text not null,
    seq bigint default 0 not null,
    extractor text not null,
    error text not null,
    created_at timestamptz not null,
    settled_at timestamptz,
    settlement text,
    primary key (id)
);
create index dead_letter_session on dead_letter (session_id);
create unique index dead_letter_open on dead_letter (session_id, seq) where settled_at is null;
"""

CONSTRAINTS = """
alter table run add constraint run_job
    check (job in ('import', 'consolidation', 'retention', 'backfill', 'retry', 'reindex'));
alter table run add constraint run_status check (status in ('running', 'done', 'failed', 'interrupted'));
alter table claim add constraint claim_kind
    check (kind in ('session', 'late_extraction', 'merge', 'draft', 'fact_index', 'turn_index'));
alter table claim add constraint claim_status check (status in ('open', 'leased', 'done', 'dead'));
"""

COMMENTS = """
comment on table run is 'One execution of a job. With claim, the ledger.';
comment on table claim is 'A unit of a run: who works on it until when, and what came of it.';
comment on table dead_letter is 'Events that could not be learned from, until somebody settles them.';
"""


def upgrade() -> None:
    op.execute(TABLES)
    op.execute(CONSTRAINTS)
    op.execute(COMMENTS)


def downgrade() -> None:
    for table in ("dead_letter", "claim", "run"):
        op.execute(f"drop table {table}")
