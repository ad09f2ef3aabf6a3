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
    trace = excluded.trace, peer = excluded.peer, project = excluded.project

-- name: terms
select session_id, terms from digest where session_id = any(%(sessions)s)

-- name: quotes
select session_id, seqs, quotes from digest where session_id = any(%(sessions)s)

-- name: digests_of_latest
-- What a merge reads of the digests in `latest`, as far as they have no more calls together than it takes.
select d.session_id, s.root_id, coalesce(d.project, '') as project, d.sequence, d.seqs, d.keys, d.counts,
       extract(epoch from d.last_at)::float8 as last_at, d.peer
from (
    select session_id, sum(calls) over (order by last_at desc, session_id desc) - calls as later_calls from latest
) chosen
join digest d on d.session_id = chosen.session_id
join session s on s.id = d.session_id and not s.simulated
where chosen.later_calls < %(calls)s
order by d.last_at desc, d.session_id desc

-- name: latest
with latest as (
    select session_id, last_at, calls from digest where agent = %(agent)s
    order by last_at desc, session_id desc limit %(sessions)s
)
-- include: digests_of_latest

-- name: latest_of_project
with latest as (
    select session_id, last_at, calls from digest where agent = %(agent)s and coalesce(project, '') = %(project)s
    order by last_at desc, session_id desc limit %(sessions)s
)
-- include: digests_of_latest

-- name: latest_of_person
with latest as (
    select session_id, last_at, calls from digest where agent = %(agent)s and peer = %(peer)s
    order by last_at desc, session_id desc limit %(sessions)s
)
-- include: digests_of_latest

-- name: latest_of_person_in_project
with latest as (
    select session_id, last_at, calls from digest
    where agent = %(agent)s and peer = %(peer)s and coalesce(project, '') = %(project)s
    order by last_at desc, session_id desc limit %(sessions)s
)
-- include: digests_of_latest

-- name: people
-- The first people with sessions of an agent, in order, each found by one step in the index.
with recursive person as (
    (select d.peer, 1 as number from digest d join session s on s.id = d.session_id and not s.simulated
     where d.agent = %(agent)s order by d.peer limit 1)
    union all
    select following.peer, person.number + 1
    from person cross join lateral (
        select d.peer from digest d join session s on s.id = d.session_id and not s.simulated
        where d.agent = %(agent)s and d.peer > person.peer order by d.peer limit 1
    ) following
    where person.number < %(limit)s
)
select peer from person
