"""Lineage: a child's log begins where it leaves its parent's, and checkpoints name points to restore from."""

from __future__ import annotations

from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

TABLES = """
alter table session add column base_seq bigint default 0 not null;
alter table session add constraint session_base check (0 <= base_seq and base_seq <= pruned_to);

create table session_lineage (
    session_id text not null,
    position integer not null,
    ancestor_id text not null,
    after_seq bigint default 0 not null,
    upto_seq bigint default 0 not null,
    shift bigint default 0 not null,
    primary key (session_id, position),
    foreign key (session_id) references session (id) on delete cascade
);
create index session_lineage_ancestor on session_lineage (ancestor_id);
comment on table session_lineage is 'What a session reads of its ancestors'' logs, the farthest first; written once.';

create table checkpoint (
    id text not null,
    session_id text not null,
    seq bigint default 0 not null,
    label text,
    metadata jsonb default '{}'::jsonb not null,
    delta jsonb default '{}'::jsonb not null,
    fold jsonb default '{}'::jsonb not null,
    created_at timestamptz not null,
    expires_at timestamptz,
    primary key (id),
    foreign key (session_id) references session (id) on delete cascade
);
create index checkpoint_session on checkpoint (session_id, created_at);
create index checkpoint_expires on checkpoint (expires_at);
comment on table checkpoint is 'Labelled points of sessions, to restore from until they expire: pointers, not copies.';
"""

# What a child inherits at any point of a long log is found without reading that log.
INDEXES = """
create index event_state_patch on event (session_id, seq)
    where data ? 'state_patch' or data -> 'data_ref' ?| array['state_patch', '*'];
create index event_context_mark on event (session_id, seq)
    where event_type = 'PolicyDecision' and data ->> 'decision' in ('compaction', 'scratchpad_set');
"""


def upgrade() -> None:
    op.execute(TABLES)
    op.execute(INDEXES)


def downgrade() -> None:
    op.execute("drop index event_state_patch; drop index event_context_mark")
    op.execute("drop table checkpoint; drop table session_lineage")
    op.execute("alter table session drop constraint session_base; alter table session drop column base_seq")
