-- name: salt
-- Create the salt at first use; of two that do so at once, one gets it in a later try.
with made as (
    insert into setting (name, value) values ('salt', %(salt)s) on conflict (name) do nothing returning value
)
select value from made union all select value from setting where name = 'salt' limit 1

-- name: get_each
select session_id, agent, project, last_at, calls, sequence, seqs, keys, counts, terms, quotes, state, error_state,
       summary, version, trace
from digest where session_id = any(%(sessions)s)

-- name: save
-- The peer is that of the session's lineage root: whose session it is.
insert into digest (session_id, agent, project, last_at, calls, sequence, seqs, keys, counts, terms, quotes,
                    state, error_state, summary, version, trace, peer)
values (%(session_id)s, %(agent)s, %(project)s, %(last_at)s, %(calls)s, %(sequence)s, %(seqs)s, %(keys)s,
        %(counts)s, %(terms)s, %(quotes)s, %(state)s, %(error_state)s, %(summary)s, %(version)s, %(trace)s,
        coalesce((select case when root.id is null then s.peer else root.peer end
                  from session s left join session root on root.id = s.root_id where s.id = %(session_id)s), ''))
on conflict (session_id) do update
set last_at = greatest(digest.last_at, excluded.last_at), calls = excluded.calls, sequence = excluded.sequence, seqs = excluded.seqs,
    keys = excluded.keys, counts = excluded.counts, terms = excluded.terms, quotes = excluded.quotes,
    state = excluded.state, error_state = excluded.error_state, summary = excluded.summary, version = excluded.version,
    trace = excluded.trace, peer = excluded.peer

-- name: terms
select session_id, terms from digest where session_id = any(%(sessions)s)

-- name: quotes
select session_id, seqs, quotes from digest where session_id = any(%(sessions)s)
