"""The log: sessions, events and chunks in daily partitions, deliveries, blobs, and what keeps them append-only."""

from __future__ import annotations

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

TABLES = """
create sequence event_id_seq;

create table session (
    id text not null,
    origin text,
    key text,
    current boolean default false not null,
    conversation_id text,
    agent text not null,
    channel text,
    peer text,
    project text,
    parent_id text,
    parent_seq bigint,
    root_id text not null,
    kind text default 'root' not null,
    simulated boolean default false not null,
    model text,
    details jsonb default '{}'::jsonb not null,
    state jsonb default '{}'::jsonb not null,
    status text default 'open' not null,
    error text,
    head bigint default 0 not null,
    due boolean default false not null,
    consolidated_to bigint default 0 not null,
    extracted_to bigint default 0 not null,
    pruned_to bigint default 0 not null,
    lease_epoch bigint default 0 not null,
    lease_owner text,
    lease_until timestamptz,
    settled_to bigint default 0 not null,
    delivered_to bigint default 0 not null,
    pending boolean default false not null,
    hidden boolean default false not null,
    attention jsonb default '{}'::jsonb not null,
    config jsonb default '{}'::jsonb not null,
    max_cost numeric,
    reserved numeric default 0 not null,
    turns integer default 0 not null,
    input_tokens bigint default 0 not null,
    output_tokens bigint default 0 not null,
    cached_tokens bigint default 0 not null,
    cost numeric default 0 not null,
    compactions integer default 0 not null,
    created_at timestamptz not null,
    last_event_at timestamptz not null,
    last_occurred_at timestamptz not null,
    expires_at timestamptz,
    primary key (id)
);
create index session_due on session (agent, id) where due;
create unique index session_key_current on session (key) where current;
create unique index session_origin on session (origin);
create index session_parent on session (parent_id) where parent_id is not null;
create index session_peer on session (peer) where peer is not null;
create index session_root on session (root_id);
create index session_late on session (agent, id) where greatest(extracted_to, pruned_to) < consolidated_to;
create index session_pending on session (id) where pending;
create index session_attention on session (id) where attention <> '{}'::jsonb;

create table event (
    id bigint default nextval('event_id_seq') not null,
    session_id text not null,
    seq bigint not null,
    event_type text not null,
    data jsonb default '{}'::jsonb not null,
    created_at timestamptz not null,
    consolidated_at timestamptz,
    task_id text,
    tool_name text,
    primary key (session_id, seq, created_at)
) partition by range (created_at);

create table idempotency (
    session_id text not null,
    key text not null,
    first_seq bigint default 0 not null,
    last_seq bigint default 0 not null,
    created_at timestamptz not null,
    primary key (session_id, key)
);

create table blob (
    sha256 bytea not null,
    media_type text not null,
    size bigint default 0 not null,
    body bytea default ''::bytea not null,
    touched_at timestamptz not null,
    primary key (sha256)
);
create index blob_touched on blob (touched_at);

create table blob_ref (
    session_id text not null,
    seq bigint not null,
    sha256 bytea not null,
    primary key (session_id, seq, sha256),
    foreign key(sha256) references blob (sha256)
);
create index blob_ref_blob on blob_ref (sha256);

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

create table session_view (
    session_id text not null,
    upto bigint default 0 not null,
    summary jsonb default '{}'::jsonb not null,
    compaction_seq bigint default 0 not null,
    compaction jsonb default '{}'::jsonb not null,
    scratchpad_seq bigint default 0 not null,
    scratchpad text,
    primary key (session_id),
    foreign key(session_id) references session (id) on delete cascade
);
"""

CONSTRAINTS = """
alter table session add constraint session_kind check (kind in ('root', 'fork', 'resume', 'branch', 'sub-agent'));
alter table session add constraint session_status check (status in ('open', 'ended'));
alter table session add constraint session_marks check (
    0 <= pruned_to and pruned_to <= consolidated_to and consolidated_to <= head
);
alter table session add constraint session_due check (due = (head > consolidated_to));
alter table session set (fillfactor = 70);
alter table event add constraint event_seq check (seq > 0);
alter table event add constraint event_kind check (event_type in (
    'SessionStart', 'SessionEnd', 'UserMessage', 'AssistantResponse', 'ToolCall', 'ToolResult', 'ThinkingStart',
    'PolicyDecision', 'TaskStart', 'TaskEnd', 'Error', 'SubAgentSpawn', 'SubAgentComplete', 'ApprovalRequested',
    'ApprovalGranted', 'ApprovalDenied'
));
alter sequence event_id_seq owned by event.id;

alter table generation_chunk add constraint generation_chunk_seq check (seq > 0);
alter table delivery add constraint delivery_upto check (upto_seq >= 0);
alter table session add constraint session_settled check (settled_to <= head and delivered_to <= head);
alter table session add constraint session_max_cost check (max_cost is null or max_cost >= 0);
"""

FUNCTIONS = """
create function refuse_event_change() returns trigger language plpgsql as $$
begin
    raise exception 'the log is append-only: % of event % of session % refused', tg_op, old.seq, old.session_id
        using errcode = 'integrity_constraint_violation';
end $$;

create function refuse_event_truncate() returns trigger language plpgsql as $$
begin
    raise exception 'the log is append-only: TRUNCATE of % refused', tg_table_name
        using errcode = 'integrity_constraint_violation';
end $$;

-- A consolidated event may be pruned; any other only by an erasure that names its session in this transaction.
create function refuse_event_delete() returns trigger language plpgsql as $$
begin
    if old.consolidated_at is null
       and old.session_id is distinct from nullif(current_setting('consolidator.erase', true), '') then
        raise exception 'event % of session % has not been learned from: DELETE refused', old.seq, old.session_id
            using errcode = 'integrity_constraint_violation';
    end if;
    return old;
end $$;

-- Creates the partition of one day, then attaches it, so that no lock on the log is held while it is built.
create function create_event_partition(day date) returns boolean language plpgsql as $$
declare
    part text := 'event_' || to_char(day, 'YYYYMMDD');
    low timestamptz := day::timestamp at time zone 'UTC';
    high timestamptz := (day + 1)::timestamp at time zone 'UTC';
begin
    if exists (select from pg_inherits join pg_class on oid = inhrelid
               where inhparent = 'event'::regclass and relname = part) then
        return false;
    end if;
    perform pg_advisory_xact_lock(hashtext('consolidator.partition'));
    -- Whoever waited looks again, by name: to_regclass may answer from before the wait, since no table was locked.
    if exists (select from pg_inherits join pg_class on oid = inhrelid
               where inhparent = 'event'::regclass and relname = part) then
        return false;
    end if;
    execute format('create table if not exists %I (like event including defaults including constraints)', part);
    execute format('alter table %I drop constraint if exists event_day', part);
    execute format('alter table %I add constraint event_day check (created_at >= %L and created_at < %L)',
                   part, low, high);
    execute format('create or replace trigger event_immutable before update of '
                   'id, session_id, seq, event_type, data, created_at, task_id, tool_name on %I '
                   'for each row execute function refuse_event_change()', part);
    execute format('create or replace trigger event_stamped_once before update of consolidated_at on %I for each row '
                   'when (old.consolidated_at is not null or new.consolidated_at is null) '
                   'execute function refuse_event_change()', part);
    execute format('create or replace trigger event_kept before delete on %I '
                   'for each row execute function refuse_event_delete()', part);
    execute format('create or replace trigger event_not_truncated before truncate on %I '
                   'for each statement execute function refuse_event_truncate()', part);
    execute format('alter table %I enable always trigger event_immutable', part);
    execute format('alter table %I enable always trigger event_stamped_once', part);
    execute format('alter table %I enable always trigger event_kept', part);
    execute format('alter table %I enable always trigger event_not_truncated', part);
    execute format('alter table event attach partition %I for values from (%L) to (%L)', part, low, high);
    execute format('alter table %I drop constraint event_day', part);
    return true;
end $$;

create trigger event_not_truncated before truncate on event
    for each statement execute function refuse_event_truncate();
alter table event enable always trigger event_not_truncated;

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

COMMENTS = """
comment on table session is 'One conversation of one agent: its head, watermarks, lease, totals and settings.';
comment on table event is 'The append-only log, by day of created_at; only consolidated_at is ever set, once.';
comment on table idempotency is 'The seqs that a retriable append was answered with the first time.';
comment on table blob is 'Payloads over 16 KiB, content-addressed.';
comment on table blob_ref is 'Which event refers to which blob.';
comment on table generation_chunk is 'The committed pieces of generations, by day of created_at, append-only.';
comment on table delivery is 'How far a message reached a channel.';
comment on table session_view is 'What a context needs of a session''s past: summary, latest compaction, scratchpad.';
"""


def upgrade() -> None:
    op.execute(TABLES)
    op.execute(CONSTRAINTS)
    op.execute(FUNCTIONS)
    op.execute(COMMENTS)


def downgrade() -> None:
    for table in (
        "session_view",
        "delivery",
        "generation_chunk",
        "blob_ref",
        "blob",
        "idempotency",
        "event",
        "session",
    ):
        op.execute(f"drop table {table}")
    for function in (
        "create_chunk_partition(date)",
        "create_event_partition(date)",
        "refuse_companion_delete()",
        "refuse_companion_change()",
        "refuse_event_delete()",
        "refuse_event_truncate()",
        "refuse_event_change()",
    ):
        op.execute(f"drop function {function}")
