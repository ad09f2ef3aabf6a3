-- name: is_known
select exists (
    select from session s where s.project = %(project)s and (%(agent)s::text is null or s.agent = %(agent)s)
      and (%(peer)s::text is null or coalesce(s.peer, '') = %(peer)s)
) as is_known

-- name: projects
-- Every project, from one index entry to the next, so that many sessions of few projects cost little.
with recursive known as (
    (select project from session where project is not null order by project limit 1)
    union all
    select (select s.project from session s where s.project > k.project order by s.project limit 1)
    from known k where k.project is not null
)
select project from known k where project is not null and exists (
    select from session s where s.project = k.project and (%(agent)s::text is null or s.agent = %(agent)s)
      and (%(peer)s::text is null or coalesce(s.peer, '') = %(peer)s)
)

-- name: latest_agent
select agent from session
where kind in ('root', 'fork') and channel is distinct from 'memory'
  and (%(project)s::text is null or project = %(project)s)
order by last_day desc, last_occurred_at desc, id desc limit 1  -- what is imported at once was not created in its order

-- name: shared_with
select distinct project from session
where agent = %(agent)s and memory = %(shared)s and project is not null

-- name: overview
-- Every project with its agents, the latest first.
select s.project, array_agg(distinct s.agent) as agents, count(*) as sessions, max(s.last_occurred_at) as last_at,
       (select count(*) from lesson l where l.person = '' and l.project = s.project and l.retired_at is null and l.kind <> 'call') as lessons,
       (select count(*) from fact f where f.project = s.project and f.superseded_at is null) as facts
from session s where s.project is not null and s.recorded_by is null and s.channel is distinct from 'memory'
  and (%(project)s::text is null or s.project = %(project)s)
group by s.project order by last_at desc, s.project limit %(limit)s

-- name: nights
-- What the latest nights last wrote about a project, the latest first.
select r.id, r.started_at, sum(written.lessons)::bigint as lessons, sum(written.facts)::bigint as facts,
       sum(written.solutions)::bigint as solutions
from (
    select run_id, 1 as lessons, 0 as facts, 0 as solutions from lesson
    where person = '' and project = %(project)s and retired_at is null and kind <> 'call'
    union all
    select run_id, 0, 1, 0 from fact where project = %(project)s and superseded_at is null
    union all
    select run_id, 0, 0, 1 from solution where agent = any(%(agents)s) and project = %(project)s and retired_at is null
) written join run r on r.id = written.run_id
group by r.id, r.started_at order by r.started_at desc limit %(limit)s
