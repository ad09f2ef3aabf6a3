"""The runtime: the chunks of what models say, what reached whom, what it cost, and who holds a session."""

from __future__ import annotations

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

TABLES = """
create table generation_chunk (
    session_id text not null,
    message_id text not null,
    seq bigint not null,
    started_seq bigint default 0 not null,
    delta text not null,
    created_at timestamptz not null,
    primary key (session_id, message_id, seq, created_at)
) partition by range (created_at);
create index generation_chunk_started on generation_chunk (session_id, started_seq);

create table delivery (
    session_id text not null,
    message_id text not null,
    channel text not null,
    upto_seq bigint not null,
    started_seq bigint default 0 not null,
    sent_at timestamptz not null,
    primary key (session_id, message_id, channel, upto_seq)
);
create index delivery_started on delivery (session_id, started_seq);

create table spend (
    call_id text not null,
    session_id text,
    message_id text,
    purpose text not null,
    model text not null,
    day date not null,
    reserved numeric default 0 not null,
    cost numeric,
    input_tokens bigint default 0 not null,
    output_tokens bigint default 0 not null,
    cached_tokens bigint default 0 not null,
    tier text,
    strategy text,
    turn integer default 0 not null,
    reserved_at timestamptz not null,
    settled_at timestamptz,
    primary key (call_id)
);
create index spend_day on spend (day);
create index spend_session on spend (session_id);
create index spend_open on spend (session_id) where settled_at is null;

alter table session
    add lease_owner text,
    add lease_until timestamptz,
    add settled_to bigint default 0 not null,
    add delivered_to bigint default 0 not null,
    add pending boolean default false not null,
    add hidden boolean default false not null,
    add attention jsonb default '{}'::jsonb not null,
    add config jsonb default '{}'::jsonb not null,
    add max_cost numeric,
    add reserved numeric default 0 not null;
create index session_pending on session (id) where pending;
create index session_attention on session (id) where attention <> '{}'::jsonb;
"""

GUARDS = """
alter table generation_chunk add constraint generation_chunk_seq check (seq > 0);
alter table delivery add constraint delivery_upto check (upto_seq >= 0);
alter table spend add constraint spend_purpose check (purpose in ('step', 'compaction', 'tool'));
alter table spend add constraint spend_settled check (cost is null or settled_at is not null);
alter table session add constraint session_settled check (settled_to <= head and delivered_to <= head);
alter table session add constraint session_max_cost check (max_cost is null or max_cost >= 0);

create function refuse_companion_change() returns trigger language plpgsql as $$
begin
    raise exception 'the log is append-only: % of % of message % of session % refused',
        tg_op, tg_table_name, old.message_id, old.session_id using errcode = 'integrity_constraint_violation';
end $$;

-- Chunks and deliveries live as long as the event that began their message, or their session is erased.
create function refuse_companion_delete() returns trigger language plpgsql as $$
begin
    if old.session_id is distinct from nullif(current_setting('consolidator.erase', true), '')
       and exists (select from session where id = old.session_id and pruned_to < old.started_seq) then
        raise exception 'message % of session % is still in the log: DELETE of its % refused',
            old.message_id, old.session_id, tg_table_name using errcode = 'integrity_constraint_violation';
    end if;
    return old;
end $$;

create function create_chunk_partition(day date) returns boolean language plpgsql as $$
declare
    part text := 'generation_chunk_' || to_char(day, 'YYYYMMDD');
    parent regclass := 'generation_chunk'::regclass;
    low timestamptz := day::timestamp at time zone 'UTC';
    high timestamptz := (day + 1)::timestamp at time zone 'UTC';
begin
    if exists (select from pg_inherits join pg_class on oid = inhrelid
               where inhparent = parent and relname = part) then
        return false;
    end if;
    perform pg_advisory_xact_lock(hashtext('consolidator.partition'));
    -- Whoever waited looks again, by name: to_regclass may answer from before the wait, since no table was locked.
    if exists (select from pg_inherits join pg_class on oid = inhrelid
               where inhparent = parent and relname = part) then
        return false;
    end if;
    execute format('create table if not exists %I (like generation_chunk including defaults including constraints)',
                   part);
    execute format('alter table %I drop constraint if exists generation_chunk_day', part);
    execute format('alter table %I add constraint generation_chunk_day check (created_at >= %L and created_at < %L)',
                   part, low, high);
    execute format('create or replace trigger chunk_immutable before update on %I '
                   'for each row execute function refuse_companion_change()', part);
    execute format('create or replace trigger chunk_kept before delete on %I '
                   'for each row execute function refuse_companion_delete()', part);
    execute format('create or replace trigger chunk_not_truncated before truncate on %I '
                   'for each statement execute function refuse_event_truncate()', part);
    execute format('alter table %I enable always trigger chunk_immutable', part);
    execute format('alter table %I enable always trigger chunk_kept', part);
    execute format('alter table %I enable always trigger chunk_not_truncated', part);
    execute format('alter table generation_chunk attach partition %I for values from (%L) to (%L)', part, low, high);
    execute format('alter table %I drop constraint generation_chunk_day', part);
    return true;
end $$;

create trigger chunk_not_truncated before truncate on generation_chunk
    for each statement execute function refuse_event_truncate();
alter table generation_chunk enable always trigger chunk_not_truncated;
create trigger delivery_immutable before update on delivery
    for each row execute function refuse_companion_change();
create trigger delivery_kept before delete on delivery
    for each row execute function refuse_companion_delete();
create trigger delivery_not_truncated before truncate on delivery
    for each statement execute function refuse_event_truncate();
alter table delivery enable always trigger delivery_immutable;
alter table delivery enable always trigger delivery_kept;
alter table delivery enable always trigger delivery_not_truncated;
"""
COLUMNS = (
    "lease_owner", "lease_until", "settled_to", "delivered_to", "pending", "hidden", "attention", "config", "max_cost",
    "reserved",
)  # fmt: skip


def upgrade() -> None:
    op.execute(TABLES)
    op.execute(GUARDS)


def downgrade() -> None:
    for table in ("spend", "delivery", "generation_chunk"):
        op.execute(f"drop table {table}")
    for function in ("create_chunk_partition(date)", "refuse_companion_delete()", "refuse_companion_change()"):
        op.execute(f"drop function {function}")
    op.execute("alter table session " + ", ".join(f"drop {name}" for name in COLUMNS))
