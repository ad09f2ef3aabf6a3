"""Credentials expire, `drive` is called `write`, and answers to requests with a key are kept for a day."""

from __future__ import annotations

from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

TABLES = """
alter table credential add column expires_at timestamptz;
update credential set scopes = array_replace(scopes, 'drive', 'write');

create table api_request (
    credential text not null,
    key text not null,
    request_hash bytea not null,
    status integer default 0 not null,
    answer text not null,
    location text,
    session_id text,
    created_at timestamptz not null,
    primary key (credential, key)
);
create index api_request_created on api_request (created_at);
create index api_request_session on api_request (session_id);
comment on table api_request is 'Answers to requests of the HTTP API that came with a key, kept for a day.';
"""


def upgrade() -> None:
    op.execute(TABLES)


def downgrade() -> None:
    op.execute("drop table api_request")
    op.execute("update credential set scopes = array_replace(array_remove(scopes, 'admin'), 'write', 'drive')")
    op.execute("alter table credential drop column expires_at")
