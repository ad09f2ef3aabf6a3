"""Agents have defaults with a history; sessions have a trigger, labels, an end, and what their model saw at the start.

Sessions that the runtime drives get the conversation that their key names.
"""

from __future__ import annotations

from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

TABLES = """
create table agent (
    name text not null,
    version integer default 0 not null,
    model text,
    system_prompt text,
    template text,
    template_version integer default 0 not null,
    parameters jsonb default '{}'::jsonb not null,
    tools text[],
    max_cost numeric,
    max_steps integer,
    answer_tokens integer,
    strategy text,
    budget integer,
    last integer,
    compaction_threshold double precision,
    session_ttl_seconds integer,
    checkpoint_ttl_seconds integer,
    retention_days integer,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    primary key (name)
);
comment on table agent is 'The defaults of an agent''s sessions, as they stand.';

create table agent_version (
    agent text not null,
    version integer not null,
    definition jsonb default '{}'::jsonb not null,
    created_at timestamptz not null,
    changed_by text not null,
    primary key (agent, version)
);
comment on table agent_version is 'Every version of an agent''s defaults: rows are added, never changed.';

create table seed (
    session_id text not null references session (id) on delete cascade,
    ordinal integer not null,
    role text not null,
    content text not null,
    is_new boolean default false not null,
    occurred_at timestamptz,
    details jsonb default '{}'::jsonb not null,
    primary key (session_id, ordinal)
);
comment on table seed is 'What a session''s model saw at the start, in order; the nights do not read it.';

create function refuse_version_change() returns trigger language plpgsql as $$
begin
    raise exception 'versions of agents are append-only: % of version % of agent % refused',
        tg_op, old.version, old.agent using errcode = 'integrity_constraint_violation';
end $$;
create trigger agent_version_immutable before update or delete on agent_version
    for each row execute function refuse_version_change();
alter table agent_version enable always trigger agent_version_immutable;
"""

COLUMNS = """
alter table session add column trigger_type text, add column trigger_id text,
    add column labels jsonb default '{}'::jsonb not null, add column context_window integer,
    add column completed_at timestamptz;
create index session_created on session (created_at, id);
create index session_conversation on session (conversation_id) where conversation_id is not null;
create index session_runs on session (key, created_at) where key is not null;
create index session_trigger on session (trigger_type, trigger_id) where trigger_type is not null;
create index session_labels on session using gin (labels jsonb_path_ops) where labels <> '{}'::jsonb;
create index session_expires on session (expires_at) where expires_at is not null and status = 'open';
"""

CONVERSATIONS = """
with named as (
    select id, case when key is null then root_id
                    else first_value(root_id) over (partition by key order by created_at, id) end as conversation
    from session where origin is null and recorded_by is null
)
update session set conversation_id = named.conversation from named
where named.id = session.id and session.conversation_id is null;
update session set completed_at = last_event_at where status = 'ended' and completed_at is null;
"""


def upgrade() -> None:
    op.execute(TABLES)
    op.execute(COLUMNS)
    op.execute(CONVERSATIONS)


def downgrade() -> None:
    op.execute("update session set conversation_id = null where origin is null and recorded_by is null")
    for index in ("expires", "labels", "trigger", "runs", "conversation", "created"):
        op.execute(f"drop index session_{index}")
    op.execute(
        "alter table session drop column trigger_type, drop column trigger_id, drop column labels, "
        "drop column context_window, drop column completed_at"
    )
    op.execute("drop table seed; drop table agent_version; drop table agent; drop function refuse_version_change()")
