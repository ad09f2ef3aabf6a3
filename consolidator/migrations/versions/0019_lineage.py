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

FUNCTIONS = """
-- The last event of a session before what somebody else still reads of its log; null where nobody does. A child that is
-- open and not idle reads its window, what waits for an answer, and what its summary does not cover yet; a checkpoint
-- that has not expired reads what a restore from it would.
create function read_floor(p_session text, p_cutoff timestamptz, p_window bigint, p_now timestamptz) returns bigint
language sql stable as $$
    with child as (
        select l.after_seq, l.upto_seq, l.shift,
               case when c.origin is null and c.recorded_by is null
                    then least(c.head - p_window, c.settled_to, coalesce(v.upto, 0))
                    else c.head - p_window end as read_from
        from session_lineage l join session c on c.id = l.session_id left join session_view v on v.session_id = c.id
        where l.ancestor_id = p_session and c.status = 'open' and c.last_event_at >= p_cutoff
        union all
        select c.base_seq, c.head, 0, coalesce(v.upto, 0)
        from session c left join session_view v on v.session_id = c.id
        where c.id = p_session and c.status = 'open' and c.last_event_at >= p_cutoff
          and c.origin is null and c.recorded_by is null
          and exists (select from session_lineage l where l.session_id = c.id)
    ), restore as (
        select coalesce(l.after_seq, s.base_seq) as after_seq, coalesce(l.upto_seq, k.seq) as upto_seq,
               coalesce(l.shift, 0) as shift, least(k.seq - p_window, (k.fold ->> 'upto')::bigint) as read_from
        from (select p_session as id, null::bigint as after_seq, null::bigint as upto_seq, null::bigint as shift
              union all
              select session_id, after_seq, upto_seq, shift from session_lineage where ancestor_id = p_session) l
        join checkpoint k on k.session_id = l.id and (p_now is null or k.expires_at is null or k.expires_at > p_now)
        join session s on s.id = l.id
    )
    select min(greatest(after_seq, read_from - shift))
    from (select * from child union all select * from restore) as reader
    where greatest(after_seq, read_from - shift) < upto_seq
$$;
"""

# Whoever reads an event may have come since it was looked at: a child is created under the lock of its ancestors.
PRUNE_SESSION = """
do $$
begin
    execute replace(
        pg_get_functiondef('prune_session(text, text, bigint, bigint)'::regprocedure),
        $old${old}$old$, $new${new}$new$);
end $$;
"""
OLD_CHECK = """    if exists (
        select from event e where e.session_id = p_session and e.seq > old_session.pruned_to"""
NEW_CHECK = (
    """    if read_floor(p_session, current.cutoff, p_window, null) < p_upto then
        return 0;
    end if;
"""
    + OLD_CHECK
)


def upgrade() -> None:
    op.execute(TABLES)
    op.execute(INDEXES)
    op.execute(FUNCTIONS)
    op.execute(PRUNE_SESSION.replace("{old}", OLD_CHECK).replace("{new}", NEW_CHECK))


def downgrade() -> None:
    op.execute(PRUNE_SESSION.replace("{old}", NEW_CHECK).replace("{new}", OLD_CHECK))
    op.execute("drop function read_floor(text, timestamptz, bigint, timestamptz)")
    op.execute("drop index event_state_patch; drop index event_context_mark")
    op.execute("drop table checkpoint; drop table session_lineage")
    op.execute("alter table session drop constraint session_base; alter table session drop column base_seq")
