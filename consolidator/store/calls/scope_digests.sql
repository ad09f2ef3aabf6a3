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
