"""Every event tells its principal, sessions tell which client records them, and credentials say who may do what.

Events from before have no principal, and keep their hashes.
"""

from __future__ import annotations

from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

TABLES = """
alter table event add column principal text;
alter table session add column recorded_by text;
-- Sessions with a key that the runtime never opened were recorded by a client.
update session set recorded_by = 'owner'
where key is not null and origin is null and lease_epoch = 0 and config = '{}'::jsonb;
drop index session_key_current;
create unique index session_key_current on session (key) where current and recorded_by is null;
create unique index session_key_recorded on session (recorded_by, key) where current and recorded_by is not null;

create table credential (
    name text not null,
    token_hash bytea not null,
    scopes text[] default '{}'::text[] not null,
    agent text,
    project text,
    peer text,
    created_at timestamptz not null,
    revoked_at timestamptz,
    primary key (name)
);
create unique index credential_token on credential (token_hash);
comment on table credential is 'Who else may ask memory, record or speak for people; a token is kept as its SHA-256.';
"""

# The columns of an event that nobody may change; its principal is one of them now.
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
OLD_COLUMNS = "id, session_id, seq, event_type, data, created_at, task_id, tool_name, hash"
NEW_COLUMNS = OLD_COLUMNS + ", principal"

PARTITION_FUNCTION = """
do $$
begin
    execute replace(pg_get_functiondef('create_event_partition(date)'::regprocedure), '{old} on', '{new} on');
end $$;
"""


def upgrade() -> None:
    op.execute(TABLES)
    op.execute(PARTITION_FUNCTION.format(old=OLD_COLUMNS, new=NEW_COLUMNS))
    op.execute(GUARD.format(columns=NEW_COLUMNS))


def downgrade() -> None:
    op.execute(PARTITION_FUNCTION.format(old=NEW_COLUMNS, new=OLD_COLUMNS))
    op.execute(GUARD.format(columns=OLD_COLUMNS))
    op.execute("drop table credential")
    op.execute("update session set current = false where recorded_by is not null")
    op.execute("drop index session_key_recorded; drop index session_key_current")
    op.execute("create unique index session_key_current on session (key) where current")
    op.execute("alter table session drop column recorded_by")
    op.execute("alter table event drop column principal")
