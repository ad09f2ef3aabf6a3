"""What a session reads of other logs follows from its parent and the point at which it left it; nobody names it.

The role that the service runs as is granted these functions instead of INSERT on session_lineage and UPDATE of where a
session comes from; see `consolidator/database/roles.sql`.
"""

from __future__ import annotations

from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None

DEFINER = "security definer set search_path = consolidator, pg_temp"  # see 0018
FUNCTIONS = """
-- Has a session read its parent's past up to the point where it left it, once; an imported one that numbers its own
-- events from 1 has that past at positions of 0 and below. Nothing for a session without a parent, or with one that is
-- not here. Returns how many ranges it reads.
create function inherit_past(p_session text) returns bigint language plpgsql {definer} as $$
declare
    child session;
    inherited bigint;
begin
    select * into child from session
    where id = p_session and parent_id <> id and parent_seq > 0 and kind <> 'sub-agent'
      and not exists (select from session_lineage where session_id = p_session)
      and not exists (select from session_lineage where session_id = session.parent_id and ancestor_id = p_session);
    if not found then
        return 0;
    end if;
    insert into session_lineage (session_id, position, ancestor_id, after_seq, upto_seq, shift)
    select p_session, row_number() over (order by past.position) - 1, past.ancestor_id, past.after_seq,
           least(past.upto_seq, child.parent_seq - past.shift),
           past.shift - case when child.base_seq = 0 then child.parent_seq else 0 end
    from (
        select position, ancestor_id, after_seq, upto_seq, shift from session_lineage
        where session_id = child.parent_id
        union all
        select 2147483647, id, base_seq, child.parent_seq, 0 from session where id = child.parent_id
    ) past
    where least(past.upto_seq, child.parent_seq - past.shift) > past.after_seq;
    get diagnostics inherited = row_count;
    return inherited;
end $$;

-- Notes the parent of an imported session that came before it was known; one that is known stays.
create function set_parent(p_session text, p_parent text, p_kind text) returns void language sql {definer} as $$
    update session set parent_id = p_parent, kind = p_kind
    where id = p_session and origin is not null and parent_id is null
$$;

-- Moves an imported session and its descendants to the root that they turned out to have; returns those that moved.
create function move_to_root(p_session text, p_root text) returns table (id text)
language sql {definer} as $$
    update session s set root_id = p_root
    where s.root_id = p_session
      and exists (select from session i where i.id = p_session and i.origin is not null)
    returning s.id
$$;

revoke execute on function inherit_past(text), set_parent(text, text, text), move_to_root(text, text) from public;
"""


def upgrade() -> None:
    op.execute(FUNCTIONS.replace("{definer}", DEFINER))


def downgrade() -> None:
    op.execute("drop function inherit_past(text), set_parent(text, text, text), move_to_root(text, text)")
