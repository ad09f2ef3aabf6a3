"""Where imported items are in the log, so that an imported fork reads the log that holds what it copied."""

from __future__ import annotations

from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None

DEFINER = "security definer set search_path = consolidator, pg_temp"  # see 0018
COLUMNS = """
alter table imported_key add column session_id text, add column seq bigint;
alter table session add column past_id text, add column past_seq bigint;
create index session_past on session (past_id) where past_id is not null;
"""

FUNCTIONS = """
-- Notes in which event each of these items is, once; the importer that adds an item says it in the same transaction.
create function place_keys(p_keys uuid[], p_sessions text[], p_seqs bigint[]) returns void language sql {definer} as $$
    update imported_key k set session_id = place.session_id, seq = place.seq
    from unnest(p_keys, p_sessions, p_seqs) as place (key, session_id, seq)
    where k.key = place.key and k.session_id is null
$$;

-- Has an imported session read another one of the same agent, person and project up to an event, as its own past, once;
-- that is its parent, or whichever log got first what both hold. Returns how many ranges it reads.
create function set_past(p_session text, p_source text, p_seq bigint) returns bigint language plpgsql {definer} as $$
begin
    update session s
    set parent_seq = case when s.parent_id = p_source then p_seq else s.parent_seq end,
        past_id = case when s.parent_id is distinct from p_source then p_source end,
        past_seq = case when s.parent_id is distinct from p_source then p_seq end
    from session t
    where s.id = p_session and t.id = p_source and t.id <> s.id
      and s.origin is not null and s.kind <> 'sub-agent' and s.base_seq = 0
      and s.parent_seq is null and s.past_id is null
      and t.origin is not null and p_seq > t.base_seq and p_seq <= t.head
      and t.agent = s.agent and t.peer is not distinct from s.peer and t.project is not distinct from s.project
      and (select count(*) from session_lineage where session_id = p_source) < 1000;
    return inherit_past(p_session);
end $$;

revoke execute on function place_keys(uuid[], text[], bigint[]), set_past(text, text, bigint) from public;
"""

# What a session reads begins in its parent's past, or where an import found it.
REPLACED = {
    "where id = p_session and parent_id <> id and parent_seq > 0": (
        "where id = p_session and coalesce(past_id, parent_id) <> id and coalesce(past_seq, parent_seq) > 0"
    ),
    "where session_id = session.parent_id and": "where session_id = coalesce(session.past_id, session.parent_id) and",
    "child.parent_id": "coalesce(child.past_id, child.parent_id)",
    "child.parent_seq": "coalesce(child.past_seq, child.parent_seq)",
}


def _rewrite_inherit_past(replaced: dict[str, str]) -> None:
    steps = "\n".join(f"    source := replace(source, $a${old}$a$, $b${new}$b$);" for old, new in replaced.items())
    op.execute(f"""
do $$
declare
    source text := pg_get_functiondef('inherit_past(text)'::regprocedure);
begin
{steps}
    execute source;
end $$
""")


def upgrade() -> None:
    op.execute(COLUMNS)
    op.execute(FUNCTIONS.replace("{definer}", DEFINER))
    _rewrite_inherit_past(REPLACED)


def downgrade() -> None:
    _rewrite_inherit_past({new: old for old, new in REPLACED.items()})
    op.execute("drop function place_keys(uuid[], text[], bigint[]), set_past(text, text, bigint)")
    op.execute("drop index session_past; alter table session drop column past_id, drop column past_seq")
    op.execute("alter table imported_key drop column session_id, drop column seq")
