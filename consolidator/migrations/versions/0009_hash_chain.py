"""The log as evidence: events are hash-chained by session, and each night seals the chains it read."""

from __future__ import annotations

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

COLUMNS = """
alter table event add column hash bytea;
alter table session add column unchained_to bigint default 0 not null;
alter table session add column chain_hash bytea;
alter table session add column pruned_hash bytea;
update session set unchained_to = head where head > 0;
"""

TABLES = """
create table seal (
    number bigint not null,
    run_id text,
    sealed_at timestamptz not null,
    sessions bigint default 0 not null,
    root bytea default ''::bytea not null,
    primary key (number)
);

create table sealed_session (
    session_hash bytea not null,
    seq bigint not null,
    hash bytea default ''::bytea not null,
    seal bigint,
    primary key (session_hash, seq)
);
create index sealed_session_seal on sealed_session (seal);
comment on table seal is 'What each night sealed: a root over the chains it read and over the seal before.';
comment on table sealed_session is 'How far a session was learned from, and the hash of its chain there.';
"""

FUNCTIONS = """
-- The hashes of new events: each covers the hash before it, its content, its seq and its time.
create function chain_events(previous bytea, contents bytea[], head bigint, at timestamptz) returns bytea[]
language plpgsql immutable as $$
declare
    hashes bytea[] := '{}';
    hash bytea := previous;
begin
    for n in 1 .. cardinality(contents) loop
        hash := sha256(hash || contents[n] || int8send(head + n) || timestamptz_send(at));
        hashes := hashes || hash;
    end loop;
    return hashes;
end $$;
"""

# The columns of an event that nobody may change; its hash is one of them now.
GUARD = """
do $$
declare
    part regclass;
begin
    for part in select inhrelid from pg_inherits where inhparent = 'event'::regclass loop
        execute format('create or replace trigger event_immutable before update of {columns} on %s '
                       'for each row execute function refuse_event_change()', part);
        execute format('alter table %s enable always trigger event_immutable', part);
    end loop;
end $$;
"""
OLD_COLUMNS = "id, session_id, seq, event_type, data, created_at, task_id, tool_name"
NEW_COLUMNS = OLD_COLUMNS + ", hash"

PARTITION_FUNCTION = """
do $$
begin
    execute replace(pg_get_functiondef('create_event_partition(date)'::regprocedure), '{old} on', '{new} on');
end $$;
"""


def upgrade() -> None:
    op.execute(COLUMNS)
    op.execute(TABLES)
    op.execute(FUNCTIONS)
    op.execute(PARTITION_FUNCTION.format(old=OLD_COLUMNS, new=NEW_COLUMNS))
    op.execute(GUARD.format(columns=NEW_COLUMNS))


def downgrade() -> None:
    op.execute(PARTITION_FUNCTION.format(old=NEW_COLUMNS, new=OLD_COLUMNS))
    op.execute(GUARD.format(columns=OLD_COLUMNS))
    op.execute("drop function chain_events(bytea, bytea[], bigint, timestamptz)")
    op.execute("drop table sealed_session; drop table seal")
    op.execute("alter table event drop column hash")
    for column in ("pruned_hash", "chain_hash", "unchained_to"):
        op.execute(f"alter table session drop column {column}")
